"""Whom to tell why they wait, and when: late enough to be worth it, rarely enough not to flood the API.

Each waiting pod has a time at which it is looked at next. Times fall on whole ticks, so that many pods are looked at
together, and pods of one form share one search for the reason.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

from scheduler import planner
from scheduler.cluster import Cluster
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord
from scheduler.room import Form, Kept
from scheduler.roster import Roster

TICK_MS: Final = 250
SEARCHES_PER_TICK: Final = 20
FORMS_REMEMBERED: Final = 4096


class _Found(NamedTuple):
    """A reason, and when it was found, at which version of the state."""

    reason: Reason
    at_ms: int
    version: int


class Telling:
    """Reasons for waiting pods. All times in milliseconds; `per_tick` bounds the messages of one tick."""

    def __init__(self, cluster: Cluster, roster: Roster, *, after_ms: int, again_after_ms: int, per_tick: int) -> None:
        self._cluster = cluster
        self._roster = roster
        self._after_ms = after_ms
        self._again_after_ms = again_after_ms
        self._per_tick = per_tick
        self._due: list[tuple[int, str]] = []
        self._rest_until_ms = 0
        self._found: dict[tuple[Form, Kept], _Found] = {}

    def clear(self) -> None:
        """Forgets whom to look at."""
        self._roster.fresh.clear()
        self._due.clear()
        self._found.clear()

    def next_ms(self) -> int | None:
        """When a round is due for somebody to be looked at."""
        self._take_fresh()
        return max(self._due[0][0], self._rest_until_ms) if self._due else None

    def round(self, now_ms: int) -> None:
        """Orders messages for those that are due, first come first served."""
        self._take_fresh()
        if now_ms < self._rest_until_ms:
            return
        messages, searches = self._per_tick, SEARCHES_PER_TICK
        while self._due and self._due[0][0] <= now_ms:
            if messages == 0 or searches == 0:
                self._rest_until_ms = _on_tick(now_ms + 1)
                return
            due_ms, uid = heapq.heappop(self._due)
            record = self._roster.waiting.get(uid)
            if record is None or record.look_ms != due_ms:
                continue  # it waits no longer, or has another time by now
            if not planner.hopeless(self._cluster, self._roster.line, record, now_ms):
                self._look_at(record, now_ms + self._after_ms)  # its turn in the line has not come yet
                continue
            record.reason, searched = self._reason(record, now_ms)
            searches -= searched
            messages -= self._roster.tell(record, now_ms)
            self._look_at(record, now_ms + self._again_after_ms)

    def _take_fresh(self) -> None:
        fresh, self._roster.fresh = self._roster.fresh, []
        for record in fresh:
            self._look_at(record, self._first_look_ms(record))

    def _first_look_ms(self, record: PodRecord) -> int:
        if record.told is None:
            return record.since_ms + self._after_ms
        return record.told_ms + self._again_after_ms

    def _look_at(self, record: PodRecord, at_ms: int) -> None:
        record.look_ms = _on_tick(at_ms)
        heapq.heappush(self._due, (record.look_ms, record.uid))

    def _reason(self, record: PodRecord, now_ms: int) -> tuple[Reason, bool]:
        """The pod's reason, and whether it took a search.

        That of its form does while nothing has changed, and for a pod that knows one already also a little longer.
        """
        group = self._roster.line.alike(record)
        if group.block is not None or group.reason is not None:
            return group.block or group.reason or Reason(Code.BACKING_OFF), False
        form = planner.form(self._cluster, record, now_ms)
        if form is None or group.room is None:
            return self.why(record, now_ms), True
        key = (form, group.room.kept)
        found = self._found.get(key)
        version = self._cluster.state.version
        old_enough_ms = self._again_after_ms // 2 if record.told is not None else TICK_MS
        if found is not None and (found.version == version or now_ms - found.at_ms < old_enough_ms):
            return found.reason, False
        if len(self._found) >= FORMS_REMEMBERED:
            self._found.clear()
        reason = self.why(record, now_ms)
        self._found[key] = _Found(reason, now_ms, version)
        return reason, True

    def why(self, record: PodRecord, now_ms: int) -> Reason:
        """Why the pod has no place, as of now."""
        if record.request is None:
            return record.reason or Reason(Code.INVALID_REQUEST)
        excluded = None
        if record.uid in self._roster.waiting:
            group = self._roster.line.alike(record)
            if group.block is not None or group.reason is not None:
                return group.block or group.reason or Reason(Code.BACKING_OFF)
            excluded = None if group.room is None else group.room.excluded(self._cluster)
        allowed = record.allowed_nodes(now_ms)
        return self._cluster.why(record.facts, record.request, record.constraints, allowed, excluded)


def _on_tick(at_ms: int) -> int:
    """The first tick that is not earlier."""
    return -(-at_ms // TICK_MS) * TICK_MS
