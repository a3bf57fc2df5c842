"""Reservations: protection of work that waits long for much room from endless small work that takes every gap.

A reservation keeps one node for one pod. What frees there is kept for it; others may use the node only if they end in
time, or if the pod still fits beside them when those it waits for are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from queues.runtimes import Span
from scheduler import placement
from scheduler.cluster import Cluster
from scheduler.estimate import FOR_EVER_MS, Departures, Doubt, Wait
from scheduler.expectation import Expectations
from scheduler.record import PodRecord
from scheduler.request import Demand, Request
from scheduler.state import ClusterState

NODES_LOOKED_AT: Final = 64
"""The nodes with the most free devices (or CPU) among which a reservation chooses."""


@dataclass(slots=True)
class Reservation:
    """A node that is kept for a pod, those that have to go from it first, and when that will be (epoch ms).

    `low_ms` is when the pod may start at the earliest, `high_ms` at the latest; None is unknown. `late` says that
    somebody awaited has outlived what was expected of him, so that it may be at any time.

    The wait ends, whatever comes: others come to be awaited only when those awaited do not suffice, and
    `lent_until_ms`, when whoever uses the node meanwhile has to be gone (None: nobody may), is the first `low_ms` that
    was known and never moves.
    """

    record: PodRecord
    slot: int
    node: str
    since_ms: int
    awaited: tuple[str, ...] = ()
    low_ms: int | None = None
    high_ms: int | None = None
    late: bool = False
    lent_until_ms: int | None = None

    @property
    def uid(self) -> str:
        return self.record.uid


class Reservations:
    """All reservations, by the uid of their pod. `version` grows when others may use other nodes than before."""

    def __init__(self, cluster: Cluster, expectations: Expectations, most: int) -> None:
        self._cluster = cluster
        self._expectations = expectations
        self.most = most
        self._departures = Departures(cluster, expectations)
        self._of: dict[str, Reservation] = {}
        self._growth_seen = cluster.growth.now
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
        if record.request is None:
            return None
        best: Wait | None = None
        for slot in self._candidates(record):
            wait = self._departures.wait(record.request, slot, now_ms, best=best)
            if wait is not None and (best is None or wait < best):
                best = wait
        return None if best is None else _reservation(record, best, now_ms)

    def refresh(self, now_ms: int) -> None:
        """Brings starts up to date. A reservation whose node went, closed or can never hold the pod is dropped."""
        grown = self._cluster.growth.since(self._growth_seen)
        self._growth_seen = self._cluster.growth.now
        for uid, old in list(self._of.items()):
            new = None
            name = self._cluster.state.inventories[old.slot]
            mask = self._cluster.mask(old.record.facts, old.record.constraints)
            if name is not None and name.name == old.node and mask[old.slot]:
                new = self._renewed(old, now_ms)
            if new is None:
                self.drop(uid)
                continue
            # others may use the node now if something became free there, or was lent to them
            same = (new.awaited, new.lent_until_ms) == (old.awaited, old.lent_until_ms)
            if not same or grown is None or old.slot in grown:
                self.version += 1
            self._of[uid] = new

    def _renewed(self, old: Reservation, now_ms: int) -> Reservation | None:
        """The reservation of the same node as things are now, None when it can never hold the pod."""
        if old.record.request is None:
            return None
        wait = self._departures.wait(old.record.request, old.slot, now_ms, first=old.awaited)
        if wait is None:
            return None
        new = _reservation(old.record, wait, old.since_ms)
        if old.lent_until_ms is not None:
            new.lent_until_ms = old.lent_until_ms
        return new

    def forbidden(self, record: PodRecord, now_ms: int) -> frozenset[int]:
        """The slots that are kept from a pod."""
        request = record.request
        if not self._of or request is None or not record.rank.not_released:
            return frozenset()
        span = self._expectations.run_span(record.facts)
        end_ms = FOR_EVER_MS if span is None or span.high_ms is None else now_ms + span.high_ms
        return frozenset(
            kept.slot
            for kept in self._of.values()
            if self._is_behind(record, kept)
            and (kept.lent_until_ms is None or end_ms > kept.lent_until_ms)
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
        # 64 nodes whose devices are too small must not hide one whose devices are large enough
        mask &= devices_suffice(self._cluster.state, record.request)[: mask.size]
        admission = self._cluster.admit(record)
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


def _reservation(record: PodRecord, wait: Wait, since_ms: int) -> Reservation:
    low_ms = _known(wait.low_ms)
    high_ms = _known(max((departure.high_ms for departure in wait.awaited), default=wait.low_ms))
    awaited = tuple(departure.entry.uid for departure in wait.awaited)
    late = any(departure.doubt is Doubt.LATE for departure in wait.awaited)
    return Reservation(record, wait.slot, wait.node, since_ms, awaited, low_ms, high_ms, late, low_ms)


def _known(at_ms: int) -> int | None:
    return None if at_ms >= FOR_EVER_MS else at_ms


def devices_suffice(state: ClusterState, request: Request) -> NDArray[np.bool_]:
    """bool[slots]: nodes with as many healthy devices, each large enough, or whose devices are only counted."""
    ask, arrays, size = state.ask(request), state.arrays, len(state.inventories)
    healthy = arrays.device_healthy[:size]
    if request.demand is Demand.SHARE:
        large = arrays.device_total_mib[:size] >= (0 if request.share_milli else request.share_memory_mib)
        return np.asarray(arrays.shares[:size] & ((healthy & large).sum(axis=1) >= request.device_count), np.bool_)
    if request.demand is Demand.WHOLE:
        modelled = (arrays.device_column[:size] == ask.device_column) & (arrays.device_count[:size] > 0)
        return np.asarray(~modelled | (healthy.sum(axis=1) >= request.device_count), np.bool_)
    return np.ones(size, np.bool_)
