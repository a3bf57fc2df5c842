"""The stateless plan as documents: Kubernetes objects and options in, the contract's JSON out.

One function behind `POST /api/v1/plan` and `tangram plan`, so that both always say the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json

from extender_api import queue_text, text
from extender_api.plan_objects import read_objects
from extender_api.plan_options import read_options
from queues.amounts import Amounts
from scheduler.claim import DEFAULT_RULES, ClaimRules
from scheduler.object_index import ObjectIndex
from scheduler.plan_answer import Eviction, Pending, Placement, PlanAnswer, QueueShare
from scheduler.stateless import PlanInput, plan
from topology.inventory import InventorySettings

MEMBERS: Final = ("objects", "options")


class BadPlanInput(ValueError):
    """Input that cannot be planned; `warnings` says everything that is wrong with it."""

    def __init__(self, warnings: list[str]) -> None:
        super().__init__("; ".join(warnings))
        self.warnings = warnings


def answer(document: object, *, inventory: InventorySettings, rules: ClaimRules = DEFAULT_RULES) -> dict[str, Any]:
    """Plans the document. Raises BadPlanInput with one line for each thing that is wrong.

    The order of the objects makes no difference.
    """
    if not isinstance(document, Mapping):
        raise BadPlanInput(['a plan document is an object with "objects" and optionally "options"'])
    unknown = sorted(str(key) for key in document if key not in MEMBERS)
    problems = [f'unknown member "{name}": objects and options are read' for name in unknown]
    objects = read_objects(document.get("objects"), rules.scheduler_name)
    options = read_options(document.get("options"))
    problems += [*options.problems, *sorted(objects.problems)]
    if problems:
        raise BadPlanInput(problems)
    planned = plan(
        PlanInput(
            nodes=tuple(objects.nodes),
            pods=tuple(objects.pods),
            namespaces=objects.namespaces,
            now_ms=options.now_ms,
            policy=options.policy,
            mix=options.mix,
            inventory=inventory,
            queues=tuple(objects.queues),
            rules=rules,
            allocate=options.allocate,
            stale=options.stale,
            topologies=tuple(objects.topologies),
            objects=ObjectIndex({(item.group, item.kind) for item in objects.objects}, objects.objects),
        )
    )
    return _document(planned, options.notes + objects.notes)


def answer_json(body: bytes, *, inventory: InventorySettings, rules: ClaimRules = DEFAULT_RULES) -> tuple[int, bytes]:
    """The same as bytes: the body of a request in, HTTP status (200 or 400) and the body of the answer out."""
    try:
        document = from_json(body, allow_inf_nan=False)
    except ValueError as err:
        return 400, _encoded({"warnings": [f"not JSON: {err}"]})
    try:
        return 200, _encoded(answer(document, inventory=inventory, rules=rules))
    except BadPlanInput as err:
        return 400, _encoded({"warnings": err.warnings})


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _document(planned: PlanAnswer, notes: list[str]) -> dict[str, Any]:
    return {
        "placements": [_placement(item) for item in planned.placements],
        "evictions": [_eviction(item) for item in planned.evictions],
        "pending": [_pending(item) for item in planned.pending],
        "queues": [_queue(item) for item in planned.queues],
        "warnings": notes + [queue_text.finding(found) for found in planned.findings] + planned.warnings,
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


def _eviction(item: Eviction) -> dict[str, Any]:
    return {
        "namespace": item.pod.namespace,
        "name": item.pod.name,
        "action": item.action,
        "for": item.beneficiary,
    }


def _queue(item: QueueShare) -> dict[str, Any]:
    return {
        "name": item.name,
        "fairShare": _amounts(item.fair_share),
        "allocated": _amounts(item.allocated),
        "requested": _amounts(item.requested),
    }


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {"gpuMilli": amounts.gpu_milli, "cpuMilli": amounts.cpu_milli, "memoryBytes": amounts.memory_bytes}


def _pending(item: Pending) -> dict[str, Any]:
    return {
        "namespace": item.pods[0].namespace,
        "workload": item.workload,
        "pods": [pod.name for pod in item.pods],
        "reason": text.reason_document(item.reason),
    }
