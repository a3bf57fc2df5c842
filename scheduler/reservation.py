"""Reservations: protection of work that waits long for much room from endless small work that takes every gap.

A reservation keeps one node for one pod. What frees there is kept for it; others may use the node only if they end in
time, or if the pod still fits beside them when those it waits for are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from queues.runtimes import Span
from scheduler import placement
from scheduler.cluster import Cluster
from scheduler.entry import Entry
from scheduler.expectation import Expectations
from scheduler.record import PodRecord
from scheduler.request import Request

NODES_LOOKED_AT: Final = 64
"""The nodes with the most free devices (or CPU) among which a reservation chooses."""
FOR_EVER_MS: Final = 1 << 62


@dataclass(slots=True)
class Reservation:
    """A node that is kept for a pod, those that have to go from it first, and when that will be (epoch ms).

    `low_ms` is when the pod may start at the earliest, `high_ms` at the latest; None is unknown.
    """

    record: PodRecord
    slot: int
    node: str
    since_ms: int
    awaited: tuple[str, ...] = ()
    low_ms: int | None = None
    high_ms: int | None = None

    @property
    def uid(self) -> str:
        return self.record.uid


class Reservations:
    """All reservations, by the uid of their pod. `version` grows when others may use other nodes than before."""

    def __init__(self, cluster: Cluster, expectations: Expectations, most: int) -> None:
        self._cluster = cluster
        self._expectations = expectations
        self.most = most
        self._of: dict[str, Reservation] = {}
        self.version = 0

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._of.values())

    @property
    def full(self) -> bool:
        """Whether there are as many as there may be."""
        return len(self._of) >= self.most

    def of(self, uid: str) -> Reservation | None:
        """The pod's reservation."""
        return self._of.get(uid)

    def drop(self, uid: str) -> None:
        """The pod needs none any more."""
        if self._of.pop(uid, None) is not None:
            self.version += 1

    def claim(self, record: PodRecord, now_ms: int) -> Reservation | None:
        """Keeps the node for the pod on which it can start first, as far as that is known; None where it never can."""
        best = self.outlook(record, now_ms)
        if best is not None:
            self._of[record.uid] = best
            self.version += 1
        return best

    def outlook(self, record: PodRecord, now_ms: int) -> Reservation | None:
        """The reservation that the pod would get."""
        found = [wait for slot in self._candidates(record) if (wait := self._wait(record, slot, now_ms)) is not None]
        if not found:
            return None
        return min(found, key=lambda wait: (wait.low_ms is None, wait.low_ms or 0, len(wait.awaited), wait.node))

    def refresh(self, now_ms: int) -> None:
        """Brings starts up to date. A reservation whose node went, closed or can never hold the pod is dropped."""
        for uid, old in list(self._of.items()):
            new = None
            name = self._cluster.state.inventories[old.slot]
            mask = self._cluster.mask(old.record.facts, old.record.constraints)
            if name is not None and name.name == old.node and mask[old.slot]:
                new = self._wait(old.record, old.slot, now_ms)
            if new is None:
                self.drop(uid)
                continue
            if new.awaited != old.awaited or _is_later(new.low_ms, old.low_ms, now_ms):
                self.version += 1
            new.since_ms = old.since_ms
            self._of[uid] = new

    def forbidden(self, record: PodRecord, now_ms: int) -> frozenset[int]:
        """The slots that are kept from a pod."""
        request = record.request
        if not self._of or request is None or not record.rank.not_released:
            return frozenset()
        return frozenset(
            kept.slot
            for kept in self._of.values()
            if self._is_behind(record, kept)
            and not self._ends_in_time(record, kept, now_ms)
            and not self._leaves_room(request, kept)
        )

    def run_span(self, record: PodRecord) -> Span | None:
        """How long the pod runs, as far as is known."""
        return self._expectations.run_span(record.facts) if self._of else None

    @staticmethod
    def _is_behind(record: PodRecord, kept: Reservation) -> bool:
        if record.uid == kept.uid:
            return False
        return record.queue != kept.record.queue or record.rank > kept.record.rank

    def _ends_in_time(self, record: PodRecord, kept: Reservation, now_ms: int) -> bool:
        span = self._expectations.run_span(record.facts)
        if span is None or span.high_ms is None or kept.low_ms is None:
            return False
        return now_ms + span.high_ms <= kept.low_ms

    def _leaves_room(self, request: Request, kept: Reservation) -> bool:
        """Whether the reserved pod still fits when the request takes the node now and those awaited have gone."""
        state, wanted = self._cluster.state, kept.record.request
        devices = placement.place_on(state, request, kept.slot)
        if devices is None or wanted is None:
            return False
        mark = state.checkpoint()
        try:
            state.take(kept.slot, request, devices)
            for uid in kept.awaited:
                entry = self._cluster.ledger.entries.get(uid)
                if entry is not None and entry.node == kept.node:
                    state.give(kept.slot, entry.request, entry.devices)
            return placement.place_on(state, wanted, kept.slot) is not None
        finally:
            state.rollback(mark)

    # -- where and when ------------------------------------------------------------------------------------------

    def _candidates(self, record: PodRecord) -> list[int]:
        """Slots that could hold the pod if they were empty and are kept for nobody, those with the most free first."""
        if record.request is None:
            return []
        mask = self._cluster.mask(record.facts, record.constraints) & self._cluster.could_hold(
            record.request, record.constraints
        )
        admission = self._cluster.admit(
            record.queue, record.request, record.constraints, preemptible=record.preemptible
        )
        if admission.reason is not None:
            return []
        if admission.classes is not None:
            mask &= self._cluster.accounts.classes.mask(admission.classes)[: mask.size]
        for kept in self._of.values():
            mask[kept.slot] = False
        slots = np.flatnonzero(mask)
        arrays, ask = self._cluster.state.arrays, self._cluster.state.ask(record.request)
        # what is asked for most dearly stands last: devices behind CPU and memory
        free = arrays.free[slots, ask.columns[-1]] if len(ask.columns) else arrays.free[slots, 0]
        order = np.lexsort((arrays.rank[slots], -free))
        return [int(slot) for slot in slots[order[:NODES_LOOKED_AT]]]

    def _wait(self, record: PodRecord, slot: int, now_ms: int) -> Reservation | None:
        """Who has to go from the node before the pod fits, first those that end first; None when it never does."""
        state, inventory = self._cluster.state, self._cluster.state.inventories[slot]
        assert inventory is not None
        assert record.request is not None
        awaited: list[str] = []
        low_ms = high_ms = now_ms
        mark = state.checkpoint()
        try:
            for end_low_ms, end_high_ms, entry in self._ends(inventory.name, now_ms):
                if placement.place_on(state, record.request, slot) is not None:
                    break
                state.give(slot, entry.request, entry.devices)
                awaited.append(entry.uid)
                low_ms, high_ms = max(low_ms, end_low_ms), max(high_ms, end_high_ms)
            if placement.place_on(state, record.request, slot) is None:
                return None
        finally:
            state.rollback(mark)
        return Reservation(record, slot, inventory.name, now_ms, tuple(awaited), _known(low_ms), _known(high_ms))

    def _ends(self, node: str, now_ms: int) -> list[tuple[int, int, Entry]]:
        """Who is on the node, with the earliest and latest end from now in epoch ms, those that end first before."""
        found = []
        for entry in self._cluster.ledger.on_node(node):
            span = self._expectations.end_span(entry.uid, now_ms)
            low_ms = FOR_EVER_MS if span is None else now_ms + span.low_ms
            high_ms = FOR_EVER_MS if span is None or span.high_ms is None else now_ms + span.high_ms
            found.append((low_ms, high_ms, entry))
        return sorted(found, key=lambda item: (item[0], item[1], -item[2].request.device_count, item[2].uid))


def _is_later(new_ms: int | None, old_ms: int | None, now_ms: int) -> bool:
    """Whether others have more time than before. A start that could be now moves with the clock and gives them none."""
    return new_ms is not None and new_ms != now_ms and (old_ms is None or new_ms > old_ms)


def _known(at_ms: int) -> int | None:
    return None if at_ms >= FOR_EVER_MS else at_ms
