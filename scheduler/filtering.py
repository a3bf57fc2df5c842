"""Plan mode's `filter`: the one planned node, or a new plan among the nodes that kube-scheduler offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler import advise
from scheduler.cluster import Cluster
from scheduler.engine_settings import EngineSettings
from scheduler.line import form_of
from scheduler.reason import Code
from scheduler.record import PodRecord, Stage
from scheduler.reservation import Reservations
from scheduler.room import Kept, Room
from scheduler.roster import Roster
from scheduler.verdict import FilterVerdict

NOT_ADMITTED: Final = "the pod's queue does not let it start now; it waits for its turn"
"""A constant phrase, and trouble rather than a refusal: autoscalers must not buy nodes for it."""


class Filtering:
    """Answers for pods of ours that are on the roster. Asked again it answers the same."""

    def __init__(self, cluster: Cluster, roster: Roster, reservations: Reservations, settings: EngineSettings) -> None:
        self._cluster = cluster
        self._roster = roster
        self._reservations = reservations
        self._settings = settings

    def answer(self, record: PodRecord, offered: Sequence[str], nominated: str | None, now_ms: int) -> FilterVerdict:
        """`nominated` is the pod's status.nominatedNodeName as kube-scheduler sees it.

        A nominated node is offered alone before the full list, so it teaches nothing about the others.
        """
        trouble = self._trouble(record, now_ms)
        if trouble:
            return FilterVerdict(error=trouble)
        if record.request is None:
            return FilterVerdict(refused=dict.fromkeys(offered, Code.INVALID_REQUEST))
        if record.stage is Stage.UNQUEUED:
            return FilterVerdict(error=NOT_ADMITTED)
        self._give_up_what_its_queue_no_longer_bears(record, now_ms)
        entry = self._cluster.ledger.entries.get(record.uid)
        sound = entry is not None and self._cluster.ledger.sound(entry.uid)
        if entry is not None and sound and entry.node in offered:
            if record.stage is not Stage.BINDING:
                entry.deadline_ms = now_ms + self._settings.booking_deadline_ms
                record.move(Stage.RELEASED, f"filter: {entry.node}", now_ms)
            return FilterVerdict(nodes=[entry.node])
        only_nominated = len(offered) == 1 and nominated == offered[0]
        if sound and only_nominated:
            return FilterVerdict(refused={offered[0]: Code.PLANNED_ELSEWHERE})
        if not record.settled(now_ms):
            return FilterVerdict(error="a bind of this pod may still take effect: its place is kept until then")
        return self._replan(record, offered, only_nominated, now_ms)

    def _give_up_what_its_queue_no_longer_bears(self, record: PodRecord, now_ms: int) -> None:
        """Queues changed while a Binding was on its way, and that failed: now is the time to look."""
        accounts = self._cluster.accounts
        if record.queue_epoch == accounts.epoch or not record.settled(now_ms):
            return
        record.queue_epoch = accounts.epoch
        entry = self._cluster.ledger.entries.get(record.uid)
        if entry is not None and not entry.bound and not accounts.still_bears(record.facts):
            self._cluster.release(record.uid)

    @staticmethod
    def _trouble(record: PodRecord, now_ms: int) -> str:
        if record.stage is Stage.BOUND:
            return f"pod is already bound to {record.facts.node_name}"
        if record.facts.deleted_ms is not None:
            return "the pod is being deleted"
        if record.bind_not_before_ms > now_ms:
            return "binds of this pod keep failing; it waits a little before the next"
        return ""

    def _replan(self, record: PodRecord, offered: Sequence[str], only_nominated: bool, now_ms: int) -> FilterVerdict:
        assert record.request is not None
        self._cluster.release(record.uid)
        # in line from here on: whatever happens below, the pod is not lost
        self._roster.wait(record, "filter: planned anew", now_ms)
        allowed = frozenset(offered)
        if not only_nominated:
            self._roster.alarm(record.learn_offered(allowed, now_ms, self._settings.fact_ttl_ms))
        if record.stage is Stage.UNQUEUED:
            return FilterVerdict(error=NOT_ADMITTED)
        if record.gang is not None:
            record.refusals += 1
            return FilterVerdict(refused=dict.fromkeys(offered, Code.WAITS_FOR_GANG))
        admission = self._cluster.admit(record)
        if admission.reason is not None:
            return FilterVerdict(error=NOT_ADMITTED)
        kept = Kept(admission.classes, self._reservations.forbidden(record, now_ms))
        left = Room(form_of(record), kept, None).slots(self._cluster)
        allocation = self._cluster.place(record.facts, record.request, record.constraints, allowed, left)
        if allocation is None:
            record.refusals += 1
            record.move(Stage.WAITING, "filter: no offered node fits", now_ms)
            codes = advise.refusals(self._cluster, record.facts, record.request, record.constraints, offered)
            return FilterVerdict(refused=codes)
        if record.exposed:  # there is room by now: a round says whose turn it is
            return FilterVerdict(error=NOT_ADMITTED)
        deadline_ms = now_ms + self._settings.booking_deadline_ms
        self._cluster.book(record.facts, record.request, allocation, deadline_ms)
        self._roster.leave(record.uid)
        record.reason = None
        record.move(Stage.RELEASED, f"filter: planned on {allocation.node}", now_ms)
        return FilterVerdict(nodes=[allocation.node])
