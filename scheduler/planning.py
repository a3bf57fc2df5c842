"""Rounds of the live engine: what expired or lost its place goes back in line, then the planner places."""

from __future__ import annotations

from typing import Final

from scheduler import planner
from scheduler.barrier import Barrier
from scheduler.cluster import Cluster
from scheduler.engine_settings import EngineSettings
from scheduler.exact import Solution
from scheduler.exposure import Exposure
from scheduler.gang_upkeep import GangUpkeep
from scheduler.instruction import Nominate, Release
from scheduler.record import PodRecord, Stage
from scheduler.reservation import Reservations
from scheduler.roster import Roster
from scheduler.second_look import Question, SecondLook
from scheduler.starvation import Starvation
from scheduler.tracking import Tracking

YOUNG_MS: Final = 10_000
"""kube-scheduler comes to a pod of that age by itself."""


class Planning:
    """Makes rounds, and orders what follows from them through the roster's outbox."""

    def __init__(
        self,
        cluster: Cluster,
        roster: Roster,
        tracking: Tracking,
        reservations: Reservations,
        exposure: Exposure,
        barrier: Barrier,
        settings: EngineSettings,
    ) -> None:
        self._cluster = cluster
        self._roster = roster
        self._tracking = tracking
        self._reservations = reservations
        self._starvation = Starvation(cluster, roster, reservations, after_ms=settings.starving_after_ms)
        self._exposure = exposure
        self._upkeep = GangUpkeep(roster, barrier, settings)
        self._settings = settings
        self.second_look: Final = SecondLook(settings.exact_limit)
        self._given: Question | None = None
        self._nodes_seen = 0
        self._classes_seen = 0

    def round(self, now_ms: int) -> bool:
        """One round. Whether another should follow at once."""
        self._expire(now_ms)
        self._leave_unsound_nodes(now_ms)
        if self._classes_seen != self._cluster.accounts.classes.version:
            self._classes_seen = self._cluster.accounts.classes.version
            self._roster.price_anew()
        self._starvation.look(now_ms)
        self._upkeep.before_planning(now_ms)
        room = max(self._settings.max_in_flight - len(self._cluster.ledger.bookings), 0)
        result = planner.run(
            self._cluster,
            self._roster.line,
            now_ms=now_ms,
            hold_ms=self._settings.hold_ms,
            limit=min(self._settings.round_limit, room),
            reservations=self._reservations,
            gangs=self._roster.gangs.by_key,
            second_look=self.second_look,
        )
        for record, allocation in result.placed:
            self._planned(record, allocation.node, now_ms)
        for record in result.failed:
            self._roster.back_off(record, self._settings.longest_backoff_ms, now_ms)
        if result.again_ms is not None:
            self._roster.alarm(result.again_ms)
        again = self._upkeep.after_planning(now_ms)
        self._exposure.look(now_ms)
        self._take_back_nominations()
        return again or (result.more and len(result.placed) < room)

    def question(self) -> Question | None:
        """What is to be answered beside the loop; each is given once."""
        question = self.second_look.asked
        if question is self._given:
            return None
        self._given = question
        return question

    def answered(self, question: Question, solution: Solution | None) -> None:
        """The answer, None when there was trouble."""
        gang = self._roster.gangs.by_key.get(question.gang)
        if self.second_look.answered(question, None if gang is None else solution) and gang is not None:
            self._roster.line.changed(gang)

    def _planned(self, record: PodRecord, node: str, now_ms: int) -> None:
        facts = record.facts
        record.reason = None
        self._roster.leave(record.uid)
        self._reservations.drop(record.uid)
        woken = record.exposed or self._has_to_be_woken(record, now_ms)
        if record.exposed:  # from here on it is like any that was released for its plan
            record.exposed = False
            record.take(facts)
        record.queue_epoch = self._cluster.accounts.epoch
        record.move(Stage.PLANNED if facts.gates else Stage.RELEASED, f"planned on {node}", now_ms)
        if facts.gated_by_us:
            nominate = self._cluster.node_count >= self._settings.nominate_from_nodes
            self._roster.outbox.append(Release(facts.uid, facts.namespace, facts.name, node, facts.gates, nominate))
        elif woken:
            again = facts.nominated_node == node
            self._roster.outbox.append(Nominate(facts.uid, facts.namespace, facts.name, node, again))

    @staticmethod
    def _has_to_be_woken(record: PodRecord, now_ms: int) -> bool:
        """Whether kube-scheduler may have put the released pod aside. A young one it will come to by itself."""
        return bool(record.refusals or record.expiries) or now_ms - record.since_ms > YOUNG_MS

    def _expire(self, now_ms: int) -> None:
        for uid in self._cluster.ledger.expired(now_ms):
            record = self._roster.records.get(uid)
            self._cluster.release(uid)
            if record is not None:
                record.expiries += 1
                self._roster.back_off(record, self._settings.backoff_ms(record.expiries), now_ms)
                self._tracking.resume(record, "booking expired", now_ms)

    def _leave_unsound_nodes(self, now_ms: int) -> None:
        """Plans anew what is booked on nodes that went, closed or lost room since the last round."""
        if self._nodes_seen == self._cluster.node_changes:
            return
        self._nodes_seen = self._cluster.node_changes
        for uid in list(self._cluster.ledger.bookings):
            record = self._roster.records.get(uid)
            if record is None or not record.settled(now_ms) or self._cluster.bears(record.facts, record.constraints):
                continue
            self._cluster.release(uid)
            self._tracking.resume(record, "its node went, closed or lost room", now_ms)

    def _take_back_nominations(self) -> None:
        """kube-scheduler keeps room for a nominated pod; one that waits again needs none there."""
        for record in self._roster.unnamed:
            facts = record.facts
            if facts.nominated_node is not None and record.uid in self._roster.waiting:
                self._roster.outbox.append(Nominate(facts.uid, facts.namespace, facts.name, None))
        self._roster.unnamed.clear()
