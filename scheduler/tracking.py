"""Pods of ours on their way to a node: which stage follows from what the API shows of them."""

from __future__ import annotations

from scheduler.cluster import Cluster
from scheduler.pod import PodFacts
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord, Stage, invalid_request
from scheduler.roster import Roster


class Tracking:
    """Keeps the records of pods without a node in step with the API. Repeated and late news are harmless."""

    def __init__(self, cluster: Cluster, roster: Roster) -> None:
        self._cluster = cluster
        self._roster = roster

    def track(self, facts: PodFacts, now_ms: int) -> None:
        """Takes a pod of ours that has no node, as the API shows it now."""
        facts = self._roster.gangs.look(facts)
        record = self._roster.records.get(facts.uid)
        if record is None:
            record = self._roster.enter(facts, now_ms)
        elif record.stage is Stage.BOUND:
            return  # late news from before the Binding
        elif self._roster.refresh(record, facts):
            # a gated pod may gain node selectors, annotations may be edited: what was booked may be wrong now
            record.queue_epoch = -1
            if record.settled(now_ms):
                self._cluster.release(facts.uid)
        self._cluster.relabel(facts)
        self.resume(record, "seen", now_ms)
        self.tell_its_gang(record, now_ms)

    def tell_its_gang(self, record: PodRecord, now_ms: int, *, bound_too: bool = False) -> None:
        """The oldest member of a gang says in which queue the others are; for those that run that is settled."""
        gang = record.gang
        if gang is None or gang.oldest is not record:
            return
        for other in self._roster.gangs.in_other_queues(gang):
            if other.stage is not Stage.BOUND:
                self.track(other.facts, now_ms)
            elif bound_too:
                other.facts = self._roster.gangs.look(other.facts)
                self._cluster.charge(other.facts)

    def resume(self, record: PodRecord, cause: str, now_ms: int) -> None:
        """Puts the pod where it belongs. One without a place waits for one, unless something is in its way."""
        self._roster.look_at_gang_of(record)
        if record.facts.deleted_ms is not None:
            self._leaves(record, now_ms)
        elif record.settled(now_ms):
            self._goes_on(record, cause, now_ms)

    def _leaves(self, record: PodRecord, now_ms: int) -> None:
        """Deleted before it was bound. One that is at bind gets its answer there."""
        self._roster.leave(record.uid)
        if record.settled(now_ms):
            self._cluster.release(record.uid)
            record.move(Stage.HELD, "being deleted", now_ms)

    def _goes_on(self, record: PodRecord, cause: str, now_ms: int) -> None:
        facts = record.facts
        if facts.held_by_others:
            self._cluster.release(facts.uid)
            self._roster.leave(facts.uid)
            record.reason = Reason(Code.HELD_BY_OTHER_GATE)
            record.move(Stage.HELD, "carries another gate", now_ms)
        elif record.problem is not None:
            self._roster.leave(facts.uid)
            record.reason = invalid_request(record.problem)
            record.move(Stage.REFUSED, record.problem.problem, now_ms)
            self._roster.tell(record, now_ms)
        elif record.membership.problem:
            self._cluster.release(facts.uid)
            self._roster.leave(facts.uid)
            record.reason = Reason(Code.GANG_INVALID, {"problem": record.membership.problem})
            record.move(Stage.REFUSED, Code.GANG_INVALID, now_ms)
            self._roster.tell(record, now_ms)
        elif facts.uid not in self._cluster.ledger.entries:
            self._roster.warn(record)
            self._roster.wait(record, cause, now_ms)
        elif record.stage is Stage.PLANNED and not facts.gates:
            record.move(Stage.RELEASED, "gate is off", now_ms)
