"""What the ops API, the status of Queue objects and the command line show of queues: plain documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from extender_api import queue_text, text
from extender_api.queue_objects import status
from queues.amounts import Amounts
from queues.books import Standing
from queues.runtimes import Span
from queues.tree import Finding, Queue
from scheduler.engine import Engine
from scheduler.explanation import Explanation, Level
from scheduler.remedy import Remedy

Json = dict[str, Any]


def queues(engine: Engine) -> Json:
    """All queues, parents before children, with what there is to divide and what is wrong with the tree."""
    accounts = engine.cluster.accounts
    accounts.divide()
    books, shares = accounts.books, accounts.model_shares()
    return {
        "capacity": amounts(accounts.capacity),
        "implicit": accounts.tree.implicit,
        "queues": [
            _queue(engine, queue, books[name], shares.get(name, {})) for name, queue in accounts.tree.queues.items()
        ],
        "findings": [
            {"queue": found.queue, "defect": found.defect.value, "message": queue_text.finding(found)}
            for found in accounts.tree.findings
        ],
    }


def _queue(engine: Engine, queue: Queue, standing: Standing, model_shares: Mapping[str, int]) -> Json:
    spec = queue.spec
    return {
        "name": queue.name,
        "parent": spec.parent,
        "source": spec.source.value,
        "priority": spec.priority,
        "leaf": queue.is_leaf,
        "cordoned": spec.cordoned,
        "strictFifo": spec.strict_fifo,
        "autoscaling": _autoscaling(engine, queue),
        "quota": amounts(spec.quota),
        "limit": amounts(spec.limit),
        "weightMilli": amounts(Amounts(*(terms.weight_milli for terms in spec.terms)), plain=True),
        "fairShare": amounts(standing.fair_share),
        "allocated": amounts(standing.allocated),
        "allocatedNonPreemptible": amounts(standing.allocated_non_preemptible),
        "requested": amounts(standing.requested),
        "models": {
            key: {
                "quotaMilli": terms.quota,
                "limitMilli": terms.limit,
                "allocatedMilli": standing.model_gpu_milli.get(key, 0),
                "fairShareMilli": model_shares.get(key, 0),
            }
            for key, terms in spec.models.items()
        },
        "waiting": standing.waiting,
    }


def _autoscaling(engine: Engine, queue: Queue) -> str:
    """`unsupported` while some work of the queue lacks room and cannot be shown to an autoscaler."""
    if not queue.spec.autoscaling_visible:
        return "hidden"
    return "unsupported" if queue.name in engine.exposure.hidden else "visible"


def amounts(found: Amounts, *, plain: bool = False) -> Json:
    """Amounts in integers with their units; -1 is unlimited. `plain`: by resource alone."""
    if plain:
        return {"gpu": found.gpu_milli, "cpu": found.cpu_milli, "memory": found.memory_bytes}
    return {"gpuMilli": found.gpu_milli, "cpuMilli": found.cpu_milli, "memoryBytes": found.memory_bytes}


# -- one workload --------------------------------------------------------------------------------------------------


def explanation(found: Explanation | None) -> Json:
    """Why a workload waits, as members of its document."""
    if found is None:
        return {"reason": None, "queue": None, "levels": [], "remedies": [], "ahead": None, "startsIn": None}
    return {
        "reason": None if found.reason is None else text.reason_document(found.reason),
        "queue": found.queue or None,
        "levels": [_level(level) for level in found.levels],
        "remedies": [_remedy(remedy) for remedy in found.remedies],
        "ahead": found.ahead,
        "reservedNode": found.reserved_node,
        "startsIn": _span(found.start),
    }


def _level(level: Level) -> Json:
    return {
        "queue": level.queue,
        "asked": amounts(level.asked),
        "allocated": amounts(level.allocated),
        "allocatedNonPreemptible": amounts(level.allocated_non_preemptible),
        "quota": amounts(level.quota),
        "limit": amounts(level.limit),
        "fairShare": amounts(level.fair_share),
        "waiting": level.waiting,
    }


def _remedy(remedy: Remedy) -> Json:
    return {
        "change": remedy.change.value,
        "message": queue_text.remedy(remedy.change, remedy.numbers),
        "details": dict(remedy.numbers),
    }


def _span(span: Span | None) -> Json | None:
    return None if span is None else {"lowMs": span.low_ms, "highMs": span.high_ms}


# -- the status of Queue objects -------------------------------------------------------------------------------------


def statuses(engine: Engine) -> dict[str, Json]:
    """The status of every queue that some object says, by name."""
    accounts = engine.cluster.accounts
    accounts.divide()
    findings: dict[str, list[Finding]] = {}
    for finding in accounts.tree.findings:
        findings.setdefault(finding.queue, []).append(finding)
    found = {name: {"conditions": [_broken(findings[name])]} for name in accounts.tree.broken}
    if not accounts.tree.implicit:
        shares = accounts.model_shares()
        for name, queue in accounts.tree.queues.items():
            found[name] = {
                **_numbers(queue, accounts.books[name], shares.get(name, {})),
                "conditions": list(_conditions(engine, queue, findings.get(name, []))),
            }
    return found


def _numbers(queue: Queue, standing: Standing, model_shares: Mapping[str, int]) -> Json:
    models = {key: standing.model_gpu_milli.get(key, 0) for key in queue.spec.models}
    return {
        "allocated": status.amounts(standing.allocated, models),
        "allocatedNonPreemptible": status.amounts(standing.allocated_non_preemptible),
        "requested": status.amounts(standing.requested),
        "fairShare": status.amounts(standing.fair_share, {key: model_shares.get(key, 0) for key in models}),
        "waiting": standing.waiting,
        "children": list(queue.children),
    }


def _broken(findings: Sequence[Finding]) -> Json:
    told = "; ".join(map(queue_text.finding, findings))
    return status.condition("Ready", False, findings[0].defect.value, told)


def _conditions(engine: Engine, queue: Queue, findings: Sequence[Finding]) -> Iterator[Json]:
    """Ready (part of the tree), Sound (nothing in it is hardly meant), and Autoscaling where it is asked for."""
    yield status.condition("Ready", True, "InTree", "the queue takes part")
    if findings:
        told = "; ".join(map(queue_text.finding, findings))
        yield status.condition("Sound", False, findings[0].defect.value, told)
    else:
        yield status.condition("Sound", True, "NothingFound")
    if queue.spec.autoscaling_visible:
        hidden = queue.name in engine.exposure.hidden
        why = "work waits that no node bears and that autoscalers cannot see: shares, or hidden by shares"
        yield status.condition("Autoscaling", not hidden, "Unsupported" if hidden else "Visible", why if hidden else "")
