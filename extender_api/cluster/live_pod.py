"""A pod as the API server has it now, for the moment when a write was refused or went unanswered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extender_api.cluster import paths
from extender_api.cluster.answer import Unreachable
from extender_api.cluster.client import ClusterClient
from topology import vocabulary


@dataclass(frozen=True, slots=True)
class LivePod:
    """`gate_index` is the place of our gate, `message_index` that of the condition whose message we may write."""

    node: str
    deleting: bool
    gate_index: int | None
    message_index: int | None


async def look(
    client: ClusterClient, namespace: str, name: str, uid: str, *, timeout_s: float | None = None
) -> LivePod | None:
    """The pod, or None when there is none with this uid. Raises Unreachable when that cannot be found out."""
    answer = await client.get(paths.pod(namespace, name), timeout_s=timeout_s)
    if answer.status == 404:
        return None
    if not answer.ok:
        raise Unreachable(f"{answer.status}: {answer.message}", maybe_done=False)
    pod = answer.json()
    meta, spec, status = (_object(pod, part) for part in ("metadata", "spec", "status"))
    if meta.get("uid") != uid:
        return None
    return LivePod(
        node=str(spec.get("nodeName") or ""),
        deleting="deletionTimestamp" in meta,
        gate_index=_index(spec.get("schedulingGates"), {"name": vocabulary.GATE}),
        message_index=_index(status.get("conditions"), {"type": "PodScheduled", "reason": "SchedulingGated"}),
    )


def _object(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _index(items: Any, wanted: Mapping[str, str]) -> int | None:
    """The place of the first item with all the wanted members."""
    for index, item in enumerate(items or ()):
        if wanted.items() <= item.items():
            return index
    return None
