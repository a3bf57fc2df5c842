"""Queues of every kind as the tree takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from extender_api.cluster.fields import DecodeError, FieldError, epoch_ms, first_problem
from extender_api.queue_objects import kai, model
from queues.amounts import UNLIMITED
from queues.spec import ONE_WEIGHT, Access, QueueSpec, Source, Terms
from topology import duration, gpu_model, quantity, vocabulary
from topology.selector import Requirement, well_formed

Object = Mapping[str, Any]
Spec = TypeVar("Spec", bound=BaseModel)
MEMBERS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
KAI_GROUP: Final = vocabulary.KAI_QUEUE_GROUP
_UNIT: Final = {"cpu": 1000, "memory": 1, "gpu": 1000}


def read_queue(content: Object, source: Source = Source.TANGRAM) -> QueueSpec:
    """A queue of our kind (read from `source`) or of KAI's, told by its apiVersion. Raises DecodeError."""
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise DecodeError("Queue", ("metadata", "name"), "Field required")
    assert isinstance(metadata, Mapping)
    where = f"Queue {name}"
    version = content.get("apiVersion") or model.API_VERSION
    try:
        meta = {
            "name": name,
            "uid": str(metadata.get("uid") or ""),
            "created_ms": epoch_ms(metadata.get("creationTimestamp"), "metadata", "creationTimestamp") or 0,
        }
        if version == kai.API_VERSION:
            return kai.kai_spec(_validated(kai.KaiSpec, content), **meta)
        if version != model.API_VERSION:
            raise FieldError(("apiVersion",), f"{version} is not read: write {model.API_VERSION} or {kai.API_VERSION}")
        for key in content:
            if key not in MEMBERS:
                raise FieldError((str(key),), "no such field in a Queue")
        return _ours(_validated(model.QueueSpecModel, content), source, meta)
    except FieldError as err:
        raise DecodeError(where, err.path, err.problem) from None
    except duration.DurationError as err:
        raise DecodeError(where, ("spec",), str(err)) from None


def read_file(text: str, name: str) -> tuple[list[QueueSpec], list[str]]:
    """The queues of a file of YAML documents (lists of objects, too), and what is wrong with the rest of it.

    Raises DecodeError for a file that is no YAML. Queues of KAI's kind keep its meaning.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as err:
        raise DecodeError(name, (), f"not YAML: {' '.join(str(err).split())}") from None
    found, problems = [], []
    for where, content in _objects(documents, name):
        if not isinstance(content, Mapping) or content.get("kind") != "Queue":
            problems.append(f"{where}: not a Queue; only Queues are read from this file")
            continue
        try:
            found.append(read_queue(content, Source.FILE))
        except DecodeError as err:
            problems.append(f"{where}: {err}")
    return found, problems


def _objects(documents: list[Any], name: str) -> Iterator[tuple[str, Any]]:
    for number, document in enumerate(documents, start=1):
        where = f"{name}, document {number}"
        if document is None:
            continue
        if isinstance(document, Mapping) and isinstance(document.get("items"), list):
            yield from ((f"{where}, item {at}", item) for at, item in enumerate(document["items"], start=1))
        else:
            yield where, document


def _validated(kind: type[Spec], content: Object) -> Spec:
    """The spec of an object; an absent one is empty."""
    try:
        return kind.model_validate({} if content.get("spec") is None else content["spec"])
    except ValidationError as err:
        problem = first_problem(err)
        raise FieldError(("spec", *problem.path), _clear(problem.problem)) from None


def _clear(problem: str) -> str:
    if problem.startswith("Extra inputs"):
        return "no such field in a Queue"
    return problem.removeprefix("Value error, ")


def _ours(spec: model.QueueSpecModel, source: Source, meta: dict[str, Any]) -> QueueSpec:
    resources = spec.resources or model.Resources()
    return QueueSpec(
        parent=spec.parent,
        priority=spec.priority,
        cpu=_terms(resources.cpu, "cpu"),
        memory=_terms(resources.memory, "memory"),
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
    weight = ONE_WEIGHT if terms.overQuotaWeight is None else round(terms.overQuotaWeight * ONE_WEIGHT)
    quota, limit = _amount(terms.quota, resource, 0), _amount(terms.limit, resource, UNLIMITED)
    _check(quota, limit, ("spec", "resources", resource))
    return Terms(quota, limit, weight)


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
    exact = quantity.parse(written)
    if exact == UNLIMITED:
        return UNLIMITED
    exact *= _UNIT[resource]
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
