"""Planning without a cluster: facts in, a plan out. One call is one round; nothing is remembered.

What pods that are being deleted hold counts as about to be free, and a pod that needs it is placed `after-release`. So
there are two views of the cluster: `now`, where they still hold it, and `later`, where they are gone. A place that is
given now must be free in both, since it may be promised to somebody for later.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from scheduler import placement, planner
from scheduler.adoption import bound_request, written_allocation
from scheduler.allocation import Allocation, AllocationError, DeviceShare
from scheduler.cluster import Cluster
from scheduler.constraints import constraints_of
from scheduler.entry import problem
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy, Strategy
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord, invalid_request
from scheduler.request import Demand, Request, RequestError, parse_request, warnings_of
from topology import vocabulary
from topology.inventory import InventorySettings
from topology.node import NodeFacts

STUCK_AFTER_MS: Final = 120_000
"""A pod that should be gone for longer is stuck: nobody may count on what it holds."""

When = Literal["now", "after-release"]


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A cluster at one moment, its nodes and pods in any order. `now_ms` is epoch milliseconds.

    Without `allocate` nothing is placed: only the reasons of those that fit nowhere are found.
    """

    nodes: tuple[NodeFacts, ...]
    pods: tuple[PodFacts, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    now_ms: int
    policy: PlacementPolicy
    inventory: InventorySettings
    scheduler_name: str = vocabulary.DEFAULT_SCHEDULER_NAME
    allocate: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod goes, with its devices; `after-release` when it needs what somebody is still about to give back."""

    pod: PodFacts
    node: str
    devices: tuple[DeviceShare, ...]
    when: When


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that has to wait, and why."""

    pod: PodFacts
    reason: Reason


@dataclass(slots=True)
class PlanAnswer:
    """The round's outcome, in the order in which it was decided."""

    placements: list[Placement] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan(given: PlanInput) -> PlanAnswer:
    """One round over the waiting pods of the given cluster. The order of nodes and pods makes no difference."""
    answer = PlanAnswer()
    pods = sorted(given.pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))
    round_ = _Round(_Views(given, pods, answer.warnings), given)
    for record in planner.in_order(_waiting(given, pods, answer)):
        placed = round_.place(record)
        if placed is not None:
            answer.placements.append(placed)
        elif (reason := round_.why(record)) is not None:
            answer.pending.append(Pending(record.facts, reason))
    return answer


def _waiting(given: PlanInput, pods: list[PodFacts], answer: PlanAnswer) -> Iterator[PodRecord]:
    """Records of the pods that want a place. Those that cannot have one go to the answer at once."""
    for pod in pods:
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


class _Round:
    """Places pods one after another. Room only shrinks, so what failed once is not searched for again."""

    def __init__(self, views: _Views, given: PlanInput) -> None:
        self._views = views
        self._now_ms = given.now_ms
        self._allocate = given.allocate
        self._failed: dict[Hashable, Reason] = {}

    def place(self, record: PodRecord) -> Placement | None:
        """Where the pod goes, booked; None when it fits nowhere or nothing is to be placed."""
        if not self._allocate or self._form(record) in self._failed:
            return None
        return self._views.place(record)

    def why(self, record: PodRecord) -> Reason | None:
        """Why it fits nowhere; None when it would fit."""
        form = self._form(record)
        reason = self._failed.get(form)
        if reason is None:
            if not self._allocate and self._views.fits(record):
                return None
            reason = self._views.why(record)
            if form is not None:
                self._failed[form] = reason
        return reason

    def _form(self, record: PodRecord) -> Hashable | None:
        return planner.form(self._views.later, record, self._now_ms)


class _Views:
    """The cluster now and later; one object where nobody is about to go. Nodes have the same slots in both."""

    def __init__(self, given: PlanInput, pods: list[PodFacts], warnings: list[str]) -> None:
        self._joins = given.policy.device is Strategy.BINPACK
        placed = [pod for pod in pods if pod.node_name is not None and not pod.finished]
        staying = [pod for pod in placed if not _about_to_go(pod, given.now_ms)]
        self.now = self.later = _empty(given)
        for pod in placed:
            request = bound_request(pod, given.scheduler_name, given.inventory.device_resources)
            self.now.adopt(pod, request, _written(pod, warnings))
            if self.now.node(pod.node_name or "") is None:
                warnings.append(f"pod {pod.key} is on node {pod.node_name}, which is not among the objects")
        if len(staying) < len(placed):
            self.later = _empty(given)
            for pod in staying:
                # with the devices that were guessed for it above: it does not move when others go
                entry = self.now.ledger.entries[pod.uid]
                self.later.adopt(pod, entry.request, Allocation(entry.node, entry.devices))

    def place(self, record: PodRecord) -> Placement | None:
        """The best place, booked."""
        assert record.request is not None
        pod, request = record.facts, record.request
        allocation, when = self._choose(record, request)
        if allocation is None:
            return None
        if when == "now":
            self.now.book(pod, request, allocation, None)
        if when == "after-release" or self.later is not self.now:
            self.later.book(pod, request, allocation, None)
        return Placement(pod, allocation.node, allocation.devices, when)

    def fits(self, record: PodRecord) -> bool:
        """Whether there is room for it, now or later."""
        assert record.request is not None
        mask = self.later.mask(record.facts, record.constraints)
        return bool(placement.fits(self.later.state, record.request, mask).any())

    def why(self, record: PodRecord) -> Reason:
        """Why it fits nowhere, even later."""
        assert record.request is not None
        return self.later.why(record.facts, record.request, record.constraints)

    def _choose(self, record: PodRecord, request: Request) -> tuple[Allocation | None, When]:
        """The place now, if there is one. Where devices are packed, a share rather waits for room on a device in use
        than opens another (as KAI does): what it does not open stays whole for those who need that.
        """
        now = self._place_now(record, request)
        if self.later is self.now or (now is not None and self._opens(request, now) == 0):
            return now, "now"
        later = self.later.place(record.facts, request, record.constraints)
        if now is not None and (later is None or self._opens(request, later) >= self._opens(request, now)):
            return now, "now"
        return later, "after-release"

    def _opens(self, request: Request, allocation: Allocation) -> int:
        """How many devices the pod would be alone on, for shares that join others."""
        if not self._joins or request.demand is not Demand.SHARE:
            return 0
        state = self.later.state
        slot = state.slot_of[allocation.node]
        return sum(int(state.arrays.device_holders[slot, share.index] == 0) for share in allocation.devices)

    def _place_now(self, record: PodRecord, request: Request) -> Allocation | None:
        """The best place that is free now and promised to nobody for later."""
        state = self.now.state
        mask = self.now.mask(record.facts, record.constraints)
        if self.later is not self.now:
            later_mask = self.later.mask(record.facts, record.constraints)
            mask = mask & placement.fits(self.later.state, request, later_mask)
        while mask.any():
            allocation = placement.place(state, request, mask)
            if allocation is None or self.later is self.now:
                return allocation
            slot = state.slot_of[allocation.node]
            devices = self._devices_now(request, slot)
            if devices is not None:
                return Allocation(allocation.node, devices)
            mask[slot] = False
        return None

    def _devices_now(self, request: Request, slot: int) -> tuple[DeviceShare, ...] | None:
        """Devices of a node that serve the request in both views, or None."""
        state, promised = self.now.state, self._promised(slot)
        state.hold(slot, promised)
        try:
            devices = placement.place_on(state, request, slot)
        finally:
            state.drop(slot, promised)
        if devices is None or any(problem(view.state, slot, request, devices) for view in (self.now, self.later)):
            return None
        return devices

    def _promised(self, slot: int) -> tuple[DeviceShare, ...]:
        """By how much less of each device is free later than now: that is promised to somebody."""
        now, later = self.now.state.arrays, self.later.state.arrays
        promised = []
        for row in range(int(now.device_count[slot])):
            milli = int(now.device_free_milli[slot, row] - later.device_free_milli[slot, row])
            mib = int(now.device_free_mib[slot, row] - later.device_free_mib[slot, row])
            if milli > 0 or mib > 0:
                promised.append(DeviceShare(row, max(mib, 0), max(milli, 0)))
        return tuple(promised)


def _empty(given: PlanInput) -> Cluster:
    """The cluster without pods."""
    cluster = Cluster(inventory=given.inventory, policy=given.policy)
    for facts in sorted(given.nodes, key=lambda node: node.name):
        cluster.set_node(facts)
    for name, labels in sorted(given.namespaces.items()):
        cluster.set_namespace(name, labels)
    return cluster


def _written(pod: PodFacts, warnings: list[str]) -> Allocation | None:
    """The allocation that a bound pod carries, of any backend; None when it carries none that can be true."""
    try:
        return written_allocation(pod)
    except AllocationError as err:
        warnings.append(f"pod {pod.key}: annotation {vocabulary.ALLOCATION} is ignored: {err}")
        return None


def _about_to_go(pod: PodFacts, now_ms: int) -> bool:
    return pod.deleted_ms is not None and now_ms - pod.deleted_ms <= STUCK_AFTER_MS
