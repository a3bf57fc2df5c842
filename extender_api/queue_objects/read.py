"""Queues of every kind as the tree takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from extender_api.cluster.fields import DecodeError, FieldError, epoch_ms, first_problem
from extender_api.queue_objects import kai, model
from extender_api.spec_model import API_VERSION, LONGEST_NAME
from queues.amounts import UNLIMITED
from queues.spec import ONE_WEIGHT, UNLIMITED_TERMS, Access, QueueSpec, Source, Terms
from topology import duration, gpu_model, quantity
from topology.selector import Requirement, well_formed

Object = Mapping[str, Any]
Spec = TypeVar("Spec", bound=BaseModel)
KIND: Final = "Queue"
MEMBERS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_NAME: Final = re.compile(rf"[A-Za-z0-9]([-A-Za-z0-9_.]{{0,{LONGEST_NAME - 2}}}[A-Za-z0-9])?", re.ASCII)
_UNIT: Final = {"cpu": 1000, "memory": 1, "gpu": 1000}


def read_queue(content: Object, source: Source = Source.TANGRAM) -> QueueSpec:
    """A queue of our kind (read from `source`) or of KAI's, told by its apiVersion. Raises DecodeError."""
    name = name_of(content)
    if not name:
        raise DecodeError(KIND, ("metadata", "name"), "Field required")
    try:
        return queue_spec(content, source)
    except FieldError as err:
        raise DecodeError(f"{KIND} {name}", err.path, err.problem) from None


def name_of(content: Object) -> str:
    """The name of an object, "" where it has none that could be one."""
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def queue_spec(content: Object, source: Source = Source.TANGRAM) -> QueueSpec:
    """The same for an object that has a name. Raises FieldError."""
    metadata, version = content["metadata"], content.get("apiVersion") or API_VERSION
    meta = {
        "name": metadata["name"],
        "uid": str(metadata.get("uid") or ""),
        "created_ms": epoch_ms(metadata.get("creationTimestamp"), "metadata", "creationTimestamp") or 0,
    }
    if version == kai.API_VERSION:
        return kai.kai_spec(_validated(kai.KaiSpec, content), **meta)
    if version != API_VERSION:
        raise FieldError(("apiVersion",), f"{version} is not read: write {API_VERSION} or {kai.API_VERSION}")
    if not _NAME.fullmatch(metadata["name"]):
        problem = f"must be able to stand in a label: at most {LONGEST_NAME} letters, digits, '-', '_' and '.'"
        raise FieldError(("metadata", "name"), problem)
    for key in content:
        if key not in MEMBERS:
            raise FieldError((str(key),), "no such field in a Queue")
    return _ours(_validated(model.QueueSpecModel, content), source, meta)


def _validated(kind: type[Spec], content: Object) -> Spec:
    """The spec of an object; an absent one is empty."""
    try:
        return kind.model_validate({} if content.get("spec") is None else content["spec"])
    except ValidationError as err:
        problem = first_problem(err)
        path = (part for part in problem.path if part != "[key]")
        raise FieldError(("spec", *path), _clear(problem.problem)) from None


def _clear(problem: str) -> str:
    if problem.startswith("Extra inputs"):
        return "no such field in a Queue"
    return problem.removeprefix("Value error, ")


def _ours(spec: model.QueueSpecModel, source: Source, meta: dict[str, Any]) -> QueueSpec:
    resources = spec.resources or model.Resources()
    return QueueSpec(
        parent=spec.parent,
        priority=spec.priority,
        # a queue that says nothing at all of CPU or memory is about devices alone
        cpu=UNLIMITED_TERMS if resources.cpu is None else _terms(resources.cpu, "cpu"),
        memory=UNLIMITED_TERMS if resources.memory is None else _terms(resources.memory, "memory"),
        gpu=_terms(resources.gpu, "gpu"),
        models=_models(resources.gpuModels or {}),
        preempt_min_runtime_ms=_duration_ms(spec.preemptMinRuntime),
        reclaim_min_runtime_ms=_duration_ms(spec.reclaimMinRuntime),
        access=Access(frozenset(spec.namespaces or ()), _selector(spec.namespaceSelector)),
        topology=spec.topology,
        pools=tuple(spec.pools or ()),
        cordoned=spec.cordoned,
        strict_fifo=spec.strictFifo,
        autoscaling_visible=spec.autoscaling == "visible",
        starving_after_ms=_duration_ms(spec.starvingAfter),
        source=source,
        **meta,
    )


def _terms(terms: model.ResourceTerms | None, resource: str) -> Terms:
    if terms is None:
        return Terms()
    quota, limit = _amount(terms.quota, resource, 0), _amount(terms.limit, resource, UNLIMITED)
    _check(quota, limit, ("spec", "resources", resource))
    return Terms(quota, limit, _weight_milli(terms.overQuotaWeight))


def _weight_milli(weight: float | None) -> int:
    """At least one thousandth for every weight above 0: a small claim is a claim."""
    if weight is None:
        return ONE_WEIGHT
    return max(round(weight * ONE_WEIGHT), 1) if weight > 0 else 0


def _models(models: Mapping[str, model.ModelTerms]) -> dict[str, Terms]:
    found: dict[str, Terms] = {}
    written: dict[str, str] = {}
    for key, terms in models.items():
        path = ("spec", "resources", "gpuModels", key)
        name = gpu_model.normalise(key)
        if not name:
            raise FieldError(path, "names no GPU model: write e.g. H100")
        other = next((seen for seen in found if gpu_model.overlap(seen, name)), None)
        if other is not None:
            raise FieldError(path, f"matches products that {written[other]} matches, too: keep one of them")
        quota, limit = _amount(terms.quota, "gpu", UNLIMITED), _amount(terms.limit, "gpu", UNLIMITED)
        _check(quota if terms.quota is not None else 0, limit, path)
        found[name], written[name] = Terms(quota, limit), key
    return found


def _check(quota: int, limit: int, path: tuple[str, ...]) -> None:
    if limit != UNLIMITED and (quota == UNLIMITED or quota > limit):
        raise FieldError(path, "limit must not be below quota; write -1 for no limit")


def _amount(written: str | int | float | None, resource: str, unset: int) -> int:
    """In the unit of Amounts; parts of a unit are rounded up."""
    if written is None:
        return unset
    if model.is_unlimited(written):
        return UNLIMITED
    exact = quantity.parse(written) * _UNIT[resource]
    return min(-(-exact.numerator // exact.denominator), quantity.MAX)


def _selector(found: model.LabelSelector | None) -> tuple[Requirement, ...] | None:
    if found is None:
        return None
    requirements = [Requirement(key, "In", (value,)) for key, value in sorted((found.matchLabels or {}).items())]
    for said in found.matchExpressions or ():
        requirements.append(Requirement(said.key, said.operator, tuple(said.values or ())))
    for requirement in requirements:
        if not well_formed(requirement):
            problem = f"{requirement.key} {requirement.operator} {list(requirement.values)} is no valid requirement"
            raise FieldError(("spec", "namespaceSelector"), problem)
    return tuple(requirements)


def _duration_ms(text: str | None) -> int | None:
    return None if text is None else duration.parse_ms(text)
