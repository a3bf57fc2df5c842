"""The live engine: pods of ours from first sight to bound. Decides, and says what is to be done; does no I/O.

Every change comes in through one of its methods, on one event loop, with the time as an argument. Calls return
instructions and verdicts; what became of an instruction comes back through `released`, `binding.finish` and the watch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from queues.spec import QueueSpec
from scheduler import advise, planner, preempt
from scheduler.adoption import Adoption
from scheduler.barrier import Barrier
from scheduler.binding import Binding
from scheduler.cluster import Cluster
from scheduler.constraints import constraints_of
from scheduler.engine_settings import EngineSettings
from scheduler.exact import Solution
from scheduler.expectation import Expectations
from scheduler.exposure import Exposure
from scheduler.filtering import Filtering
from scheduler.gangs import Gangs
from scheduler.hearsay import Hearsay
from scheduler.instruction import Instruction
from scheduler.memberships import Recognise
from scheduler.object_facts import ObjectFacts, Objects
from scheduler.object_index import NO_OBJECTS
from scheduler.packing.refresh import Refresh
from scheduler.planning import Planning
from scheduler.pod import PodFacts
from scheduler.reason import Code, Reason
from scheduler.recognition import recognise
from scheduler.record import PodRecord, Stage
from scheduler.request import RequestError, foreign_request, parse_request
from scheduler.reservation import Reservations
from scheduler.roster import Roster
from scheduler.second_look import Question
from scheduler.telling import Telling
from scheduler.tracking import Tracking
from scheduler.verdict import FilterVerdict
from topology.topology import Topology

__all__ = ["Engine", "EngineSettings"]

RECENT_MS: Final = 60_000
"""A replica that takes over says again what may have been lost between it and the former one: what is so young."""
IN_FLIGHT: Final = frozenset({Stage.PLANNED, Stage.RELEASED, Stage.BINDING})


class Engine:
    """All pods of ours and the cluster they go to."""

    def __init__(
        self,
        cluster: Cluster,
        settings: EngineSettings,
        objects: Objects = NO_OBJECTS,
        recognise: Recognise = recognise,
    ) -> None:
        """`objects` are the owners and groups that say who belongs together, as `recognise` reads them."""
        self.cluster = cluster
        self.settings = settings
        self.gangs = Gangs(objects, recognise)
        self.packing = Refresh(cluster)
        self.roster = Roster(
            cluster.accounts,
            self.gangs,
            settings.device_resources,
            self.packing.learner,
            require_device_variable=settings.require_device_variable,
        )
        self.expectations = Expectations()
        self.reservations = Reservations(cluster, self.expectations, settings.reservations)
        self.adoption = Adoption(cluster, settings.scheduler_name, settings.device_resources)
        self.barrier = Barrier(cluster, self.roster)
        self.binding = Binding(cluster, self.roster, self.barrier, settings)
        self._filtering = Filtering(cluster, self.roster, self.reservations, settings)
        self._tracking = Tracking(cluster, self.roster)
        self.exposure = Exposure(cluster, self.roster, settings.max_in_flight)
        self._planning = Planning(
            cluster, self.roster, self._tracking, self.reservations, self.exposure, self.barrier, settings
        )
        self.telling = Telling(
            cluster,
            self.roster,
            after_ms=settings.tell_after_ms,
            again_after_ms=settings.retell_after_ms,
            per_tick=settings.tells_per_tick,
        )
        self.foreign: set[str] = set()
        """Pods of other schedulers that are not bound yet: a bind entry serves every pod of its process."""
        self.hearsay = Hearsay(settings.booking_deadline_ms)

    def ours(self, pod: PodFacts) -> bool:
        return pod.scheduler_name == self.settings.scheduler_name

    def is_bound_to(self, uid: str, node: str) -> bool:
        """Whether the pod, anybody's, is on that node for certain."""
        entry = self.cluster.ledger.entries.get(uid)
        return entry is not None and entry.bound and entry.node == node

    @property
    def in_flight(self) -> int:
        """Pods that are booked and not bound."""
        return len(self.cluster.ledger.bookings)

    # -- what the watch says -----------------------------------------------------------------------------------

    def apply_pod(self, facts: PodFacts, now_ms: int) -> None:
        """Takes a pod as the API shows it now. Repeated and late news are harmless."""
        self.hearsay.seen(facts.uid)
        if facts.finished:
            self._finished(facts, now_ms)
        elif facts.node_name is not None:
            self._bound(facts, now_ms)
        elif self.ours(facts):
            self._tracking.track(facts, now_ms)
        else:
            self.foreign.add(facts.uid)

    def meet(self, facts: PodFacts, now_ms: int) -> None:
        """kube-scheduler speaks of a pod of another scheduler, which the watch may not have shown yet."""
        uid = facts.uid
        if uid in self.cluster.ledger.entries:
            return  # bound already: a late question
        if self.hearsay.is_only_heard_of(uid) or not (uid in self.foreign or self.hearsay.is_gone(uid)):
            self.foreign.add(uid)
            self.hearsay.heard(uid, now_ms)

    def remove_pod(self, uid: str, now_ms: int | None = None) -> None:
        """The pod is gone. With the time its run time is learnt from, unless it was deleted."""
        self._leaves(uid, now_ms, ended=False)
        self.gangs.gone(uid)

    def _finished(self, facts: PodFacts, now_ms: int) -> None:
        """The pod has ended, and is still there."""
        record = self.roster.records.get(facts.uid)
        if self.ours(facts):
            self.gangs.over(facts, unseen=record is None)
        ended = record is not None and record.facts.deleted_ms is None and record.stage is Stage.BOUND
        self._leaves(facts.uid, now_ms, ended=ended)

    def _leaves(self, uid: str, now_ms: int | None, *, ended: bool) -> None:
        record = self.roster.records.get(uid)
        if now_ms is not None and record is not None:
            self.expectations.ended(uid, now_ms, by_itself=record.facts.deleted_ms is None)
        self._forget(uid, ended=ended)
        self.hearsay.gone(uid)

    def _forget(self, uid: str, *, ended: bool = False) -> None:
        self.cluster.release(uid)
        self.roster.forget(uid, ended=ended)
        self.adoption.forget(uid)
        self.foreign.discard(uid)

    def _bound(self, facts: PodFacts, now_ms: int) -> None:
        self.foreign.discard(facts.uid)
        ours = self.ours(facts)
        facts = self.roster.gangs.look(facts) if ours else facts
        self.adoption.adopt(facts)
        if ours:
            record = self.roster.records.get(facts.uid)
            if record is None:
                record = self._meet_bound(facts, now_ms)
            self.roster.leave(facts.uid)
            record.facts, record.reason = facts, None
            record.read_back()
            record.move(Stage.BOUND, f"bound to {facts.node_name}", now_ms)
            self.roster.rejoin(record)
            if facts.phase == "Running":
                self.expectations.started(facts, now_ms)

    def _meet_bound(self, facts: PodFacts, now_ms: int) -> PodRecord:
        """A pod of ours that started before anybody here had seen it. One of its gang may have counted elsewhere."""
        record = self.roster.enter(facts, now_ms)
        holding = self.cluster.accounts.holding(facts.uid)
        record.queue = (holding and holding.leaf) or ""
        record.move(Stage.BOUND, f"bound to {facts.node_name}", now_ms)
        self._tracking.tell_its_gang(record, now_ms, bound_too=True)
        return record

    # -- owners, groups and topologies -------------------------------------------------------------------------

    def object_changed(self, old: ObjectFacts | None, new: ObjectFacts | None, now_ms: int) -> None:
        """An owner or a group came, changed or went: what it says of pods may be new."""
        for uid in self.gangs.concerned(old, new):
            record = self.roster.records.get(uid)
            if record is None:
                continue
            if record.stage is Stage.BOUND:
                self._bound(record.facts, now_ms)
            else:
                self._tracking.track(record.facts, now_ms)

    def set_topologies(self, topologies: Iterable[Topology]) -> None:
        """All topologies there are."""
        self.cluster.set_topologies(topologies)

    # -- queues ------------------------------------------------------------------------------------------------------

    def set_queues(self, specs: Iterable[QueueSpec], now_ms: int) -> None:
        """All queues there are, of every source. Whoever waits stands anew; a plan that its queue no longer bears is
        given back.
        """
        self.cluster.set_queues(specs)
        self._queues_changed(now_ms)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None, now_ms: int) -> None:
        """Labels of a namespace, None when it went."""
        if self.cluster.set_namespace(name, labels):
            self._queues_changed(now_ms, name)

    def _queues_changed(self, now_ms: int, namespace: str | None = None) -> None:
        for record in self.roster.queues_changed(now_ms, namespace):
            self._tracking.resume(record, "queues changed", now_ms)
        for uid in list(self.cluster.ledger.bookings):
            booked = self.roster.records.get(uid)
            if booked is not None and booked.settled(now_ms) and not self.cluster.accounts.still_bears(booked.facts):
                self.cluster.release(uid)
                self._tracking.resume(booked, "its queue no longer lets it start", now_ms)

    # -- planning ----------------------------------------------------------------------------------------------------

    def plan(self, now_ms: int) -> tuple[list[Instruction], bool]:
        """One round. Returns what is to be done, and whether another round should follow at once."""
        for uid in self.hearsay.give_up(now_ms):
            entry, record = self.cluster.ledger.entries.get(uid), self.roster.records.get(uid)
            if (entry is None or not entry.bound) and (record is None or record.settled(now_ms)):
                self._forget(uid)
        for gang in self.gangs.count_unseen():
            self.roster.line.changed(gang)
        more = self._planning.round(now_ms)
        self.telling.round(now_ms)
        instructions, self.roster.outbox = self.roster.outbox, []
        return instructions, more

    def question(self) -> Question | None:
        """A question that came up in the last round, to be answered beside the loop; each is given once."""
        return self._planning.question()

    def answered(self, question: Question, solution: Solution | None) -> None:
        """The answer to a question, None when there was trouble."""
        self._planning.answered(question, solution)

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When a round is due although nothing happens: a message to give, a booking to expire, a wait to end."""
        due = [entry.deadline_ms for entry in self.cluster.ledger.bookings.values() if entry.deadline_ms is not None]
        others = (self.hearsay.next_ms(), self.roster.next_alarm_ms(now_ms), self.telling.next_ms())
        return min(due + [at_ms for at_ms in others if at_ms is not None], default=None)

    # -- which replica acts --------------------------------------------------------------------------------------

    def stand_down(self, now_ms: int) -> None:
        """Another replica acts from now on: plans that are not bound are given back. Binds on their way end first."""
        for uid in list(self.cluster.ledger.bookings):
            record = self.roster.records.get(uid)
            if record is not None and record.settled(now_ms):
                self.cluster.release(uid)
                self._tracking.resume(record, "another replica acts", now_ms)
        for gang in self.gangs:
            self.barrier.on_decided(gang.key)
        self.keep_quiet()

    def keep_quiet(self) -> None:
        """Forgets what was to be said: the replica that acts says it."""
        self.roster.outbox.clear()
        self.telling.clear()
        self.exposure.clear()

    def take_over(self, now_ms: int) -> None:
        """This replica acts from now on. What it saw last is said once more: nobody may have said it."""
        self.keep_quiet()
        self.roster.fresh.extend(self.roster.waiting.values())
        for record in self.roster.records.values():
            if now_ms - record.since_ms > RECENT_MS:
                continue
            record.warned.clear()
            record.told = None
            if record.stage in (Stage.REFUSED, Stage.UNQUEUED):
                self.roster.tell(record, now_ms)
            elif record.stage is Stage.WAITING:
                self.roster.warn(record)

    def why(self, record: PodRecord, now_ms: int) -> Reason | None:
        """Why a waiting pod has no place as things are; None when there is one and its turn will come."""
        if record.not_before_ms > now_ms:
            return Reason(Code.BACKING_OFF)
        group = self.roster.line.alike(record)
        if group.block is not None:
            return group.block
        if group.gang is not None:
            return group.reason
        left = None if group.room is None else group.room.slots(self.cluster)
        if record.request is not None and self.cluster.place(
            record.facts, record.request, record.constraints, record.allowed_nodes(now_ms), left
        ):
            return None
        return self.telling.why(record, now_ms)

    def released(self, uid: str, ok: bool, now_ms: int) -> None:
        """What became of a Release, Expose or Nominate. A failed release gives the place back and waits a little."""
        record = self.roster.records.get(uid)
        if not ok and record is not None and self.exposure.shows(uid):
            record.failures += 1
            again_ms = now_ms + self.settings.backoff_ms(record.failures)
            self.exposure.failed(uid, again_ms)
            self.roster.alarm(again_ms)
        if record is None or ok or record.stage is not Stage.PLANNED:
            return
        self.cluster.release(uid)
        record.failures += 1
        self.roster.back_off(record, self.settings.backoff_ms(record.failures), now_ms)
        self.roster.wait(record, "release failed", now_ms)

    # -- kube-scheduler's questions ----------------------------------------------------------------------------

    def filter(self, pod: PodFacts, offered: Sequence[str], now_ms: int, nominated: str | None = None) -> FilterVerdict:
        """The one planned node if it is offered; else a new plan among those offered; else why not.

        `nominated` is the pod's nominated node as kube-scheduler sees it.
        """
        if self.hearsay.is_gone(pod.uid):
            return FilterVerdict(error="the pod is deleted")
        record = self.roster.records.get(pod.uid)
        if record is None or self.hearsay.is_only_heard_of(pod.uid):
            self._tracking.track(pod, now_ms)
            self.hearsay.heard(pod.uid, now_ms)
            record = self.roster.records[pod.uid]
        return self._filtering.answer(record, offered, nominated, now_ms)

    def prioritize(self, pod: PodFacts, offered: Sequence[str]) -> list[tuple[str, int]]:
        """Full marks for the planned node; kube-scheduler asks only when more than one node is left."""
        entry = self.cluster.ledger.entries.get(pod.uid)
        return [(name, 10 if entry is not None and name == entry.node else 0) for name in offered]

    def preempt(self, pod: PodFacts, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """The candidate nodes that would really hold the pod once their victims are gone."""
        request = foreign_request(pod, self.settings.device_resources)
        if self.ours(pod):
            try:
                request = parse_request(pod, self.settings.device_resources)
            except RequestError:
                return {}
        return preempt.answer(self.cluster, pod, request, constraints_of(pod), victims)

    def advise_filter(self, pod: PodFacts, offered: Sequence[str]) -> FilterVerdict:
        """Advise mode: drops only nodes that cannot hold the pod."""
        try:
            request = parse_request(pod, self.settings.device_resources)
        except RequestError:
            return FilterVerdict(refused=dict.fromkeys(offered, Code.INVALID_REQUEST))
        return advise.filter_nodes(self.cluster, pod, request, constraints_of(pod), offered)

    def advise_prioritize(self, pod: PodFacts, offered: Sequence[str]) -> list[tuple[str, int]]:
        """Advise mode: the policy's order of the offered nodes."""
        request = foreign_request(pod, self.settings.device_resources)
        return advise.prioritize(self.cluster, request, offered)

    def validate(self) -> None:
        """Raises AssertionError when the parts contradict each other; for tests."""
        self.cluster.validate()
        self.roster.line.validate()
        planner.validate(self.cluster, self.roster.line)
        assert sorted(self.roster.waiting) == sorted(
            record.uid for group in self.roster.line.groups for record in group.pods
        )
        for uid, record in self.roster.records.items():
            entry = self.cluster.ledger.entries.get(uid)
            assert (uid in self.roster.waiting) == (record.stage is Stage.WAITING), (uid, record.stage)
            if record.stage in IN_FLIGHT:
                assert entry is not None, (uid, record.stage)
            if record.stage is Stage.WAITING:
                assert entry is None, (uid, record.stage)
