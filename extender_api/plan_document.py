"""The stateless plan as documents: Kubernetes objects and options in, the contract's JSON out.

One function behind `POST /api/v1/plan` and `tangram plan`, so that both always say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from extender_api import text
from extender_api.cluster.decode import decode_node, decode_pod
from extender_api.cluster.fields import DecodeError
from scheduler.policy import PlacementPolicy
from scheduler.stateless import Pending, Placement, PlanAnswer, PlanInput, plan
from topology import vocabulary
from topology.inventory import InventorySettings

ACTIONS: Final = ("allocate", "consolidate", "reclaim", "preempt", "stale")
READ_KINDS: Final = frozenset({"Node", "Pod", "Namespace", "PriorityClass"})
KNOWN_KINDS: Final = frozenset({"PodDisruptionBudget", "Queue", "PodGroup", "Topology"})


class BadPlanInput(ValueError):
    """Input that cannot be planned; `warnings` says everything that is wrong with it."""

    def __init__(self, warnings: list[str]) -> None:
        super().__init__("; ".join(warnings))
        self.warnings = warnings


def answer(
    document: object, *, inventory: InventorySettings, scheduler_name: str = vocabulary.DEFAULT_SCHEDULER_NAME
) -> dict[str, Any]:
    """Plans the document. Raises BadPlanInput with one line for each thing that is wrong."""
    objects, options = _parts(document)
    problems: list[str] = []
    notes: list[str] = []
    given = PlanInput(
        nodes=tuple(_decoded(objects, "Node", decode_node, problems)),
        pods=tuple(_decoded(_with_priorities(objects, problems), "Pod", decode_pod, problems)),
        namespaces=_namespaces(objects),
        now_ms=_now_ms(options, problems),
        policy=_policy(options, problems),
        inventory=inventory,
        scheduler_name=scheduler_name,
    )
    _check_actions(options, problems, notes)
    notes += _unread_kinds(objects, problems)
    if problems:
        raise BadPlanInput(problems)
    planned = plan(given)
    return _document(planned, notes)


def _parts(document: object) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    if not isinstance(document, Mapping):
        raise BadPlanInput(['the body must be a JSON object with "objects" and optionally "options"'])
    unknown = sorted(set(document) - {"objects", "options"})
    if unknown:
        raise BadPlanInput([f'unknown member "{name}": only "objects" and "options" are read' for name in unknown])
    objects, options = document.get("objects"), document.get("options", {})
    if not isinstance(objects, list) or not all(isinstance(item, Mapping) for item in objects):
        raise BadPlanInput(['"objects" must be a list of Kubernetes objects'])
    if not isinstance(options, Mapping):
        raise BadPlanInput(['"options" must be an object'])
    return objects, options


def _decoded(objects: Iterable[Mapping[str, Any]], kind: str, decode: Any, problems: list[str]) -> Iterable[Any]:
    seen: set[str] = set()
    for item in objects:
        if item.get("kind") != kind:
            continue
        try:
            facts = decode(item)
        except DecodeError as err:
            problems.append(str(err))
            continue
        key = facts.name if kind == "Node" else facts.key
        if key in seen:
            problems.append(f"{kind} {key} stands twice among the objects")
        seen.add(key)
        yield facts


def _with_priorities(objects: list[Mapping[str, Any]], problems: list[str]) -> Iterable[Mapping[str, Any]]:
    """Pods with the number of their priority class filled in, as the API server would have done; and a uid."""
    classes: dict[str, int] = {}
    default = 0
    for item in objects:
        if item.get("kind") == "PriorityClass":
            name, value = _name(item), item.get("value", 0)
            if not isinstance(value, int) or isinstance(value, bool):
                problems.append(f"PriorityClass {name}: value must be an integer")
                continue
            classes[name] = value
            default = value if item.get("globalDefault") is True else default
    for item in objects:
        if item.get("kind") == "Pod":
            yield _resolved(item, classes, default, problems)


def _resolved(
    pod: Mapping[str, Any], classes: Mapping[str, int], default: int, problems: list[str]
) -> Mapping[str, Any]:
    spec, metadata = pod.get("spec"), pod.get("metadata")
    if not isinstance(spec, Mapping) or not isinstance(metadata, Mapping):
        return pod
    patched = dict(pod)
    if not metadata.get("uid"):
        key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
        patched["metadata"] = {**metadata, "uid": key}
    if spec.get("priority") is None:
        name = spec.get("priorityClassName")
        if name and name not in classes and not str(name).startswith("system-"):
            problems.append(f"Pod {metadata.get('name')}: priorityClassName {name} is not among the objects")
        patched["spec"] = {**spec, "priority": classes.get(str(name), default) if name else default}
    return patched


def _name(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _namespaces(objects: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    found = {}
    for item in objects:
        if item.get("kind") == "Namespace":
            labels = item.get("metadata", {}).get("labels") or {}
            found[_name(item)] = {str(key): str(value) for key, value in labels.items()}
    return found


def _now_ms(options: Mapping[str, Any], problems: list[str]) -> int:
    now = options.get("now")
    if now is None:
        return int(datetime.now(UTC).timestamp() * 1000)
    try:
        moment = datetime.fromisoformat(str(now))
    except ValueError:
        problems.append(f'options.now "{now}" is no time like 2026-01-01T00:00:00Z')
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _policy(options: Mapping[str, Any], problems: list[str]) -> PlacementPolicy:
    """The placement asked for; absent means bin-packing, whatever the live default is."""
    asked = options.get("placement") or {}
    if not isinstance(asked, Mapping):
        problems.append("options.placement must be an object with cpu, gpu, device")
        return PlacementPolicy()
    unknown = sorted(set(asked) - {"cpu", "gpu", "device"})
    problems += [f"options.placement.{name} is unknown: cpu, gpu and device are read" for name in unknown]
    try:
        return PlacementPolicy.from_names(**{key: str(name) for key, name in asked.items() if key not in unknown})
    except ValueError as err:
        problems.append(f"options.{err}")
        return PlacementPolicy()


def _check_actions(options: Mapping[str, Any], problems: list[str], notes: list[str]) -> None:
    unknown = sorted(set(options) - {"actions", "now", "placement"})
    problems += [f'unknown option "{name}": actions, now and placement are read' for name in unknown]
    actions = options.get("actions", ["allocate"])
    if not isinstance(actions, list):
        problems.append("options.actions must be a list")
        return
    for action in actions:
        if action not in ACTIONS:
            problems.append(f'options.actions: "{action}" is unknown, {", ".join(ACTIONS)} are known')
        elif action != "allocate":
            notes.append(f'action "{action}" does nothing yet: this version only allocates')


def _unread_kinds(objects: Iterable[Mapping[str, Any]], problems: list[str]) -> list[str]:
    kinds = {str(item.get("kind", "")) for item in objects}
    problems += [f'objects of kind "{kind}" are not understood' for kind in sorted(kinds - READ_KINDS - KNOWN_KINDS)]
    return [
        f"{kind} objects are accepted and not heeded yet: pods are planned one by one, in one unlimited queue"
        for kind in sorted(kinds & KNOWN_KINDS)
    ]


def _document(planned: PlanAnswer, notes: list[str]) -> dict[str, Any]:
    return {
        "placements": [_placement(item) for item in planned.placements],
        "evictions": [],
        "pending": [_pending(item) for item in planned.pending],
        "queues": [],
        "warnings": notes + planned.warnings,
    }


def _placement(item: Placement) -> dict[str, Any]:
    devices = [{"index": share.index, "memoryMiB": share.memory_mib, "milli": share.milli} for share in item.devices]
    return {
        "namespace": item.pod.namespace,
        "name": item.pod.name,
        "node": item.node,
        "devices": devices,
        "when": item.when,
    }


def _pending(item: Pending) -> dict[str, Any]:
    return {
        "namespace": item.pod.namespace,
        "workload": item.pod.name,
        "pods": [item.pod.name],
        "reason": text.reason_document(item.reason),
    }
