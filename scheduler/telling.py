"""Whom to tell why they wait, and when: late enough to be worth it, rarely enough not to flood the API."""

from __future__ import annotations

from collections.abc import Hashable

from scheduler import planner
from scheduler.cluster import Cluster
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord
from scheduler.roster import Roster


class Telling:
    """Reasons for waiting pods. All times in milliseconds; `per_round` bounds the searches and messages of a round."""

    def __init__(self, cluster: Cluster, roster: Roster, *, after_ms: int, again_after_ms: int, per_round: int) -> None:
        self._cluster = cluster
        self._roster = roster
        self._after_ms = after_ms
        self._again_after_ms = again_after_ms
        self._per_round = per_round

    def due_ms(self, record: PodRecord) -> int:
        """When the pod's reason is looked at next."""
        if record.told is None:
            return max(record.since_ms + self._after_ms, record.told_ms + self._after_ms)
        return record.told_ms + self._again_after_ms

    def round(self, now_ms: int) -> None:
        """Orders messages for those that are due, first come first served."""
        left = self._per_round
        reasons: dict[Hashable, Reason] = {}
        for record in self._roster.waiting:
            if record.tried_epoch < 0 or self.due_ms(record) > now_ms:
                continue
            if left == 0:
                return
            left -= 1
            record.reason = self._reason(record, now_ms, reasons)
            record.told_ms = now_ms
            self._roster.tell(record, now_ms)

    def _reason(self, record: PodRecord, now_ms: int, reasons: dict[Hashable, Reason]) -> Reason:
        """Pods of one shape share one search."""
        shape = planner.shape(self._cluster, record, now_ms)
        if shape is None:
            return self.why(record, now_ms)
        if shape not in reasons:
            reasons[shape] = self.why(record, now_ms)
        return reasons[shape]

    def why(self, record: PodRecord, now_ms: int) -> Reason:
        """Why the pod has no place, as of now."""
        if record.request is None:
            return record.reason or Reason(Code.INVALID_REQUEST)
        return self._cluster.why(record.facts, record.request, record.constraints, record.allowed_nodes(now_ms))
