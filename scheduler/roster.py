"""The pods of ours: a record of each, who of them waits, and what is to be done about them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from queues.access import Choice
from queues.amounts import NOTHING
from scheduler import device_variable, expectation
from scheduler.accounts import Accounts
from scheduler.claim import misunderstandings, same_claim
from scheduler.constraints import constraints_of
from scheduler.gangs import Gangs
from scheduler.instruction import Instruction, Tell, Warn
from scheduler.line import Line, form_of
from scheduler.packing.learner import Learner
from scheduler.pod import PodFacts
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord, Stage
from scheduler.request import Request, RequestError, parse_request, warnings_of


class Roster:
    """Records by uid, the waiting ones also in line, and the outbox of instructions for the next round."""

    def __init__(
        self,
        accounts: Accounts,
        gangs: Gangs,
        device_resources: Sequence[str],
        learner: Learner,
        *,
        require_device_variable: bool = False,
    ) -> None:
        """`accounts` know the queues, and are told what waits; `gangs` know who belongs together; `learner` is told
        what pods ask for.
        """
        self._accounts = accounts
        self.gangs = gangs
        self._device_resources = device_resources
        self._learner = learner
        self._require_device_variable = require_device_variable
        self.records: dict[str, PodRecord] = {}
        self.outbox: list[Instruction] = []
        self.waiting: dict[str, PodRecord] = {}
        """Those that want a plan, by uid."""
        self.line = Line()
        """The same in the order in which they get one."""
        self.fresh: list[PodRecord] = []
        """Those that began to wait and that nobody has thought of telling yet; whoever does takes them out."""
        self.unnamed: list[PodRecord] = []
        """Those that began to wait although a node is nominated for them."""
        self._alarms: list[int] = []

    def enter(self, facts: PodFacts, now_ms: int) -> PodRecord:
        """A record for a pod seen for the first time. A request that makes no sense is kept as such."""
        request, problem = self._read(facts)
        record = PodRecord(facts, constraints_of(facts), request, problem, since_ms=now_ms)
        record.runtime_ms = expectation.declared_ms(facts)
        self.records[facts.uid] = record
        self._learner.came(facts.uid, form_of(record))
        self.gangs.join(record)
        return record

    def refresh(self, record: PodRecord, facts: PodFacts) -> bool:
        """Takes newer facts. True when what the pod wants has changed."""
        old = record.facts
        same_wish, same = _same_wish(old, facts), same_claim(old, facts)
        moves = self.gangs.membership(record.uid) != record.membership
        if same_wish and same and old.gates == facts.gates and not moves:
            record.facts = facts
            return False
        in_line = record.uid in self.waiting
        if in_line:
            self.line.remove(record)
        record.take(facts)
        self._move(record)
        changed = not same_wish and self._reread(record)
        if in_line:
            # one that no queue takes any more keeps its place until it is asked to wait again, which is next
            self._join(record, self._accounts.choice(facts).queue or record.queue)
        return changed or moves or not (same or self._counts_as_before(old, facts))

    def _counts_as_before(self, old: PodFacts, new: PodFacts) -> bool:
        """Whether a pod whose claim is worded otherwise is in the same queue and gives way as before."""
        before, after = self._accounts.choice(old).queue, self._accounts.choice(new).queue
        if before is None or before != after:
            return False
        return self._accounts.is_preemptible(old, before) == self._accounts.is_preemptible(new, before)

    def rejoin(self, record: PodRecord) -> None:
        """What was found out about a pod on a node, or its state there, may be new: its gang has to be looked at."""
        self._move(record)
        self.look_at_gang_of(record)
        if record.gang is not None:
            self.line.changed(record.gang)

    def _move(self, record: PodRecord) -> None:
        """Puts the record, which is not in line, into the gang where it belongs now."""
        before = record.gang
        if not self.gangs.join(record):
            return
        for gang in (before, record.gang):
            if gang is not None:
                self.line.changed(gang)

    def _reread(self, record: PodRecord) -> bool:
        request, problem = self._read(record.facts)
        constraints = constraints_of(record.facts)
        record.runtime_ms = expectation.declared_ms(record.facts)
        if (request, str(problem), constraints) == (record.request, str(record.problem), record.constraints):
            return False
        record.request, record.problem, record.constraints = request, problem, constraints
        record.tried_epoch, record.offered = -1, None
        self._learner.came(record.uid, form_of(record))
        return True

    def _read(self, facts: PodFacts) -> tuple[Request | None, RequestError | None]:
        try:
            request = parse_request(facts, self._device_resources)
            if self._require_device_variable:
                device_variable.check(facts, request)
        except RequestError as err:
            return None, err
        return request, None

    def forget(self, uid: str, *, ended: bool = False) -> None:
        """The pod is gone; `ended`: it ran to its end."""
        self.leave(uid)
        record = self.records.pop(uid, None)
        if record is not None:
            gang = record.gang
            self._learner.gone(uid, ran=record.stage is Stage.BOUND)
            self.gangs.leave(record, ended=ended)
            if gang is not None:
                self.line.changed(gang)

    def look_at_gang_of(self, record: PodRecord) -> None:
        """The record got or lost its place, or may get one no longer: its gang has to be looked at."""
        if record.gang is not None:
            self.gangs.touch(record.gang)

    # -- who waits -----------------------------------------------------------------------------------------------

    def wait(self, record: PodRecord, cause: str, now_ms: int) -> None:
        """The pod wants a (new) plan. One that no queue takes waits for that first."""
        self.look_at_gang_of(record)
        choice = self._accounts.choice(record.facts)
        if choice.queue is None:
            self._turn_away(record, choice, now_ms)
            return
        if record.uid not in self.waiting:
            record.tried_epoch = -1
            self.waiting[record.uid] = record
            self._join(record, choice.queue)
            self.fresh.append(record)
            if record.facts.nominated_node is not None:
                self.unnamed.append(record)
        record.move(Stage.WAITING, cause, now_ms)

    def _join(self, record: PodRecord, queue: str) -> None:
        """The pod joins the line of a leaf."""
        record.queue = queue
        record.preemptible = self._accounts.is_preemptible(record.facts, queue)
        record.wants = NOTHING if record.request is None else self._accounts.wants(record.request)
        self._accounts.want(record.uid, queue, record.wants)
        self.line.add(record)

    def _turn_away(self, record: PodRecord, choice: Choice, now_ms: int) -> None:
        assert choice.refusal is not None
        self.leave(record.uid)
        record.reason = Reason(Code(choice.refusal.value), choice.numbers)
        record.move(Stage.UNQUEUED, choice.refusal.value, now_ms)
        self.tell(record, now_ms)

    def queues_changed(self, now_ms: int, namespace: str | None = None) -> list[PodRecord]:
        """Queues, or access to them, are others: everyone who waits (in a namespace) stands anew.

        Returns those that no queue took before.
        """
        turned_away = []
        for record in self.records.values():
            if namespace is not None and record.facts.namespace != namespace:
                continue
            if record.stage is Stage.UNQUEUED:
                turned_away.append(record)
            elif record.uid in self.waiting:
                self.line.remove(record)
                del self.waiting[record.uid]
                self._accounts.unwant(record.uid)
                self._stand_anew(record, now_ms)
        return turned_away

    def price_anew(self) -> None:
        """Other cards are there: what is wanted of their memory counts for another part of one."""
        for record in self.waiting.values():
            if record.request is not None and record.request.share_memory_mib:
                record.wants = self._accounts.wants(record.request)
                self._accounts.want(record.uid, record.queue, record.wants)

    def _stand_anew(self, record: PodRecord, now_ms: int) -> None:
        choice = self._accounts.choice(record.facts)
        if choice.queue is None:
            self._turn_away(record, choice, now_ms)
        else:
            self.waiting[record.uid] = record
            self._join(record, choice.queue)

    def leave(self, uid: str) -> None:
        """The pod wants no plan now."""
        record = self.waiting.pop(uid, None)
        if record is not None:
            self.line.remove(record)
            self._accounts.unwant(uid)
            record.vain = record.search_again_ms = 0
            self.look_at_gang_of(record)

    def back_off(self, record: PodRecord, wait_ms: int, now_ms: int) -> None:
        """The pod is not tried again before a while has passed."""
        record.not_before_ms = now_ms + wait_ms
        self.alarm(record.not_before_ms)

    def alarm(self, at_ms: int) -> None:
        """A round is due at this time: a waiting pod may be worth another try."""
        heapq.heappush(self._alarms, at_ms)

    def next_alarm_ms(self, now_ms: int) -> int | None:
        """The first alarm after `now_ms`."""
        while self._alarms and self._alarms[0] <= now_ms:
            heapq.heappop(self._alarms)
        return self._alarms[0] if self._alarms else None

    # -- what is said --------------------------------------------------------------------------------------------

    def warn(self, record: PodRecord) -> None:
        """Orders one warning for each thing in the pod that works but is not meant."""
        facts = record.facts
        found: dict[str, str] = {warning.problem: warning.text for warning in warnings_of(facts)}
        found |= misunderstandings(facts) | expectation.misunderstandings(facts) | dict(record.membership.warnings)
        for problem, text in found.items():
            if problem not in record.warned:
                record.warned.add(problem)
                self.outbox.append(Warn(facts.uid, facts.namespace, facts.name, problem, text))

    def tell(self, record: PodRecord, now_ms: int) -> bool:
        """Orders a message when the reason's code is new; returns whether it is."""
        if record.reason is None or record.told == record.reason.code:
            return False
        record.told, record.told_ms = record.reason.code, now_ms
        facts = record.facts
        self.outbox.append(Tell(facts.uid, facts.namespace, facts.name, record.reason, gated=facts.gated_by_us))
        return True


def _same_wish(old: PodFacts, new: PodFacts) -> bool:
    """Whether nothing changed from which wishes are read; a quick look before the thorough one."""
    return (
        old.annotations == new.annotations
        and old.containers == new.containers
        and old.init_containers == new.init_containers
        and old.pod_requests == new.pod_requests
        and old.pod_limits == new.pod_limits
        and old.overhead == new.overhead
        and old.node_selector == new.node_selector
        and old.node_affinity == new.node_affinity
        and old.tolerations == new.tolerations
    )
