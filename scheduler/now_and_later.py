"""A cluster at two moments: `now`, where pods that are being deleted hold their places, and `later`, without them.

A place that is given now must be free in both, since it may be promised to somebody for later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from scheduler import placement
from scheduler.adoption import bound_request, written_allocation
from scheduler.allocation import Allocation, AllocationError, DeviceShare
from scheduler.cluster import Cluster
from scheduler.entry import problem
from scheduler.pod import PodFacts
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord
from scheduler.request import Demand, Request
from topology import vocabulary

STUCK_AFTER_MS: Final = 120_000
"""A pod that should be gone for longer is stuck: nobody may count on what it holds."""

When = Literal["now", "after-release"]
Place = tuple[Allocation, When]


@dataclass(frozen=True, slots=True)
class BoundRules:
    """How pods on nodes are read. `joins`: shares rather join others on a device than open another."""

    scheduler_name: str
    device_resources: Sequence[str]
    now_ms: int
    joins: bool


class NowAndLater:
    """The cluster now and later; one object where nobody is about to go. Nodes have the same slots in both."""

    def __init__(
        self, empty: Callable[[], Cluster], pods: Iterable[PodFacts], rules: BoundRules, warnings: list[str]
    ) -> None:
        """`empty` makes the cluster without pods, `pods` are those on nodes. What is odd goes to `warnings`."""
        self.now = self.later = empty()
        self._joins = rules.joins
        placed = list(pods)
        staying = [pod for pod in placed if not _about_to_go(pod, rules.now_ms)]
        for pod in placed:
            request = bound_request(pod, rules.scheduler_name, rules.device_resources)
            self.now.adopt(pod, request, _written(pod, warnings))
            if self.now.node(pod.node_name or "") is None:
                warnings.append(f"pod {pod.key} is on node {pod.node_name}, which is not among the objects")
        self._empty, self._staying = empty, staying
        if len(staying) < len(placed):
            self._part()

    def _part(self) -> None:
        """From here on the two are different clusters."""
        self.later = self._empty()
        for pod in self._staying:
            # with the devices that were guessed for it: it does not move when others go
            entry = self.now.ledger.entries[pod.uid]
            self.later.adopt(pod, entry.request, Allocation(entry.node, entry.devices))

    def promise(self, record: PodRecord) -> bool:
        """Keeps for a pod the node that is nominated for it, if it can have it. Nothing may be placed before."""
        assert record.request is not None
        nominated = record.facts.nominated_node
        if nominated is None:
            return False
        allocation = self.later.place(record.facts, record.request, record.constraints, [nominated])
        if allocation is None:
            return False
        if self.later is self.now:
            self._part()
        self.later.book(record.facts, record.request, allocation, None)
        return True

    def place(self, record: PodRecord, left: NDArray[np.bool_] | None) -> Place | None:
        """The best place, booked. `left` is bool[slots], the nodes that no claim keeps from the pod; None: all."""
        assert record.request is not None
        pod, request = record.facts, record.request
        allocation, when = self._choose(record, request, left)
        if allocation is None:
            return None
        if when == "now":
            self.now.book(pod, request, allocation, None)
        if when == "after-release" or self.later is not self.now:
            self.later.book(pod, request, allocation, None)
        return allocation, when

    def give_back(self, uid: str) -> None:
        """Undoes `place`."""
        self.now.release(uid)
        if self.later is not self.now:
            self.later.release(uid)

    def fits(self, record: PodRecord, left: NDArray[np.bool_] | None) -> bool:
        """Whether there is room for it, now or later."""
        assert record.request is not None
        mask = self.later.mask(record.facts, record.constraints)
        mask = mask if left is None else mask & left
        return bool(placement.fits(self.later.state, record.request, mask).any())

    def why(self, record: PodRecord, excluded: Mapping[int, Code]) -> Reason:
        """Why it fits nowhere, even later. `excluded` are slots that others' claims keep from it."""
        assert record.request is not None
        return self.later.why(record.facts, record.request, record.constraints, None, excluded)

    def _choose(
        self, record: PodRecord, request: Request, left: NDArray[np.bool_] | None
    ) -> tuple[Allocation | None, When]:
        """The place now, if there is one. Where devices are packed, a share rather waits for room on a device in use
        than opens another (as KAI does): what it does not open stays whole for those who need that.
        """
        now = self._place_now(record, request, left)
        if self.later is self.now or (now is not None and self._opens(request, now) == 0):
            return now, "now"
        later = self.later.place(record.facts, request, record.constraints, None, left)
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

    def _place_now(self, record: PodRecord, request: Request, left: NDArray[np.bool_] | None) -> Allocation | None:
        """The best place that is free now and promised to nobody for later."""
        state = self.now.state
        mask = self.now.mask(record.facts, record.constraints)
        mask = mask if left is None else mask & left
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


def _written(pod: PodFacts, warnings: list[str]) -> Allocation | None:
    """The allocation that a bound pod carries, of any backend; None when it carries none that can be true."""
    try:
        return written_allocation(pod)
    except AllocationError as err:
        warnings.append(f"pod {pod.key}: annotation {vocabulary.ALLOCATION} is ignored: {err}")
        return None


def _about_to_go(pod: PodFacts, now_ms: int) -> bool:
    return pod.deleted_ms is not None and now_ms - pod.deleted_ms <= STUCK_AFTER_MS
