"""Planning without a cluster: objects in, a plan out. One call is one round; nothing is remembered.

What pods that are being deleted hold counts as about to be free: a pod that needs it is placed `after-release`. So two
views are kept: `now`, where they still hold it, and `later`, where they do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from scheduler import placement
from scheduler.adoption import bound_request
from scheduler.allocation import Allocation, AllocationError, DeviceShare, from_annotation
from scheduler.cluster import Cluster
from scheduler.constraints import Constraints, constraints_of
from scheduler.planner import in_order
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord, invalid_request
from scheduler.request import Demand, Request, RequestError, parse_request, warnings_of
from topology import vocabulary
from topology.inventory import InventorySettings
from topology.node import NodeFacts

STUCK_AFTER_MS: Final = 120_000
"""A pod that should be gone for so long is stuck: nobody may count on what it holds."""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A cluster at one moment. `now_ms` is epoch milliseconds."""

    nodes: tuple[NodeFacts, ...]
    pods: tuple[PodFacts, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    now_ms: int
    policy: PlacementPolicy
    inventory: InventorySettings
    scheduler_name: str = vocabulary.DEFAULT_SCHEDULER_NAME


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod goes. `devices` may be empty when it has to wait for a release."""

    pod: PodFacts
    node: str
    devices: tuple[DeviceShare, ...]
    when: Literal["now", "after-release"]


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that fits nowhere, and why."""

    pod: PodFacts
    reason: Reason


@dataclass(slots=True)
class PlanAnswer:
    """The round's outcome, in the order in which it was decided."""

    placements: list[Placement] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan(given: PlanInput) -> PlanAnswer:
    """Places the waiting pods of the given cluster."""
    answer = PlanAnswer()
    now, later = _views(given, answer)
    for record in in_order(_waiting(given, answer)):
        _decide(record, now, later, answer)
    return answer


def _views(given: PlanInput, answer: PlanAnswer) -> tuple[Cluster, Cluster]:
    now = Cluster(inventory=given.inventory, policy=given.policy)
    later = Cluster(inventory=given.inventory, policy=given.policy)
    for facts in given.nodes:
        now.set_node(facts)
        later.set_node(facts)
    for name, labels in given.namespaces.items():
        now.set_namespace(name, labels)
        later.set_namespace(name, labels)
    known = {facts.name for facts in given.nodes}
    resources = given.inventory.device_resources
    for pod in given.pods:
        if pod.node_name is None or pod.finished:
            continue
        if pod.node_name not in known:
            answer.warnings.append(f"pod {pod.key} is on node {pod.node_name}, which is not among the objects")
        request = bound_request(pod, given.scheduler_name, resources)
        allocation = _allocation(pod, answer)
        now.adopt(pod, request, allocation)
        if not _about_to_go(pod, given.now_ms):
            later.adopt(pod, request, allocation)
    return now, later


def _allocation(pod: PodFacts, answer: PlanAnswer) -> Allocation | None:
    text = pod.annotations.get(vocabulary.ALLOCATION)
    if text is None:
        return None
    try:
        allocation = from_annotation(text)
    except AllocationError as err:
        answer.warnings.append(f"pod {pod.key}: annotation {vocabulary.ALLOCATION} is ignored: {err}")
        return None
    if allocation.node != pod.node_name:
        answer.warnings.append(
            f"pod {pod.key}: annotation {vocabulary.ALLOCATION} is ignored: it names node {allocation.node}, "
            f"the pod is on {pod.node_name}"
        )
        return None
    return allocation


def _about_to_go(pod: PodFacts, now_ms: int) -> bool:
    return pod.deleted_ms is not None and now_ms - pod.deleted_ms <= STUCK_AFTER_MS


def _waiting(given: PlanInput, answer: PlanAnswer) -> Iterable[PodRecord]:
    for pod in given.pods:
        if pod.node_name is not None or pod.finished or pod.deleted_ms is not None:
            continue
        if pod.scheduler_name != given.scheduler_name:
            continue
        if pod.held_by_others:
            answer.pending.append(Pending(pod, Reason(Code.HELD_BY_OTHER_GATE)))
            continue
        try:
            request = parse_request(pod, given.inventory.device_resources)
        except RequestError as err:
            answer.pending.append(Pending(pod, invalid_request(err)))
            continue
        answer.warnings += [f"pod {pod.key}: {warning.text}" for warning in warnings_of(pod)]
        yield PodRecord(pod, constraints_of(pod), request, None, since_ms=given.now_ms)


def _decide(record: PodRecord, now: Cluster, later: Cluster, answer: PlanAnswer) -> None:
    pod, constraints, request = record.facts, record.constraints, record.request
    assert request is not None
    allocation = _place_now(pod, request, constraints, now, later)
    if allocation is not None:
        now.book(pod, request, allocation, None)
        later.book(pod, request, allocation, None)
        answer.placements.append(Placement(pod, allocation.node, allocation.devices, "now"))
        return
    allocation = later.place(pod, request, constraints)
    if allocation is not None:
        later.book(pod, request, allocation, None)
        answer.placements.append(Placement(pod, allocation.node, allocation.devices, "after-release"))
        return
    answer.pending.append(Pending(pod, later.why(pod, request, constraints)))


def _place_now(
    pod: PodFacts, request: Request, constraints: Constraints, now: Cluster, later: Cluster
) -> Allocation | None:
    """A place that is free now and promised to nobody for later: it must be free in both views."""
    mask = now.mask(pod, constraints) & placement.fits(later.state, request, later.mask(pod, constraints))
    while mask.any():
        allocation = placement.place(now.state, request, mask)
        if allocation is None:
            return None
        if _free_later(allocation, request, later):
            return allocation
        mask = mask.copy()
        mask[now.state.slot_of[allocation.node]] = False
    return None


def _free_later(allocation: Allocation, request: Request, later: Cluster) -> bool:
    if request.demand is Demand.NONE or not allocation.devices:
        return True
    slot = later.state.slot_of[allocation.node]
    arrays = later.state.arrays
    return all(
        arrays.device_free_milli[slot, share.index] >= share.milli
        and arrays.device_free_mib[slot, share.index] >= share.memory_mib
        and (request.demand is Demand.SHARE or arrays.device_holders[slot, share.index] == 0)
        for share in allocation.devices
    )
