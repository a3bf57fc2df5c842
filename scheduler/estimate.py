"""When a node could hold a pod: who has to go from it first, and when he will."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Final, NamedTuple

from scheduler import placement
from scheduler.cluster import Cluster
from scheduler.entry import Entry
from scheduler.expectation import Expectations
from scheduler.request import Demand, Request

FOR_EVER_MS: Final = 1 << 62


class Doubt(IntEnum):
    """How little is known of when somebody ends."""

    KNOWN = 0
    LATE = 1
    """He has outlived what was expected of him: at any time."""
    UNKNOWN = 2


class Departure(NamedTuple):
    """Somebody goes from his node, between two times in epoch ms."""

    doubt: Doubt
    low_ms: int
    high_ms: int
    entry: Entry

    @property
    def order(self) -> tuple[int, int, int, str]:
        """Those that may end first before; where nobody knows, those with the most devices, so that few have to go."""
        return (self.low_ms, self.high_ms, -self.entry.request.device_count, self.entry.uid)


class Wait(NamedTuple):
    """Who has to go before a pod fits on a node, which is from `low_ms` on at the earliest.

    The smallest is the best: where it can start first, as far as that is known, then where the fewest devices go.
    """

    doubt: Doubt
    low_ms: int
    devices: int
    holders: int
    node: str
    slot: int
    awaited: list[Departure]


class Departures:
    """Who goes when. Looks only: whatever it tries in the state of the cluster is undone."""

    def __init__(self, cluster: Cluster, expectations: Expectations) -> None:
        self._cluster = cluster
        self._expectations = expectations

    def wait(
        self,
        request: Request,
        slot: int,
        now_ms: int,
        *,
        best: Wait | None = None,
        first: Collection[str] = (),
    ) -> Wait | None:
        """Who has to go from the node before the request fits: of the uids in `first`, then of others, first those that
        end first. None when it fits never, or later than on the `best` node so far.
        """
        inventory = self._cluster.state.inventories[slot]
        if inventory is None:
            return None
        departures = self._of_use(request, slot, inventory.name, now_ms)
        departures.sort(key=lambda departure: (departure.entry.uid not in first, departure.order))
        awaited = self._in_the_way(request, slot, departures, best)
        if awaited is None:
            return None
        return Wait(
            max((departure.doubt for departure in awaited), default=Doubt.KNOWN),
            max((departure.low_ms for departure in awaited), default=now_ms),
            sum(departure.entry.request.device_count for departure in awaited),
            len(awaited),
            inventory.name,
            slot,
            awaited,
        )

    def _in_the_way(
        self, request: Request, slot: int, departures: list[Departure], best: Wait | None
    ) -> list[Departure] | None:
        """The first of them that suffice, without those whose going does not help."""
        state = self._cluster.state
        latest_ms = FOR_EVER_MS if best is None or best.doubt is not Doubt.KNOWN else best.low_ms
        gone: list[Departure] = []
        mark = state.checkpoint()
        try:
            while placement.place_on(state, request, slot) is None:
                if len(gone) == len(departures) or departures[len(gone)].low_ms > latest_ms:
                    return None
                gone.append(departures[len(gone)])
                state.give(slot, gone[-1].entry.request, gone[-1].entry.devices)
            for departure in gone[-2::-1]:  # without the last it did not fit
                state.take(slot, departure.entry.request, departure.entry.devices)
                if placement.place_on(state, request, slot) is not None:
                    gone.remove(departure)
                else:
                    state.give(slot, departure.entry.request, departure.entry.devices)
            return gone
        finally:
            state.rollback(mark)

    def _of_use(self, request: Request, slot: int, node: str, now_ms: int) -> list[Departure]:
        """Of those who hold something that the request lacks on the node."""
        state = self._cluster.state
        ask, arrays = state.ask(request), state.arrays
        lacking = ask.columns[arrays.free[slot, ask.columns] < ask.amounts].tolist()
        wants_devices = request.demand is not Demand.NONE
        if wants_devices and arrays.device_column[slot] >= 0:
            lacking.append(int(arrays.device_column[slot]))
        found = []
        for entry in self._cluster.ledger.on_node(node):
            if (wants_devices and entry.devices) or state.vector(entry.request)[lacking].any():
                found.append(self._departure(entry, now_ms))
        return found

    def _departure(self, entry: Entry, now_ms: int) -> Departure:
        holding = self._cluster.accounts.holding(entry.uid)
        if holding is None or holding.leaf is None:  # of pods of other schedulers nothing is known
            return Departure(Doubt.UNKNOWN, FOR_EVER_MS, FOR_EVER_MS, entry)
        span = self._expectations.end_of(holding.pod, now_ms)
        if span is None:
            return Departure(Doubt.UNKNOWN, FOR_EVER_MS, FOR_EVER_MS, entry)
        high_ms = FOR_EVER_MS if span.high_ms is None else now_ms + span.high_ms
        return Departure(Doubt.LATE if span == (0, None) else Doubt.KNOWN, now_ms + span.low_ms, high_ms, entry)
