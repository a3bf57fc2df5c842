"""Objects that own or describe workloads, of any kind, as facts: their JSON without what plays no part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Required

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from extender_api.cluster.codec import Codec, EventModel, PageModel
from extender_api.cluster.fields import FieldError, epoch_ms
from extender_api.cluster.object_kinds import ObjectKind
from extender_api.cluster.pod import controller
from extender_api.cluster.pod_model import MetaModel
from scheduler.object_facts import ObjectFacts

Json = Mapping[str, Any]

NOT_KEPT: Final = frozenset(
    {
        "containers",
        "initContainers",
        "ephemeralContainers",
        "volumes",
        "volumeMounts",
        "volumeClaimTemplates",
        "env",
        "envFrom",
        "managedFields",
    }
)
"""Members that are dropped wherever they stand: most of an object, and nothing about groups."""
STATUS_KEPT: Final = frozenset(
    {"succeeded", "completedIndexes", "failedIndexes", "restarts", "terminalState", "rayClusterName"}
)
"""What is kept of a status where it is a plain value: the rest changes with every pod."""
SUCCEEDED: Final = "succeeded"
ACTIVE: Final = "active"
"""Kept of a Job once one of its pods has succeeded: before that it says nothing, and changes with every pod."""
REPLICA_STATUSES: Final = "replicaStatuses"
"""By kind of replica, of which only what succeeded is kept."""
_ANNOTATIONS_NOT_KEPT: Final = "kubectl.kubernetes.io/"
DEEPEST: Final = 64


class ObjectModel(TypedDict, total=False):
    apiVersion: str | None
    kind: str | None
    metadata: Required[MetaModel]
    spec: dict[str, Any] | None
    status: dict[str, Any] | None


_MODEL: Final = TypeAdapter(ObjectModel)
_PAGE: Final = TypeAdapter(PageModel[ObjectModel])
_EVENT: Final = TypeAdapter(EventModel[ObjectModel])


def object_codec(kind: ObjectKind, version: str) -> Codec[ObjectModel, ObjectFacts]:
    """The codec of a kind in a version; objects in lists do not repeat either. The key is the uid."""

    def facts(model: ObjectModel) -> ObjectFacts:
        return object_facts(model, f"{kind.group}/{version}", kind.kind)

    def same(old: ObjectFacts, new: ObjectFacts) -> bool:
        return old == new

    return Codec(kind.kind, model=_MODEL, page=_PAGE, event=_EVENT, facts=facts, key=_key, same=same)


def object_facts(model: ObjectModel, api_version: str, kind: str) -> ObjectFacts:
    """The facts of a validated object. Raises FieldError for a bad time, and for JSON in too many layers."""
    meta = model["metadata"]
    annotations = meta.get("annotations") or {}
    return ObjectFacts(
        api_version=api_version,
        kind=kind,
        namespace=meta.get("namespace") or "default",
        name=meta["name"],
        uid=meta.get("uid") or "",
        labels=meta.get("labels") or {},
        annotations={key: said for key, said in annotations.items() if not key.startswith(_ANNOTATIONS_NOT_KEPT)},
        owner=controller(meta),
        created_ms=epoch_ms(meta.get("creationTimestamp"), "metadata", "creationTimestamp") or 0,
        spec=_reduced(model.get("spec") or {}, DEEPEST),
        status=_status(model.get("status") or {}),
    )


def _status(said: Json) -> Json:
    kept: dict[str, Any] = {
        key: value for key, value in said.items() if key in STATUS_KEPT and isinstance(value, str | int | float)
    }
    active = said.get(ACTIVE)
    if kept.get(SUCCEEDED) and isinstance(active, int):
        kept[ACTIVE] = active
    replicas = said.get(REPLICA_STATUSES)
    if isinstance(replicas, dict):
        counts = {kind: one.get(SUCCEEDED) for kind, one in replicas.items() if isinstance(one, dict)}
        done = {kind: {SUCCEEDED: count} for kind, count in counts.items() if count and isinstance(count, int)}
        if done:
            kept[REPLICA_STATUSES] = done
    return kept


def _key(meta: MetaModel) -> str:
    return meta.get("uid") or f"{meta.get('namespace') or 'default'}/{meta['name']}"


def _reduced(value: Any, layers: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if not layers:
        raise FieldError(("spec",), f"has more than {DEEPEST} layers")
    if isinstance(value, list):
        return [_reduced(inner, layers - 1) for inner in value]
    return {key: _reduced(inner, layers - 1) for key, inner in value.items() if key not in NOT_KEPT}
