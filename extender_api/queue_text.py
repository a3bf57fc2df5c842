"""Sentences about queues: why one does not let a workload start, with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from queues.amounts import UNLIMITED
from queues.tree import Defect, Finding
from scheduler.reason import Code
from scheduler.remedy import Change

Numbers = Mapping[str, int | str]

RESOURCES: Final = MappingProxyType({"cpu_milli": "CPU", "memory_bytes": "memory", "gpu_milli": "GPU"})
_MIB: Final = 1 << 20


def amount(resource: str, value: int) -> str:
    """An amount of a resource of queues for people: `2.5 GPUs`, `4 cores`, `1,024 MiB`; `unlimited`."""
    if value == UNLIMITED:
        return "unlimited"
    if resource == "memory_bytes":
        return f"{value / _MIB:,.1f}".removesuffix(".0") + " MiB"
    whole = f"{value / 1000:,.3f}".rstrip("0").rstrip(".")
    if resource == "cpu_milli":
        return f"{whole} {'core' if value == 1000 else 'cores'}"
    return f"{whole} {'GPU' if value == 1000 else 'GPUs'}"


def _over_limit(numbers: Numbers) -> str:
    asked, held, bound = _amounts(numbers)
    return f"queue {numbers['queue']} would exceed its {_what(numbers)} limit: {asked} asked, {held} of {bound} in use"


def _over_quota(numbers: Numbers) -> str:
    asked, held, bound = _amounts(numbers)
    return (
        f"queue {numbers['queue']} has too little {_what(numbers)} quota for non-preemptible work: {asked} asked, "
        f"{held} of {bound} in use by such work"
    )


def _amounts(numbers: Numbers) -> tuple[str, str, str]:
    resource = str(numbers["resource"])
    asked, held, bound = (amount(resource, int(numbers[name])) for name in ("asked", "allocated", "bound"))
    return asked, held, bound


def _what(numbers: Numbers) -> str:
    model = numbers.get("model")
    return str(model) if model else RESOURCES[str(numbers["resource"])]


def _strict(numbers: Numbers) -> str:
    return f"queue {numbers['queue']} is strict, and work that stands before this waits"


SENTENCES: Final[Mapping[Code, Callable[[Numbers], str]]] = MappingProxyType(
    {
        Code.NO_QUEUE: lambda numbers: (
            f"the pod names no queue, and neither namespace {numbers['namespace']} nor the cluster has a default: "
            "label it tangram.scheduler/queue"
        ),
        Code.QUEUE_DOES_NOT_EXIST: lambda numbers: f"queue {numbers['queue']} does not exist (yet)",
        Code.QUEUE_BROKEN: lambda numbers: (
            f"queue {numbers['queue']} has no way to the top of the tree: a parent is missing, or is below it"
        ),
        Code.QUEUE_NOT_A_LEAF: lambda numbers: (
            f"queue {numbers['queue']} has queues below it, and only those without take workloads: name one of them"
        ),
        Code.QUEUE_NOT_ALLOWED: lambda numbers: (
            f"namespace {numbers['namespace']} may not use queue {numbers['queue']}"
        ),
        Code.QUEUE_CORDONED: lambda numbers: f"queue {numbers['queue']} is cordoned: it takes no new work",
        Code.OVER_LIMIT: _over_limit,
        Code.NON_PREEMPTIBLE_OVER_QUOTA: _over_quota,
    }
)


def sentence(code: Code, numbers: Numbers) -> str | None:
    """The sentence for a reason that is about queues; None for others."""
    if code is Code.BEHIND_STRICT_HEAD and "queue" in numbers:
        return _strict(numbers)
    make = SENTENCES.get(code)
    return None if make is None else make(numbers)


def finding(found: Finding) -> str:
    """What is wrong with a queue, and what to change."""
    return f"queue {found.queue}: {_FINDINGS[found.defect](found.numbers)}"


def _sums(numbers: Numbers, name: str) -> str:
    return amount(str(numbers["resource"]), int(numbers[name]))


_FINDINGS: Final[Mapping[Defect, Callable[[Numbers], str]]] = MappingProxyType(
    {
        Defect.PARENT_MISSING: lambda numbers: (
            f"left out, with all below it: queue {numbers['parent']}, the parent of {numbers['of']}, does not exist"
        ),
        Defect.CYCLE: lambda numbers: f"left out: its parents form a circle ({numbers['through']})",
        Defect.DEFINED_TWICE: lambda numbers: (
            f"defined twice: that of {numbers['used']} counts, that of {numbers['ignored']} is ignored"
        ),
        Defect.CHILDREN_EXCEED_QUOTA: lambda numbers: (
            f"the {RESOURCES[str(numbers['resource'])]} quotas of the queues below it come to "
            f"{_sums(numbers, 'children')}, more than its own {_sums(numbers, 'quota')}"
        ),
        Defect.CHILD_EXCEEDS_LIMIT: lambda numbers: (
            f"its {RESOURCES[str(numbers['resource'])]} limit {_sums(numbers, 'limit')} is above that of its parent "
            f"{numbers['parent']}, {_sums(numbers, 'parent_limit')}, which holds"
        ),
        Defect.STARVED_CHILDREN: lambda numbers: (
            f"its {RESOURCES[str(numbers['resource'])]} over-quota weight is 0, so the queues below it never get more "
            "than its quota, whatever their own weights say"
        ),
        Defect.LIMIT_ZERO: lambda numbers: (
            f"its {RESOURCES[str(numbers['resource'])]} limit is 0: nothing that asks for it starts (in KAI's Queues "
            "an unset limit is 0; write -1 for none)"
        ),
    }
)


def remedy(change: Change, numbers: Numbers) -> str:
    """What would make a workload start."""
    return _REMEDIES[change](numbers)


def _quantity(numbers: Numbers, name: str) -> str:
    resource = str(numbers["resource"])
    model = f" ({numbers['model']})" if "model" in numbers else ""
    return (
        amount(resource, int(numbers[name])) + (f" of {RESOURCES[resource]}" if resource != "gpu_milli" else "") + model
    )


def _pods(numbers: Numbers) -> str:
    missing = int(numbers["missing"])
    return "1 more pod" if missing == 1 else f"{missing:,} more pods"


def _frees(numbers: Numbers) -> str:
    missing = int(numbers["missing"])
    devices = "1 more device has" if missing == 1 else f"{missing} more devices have"
    held = f" (held there by {numbers['held_by']})" if "held_by" in numbers else ""
    return f"{devices} to become free on node {numbers['node']}{held}"


_REMEDIES: Final[Mapping[Change, Callable[[Numbers], str]]] = MappingProxyType(
    {
        Change.WORK_OF_QUEUE_ENDS: lambda numbers: (
            f"work of queue {numbers['queue']} has to give back {_quantity(numbers, 'amount')}"
        ),
        Change.RAISE_LIMIT: lambda numbers: (
            f"or its limit has to be raised by {_quantity(numbers, 'by')} (queue {numbers['queue']})"
        ),
        Change.RAISE_QUOTA: lambda numbers: (
            f"or its quota has to be raised by {_quantity(numbers, 'by')} (queue {numbers['queue']})"
        ),
        Change.DEVICES_FREE_ON_NODE: _frees,
        Change.ROOM_ON_NODE: lambda numbers: (
            f"{int(numbers['missing']):,} of {numbers['resource']} have to become free on node {numbers['node']}"
        ),
        Change.LARGER_NODE: lambda numbers: "no node that it may use would hold it even if it were empty: ask for less",
        Change.MORE_PODS: lambda numbers: f"{_pods(numbers)} of its gang must be created",
        Change.ROOM_FOR_PODS: lambda numbers: f"room for {_pods(numbers)} of its gang has to become free",
        Change.ROOM_NEAR_ONE_ANOTHER: lambda numbers: (
            f"room for all {int(numbers['pods']):,} pods has to become free in one domain"
            + (f" of {numbers['level']}" if "level" in numbers else "")
        ),
        Change.RESERVATION_ENDS: lambda numbers: "work that has waited longer has to start first",
        Change.QUEUE_HEAD_STARTS: lambda numbers: (
            f"what stands before it in queue {numbers['queue']} has to start first"
        ),
    }
)
