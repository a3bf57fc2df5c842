"""The pods of ours: a record of each, who of them waits, and what is to be done about them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from scheduler import device_variable
from scheduler.constraints import constraints_of
from scheduler.instruction import Instruction, Tell, Warn
from scheduler.line import Line
from scheduler.pod import PodFacts
from scheduler.record import PodRecord, Stage
from scheduler.request import Request, RequestError, parse_request, warnings_of


class Roster:
    """Records by uid, the waiting ones also in line, and the outbox of instructions for the next round."""

    def __init__(self, device_resources: Sequence[str], *, require_device_variable: bool = False) -> None:
        self._device_resources = device_resources
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
        self.records[facts.uid] = record
        return record

    def refresh(self, record: PodRecord, facts: PodFacts) -> bool:
        """Takes newer facts. True when what the pod wants has changed."""
        old = record.facts
        same_wish = _same_wish(old, facts)
        if same_wish and old.gates == facts.gates and old.priority == facts.priority:
            record.facts = facts
            return False
        in_line = record.uid in self.waiting
        if in_line:
            self.line.remove(record)
        record.take(facts)
        changed = not same_wish and self._reread(record)
        if in_line:
            self.line.add(record)
        return changed

    def _reread(self, record: PodRecord) -> bool:
        request, problem = self._read(record.facts)
        constraints = constraints_of(record.facts)
        if (request, str(problem), constraints) == (record.request, str(record.problem), record.constraints):
            return False
        record.request, record.problem, record.constraints = request, problem, constraints
        record.tried_epoch, record.offered = -1, None
        return True

    def _read(self, facts: PodFacts) -> tuple[Request | None, RequestError | None]:
        try:
            request = parse_request(facts, self._device_resources)
            if self._require_device_variable:
                device_variable.check(facts, request)
        except RequestError as err:
            return None, err
        return request, None

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self.leave(uid)
        self.records.pop(uid, None)

    # -- who waits -----------------------------------------------------------------------------------------------

    def wait(self, record: PodRecord, cause: str, now_ms: int) -> None:
        """The pod wants a (new) plan."""
        if record.uid not in self.waiting:
            record.tried_epoch = -1
            self.waiting[record.uid] = record
            self.line.add(record)
            self.fresh.append(record)
            if record.facts.nominated_node is not None:
                self.unnamed.append(record)
        record.move(Stage.WAITING, cause, now_ms)

    def leave(self, uid: str) -> None:
        """The pod wants no plan now."""
        record = self.waiting.pop(uid, None)
        if record is not None:
            self.line.remove(record)
            record.vain = record.search_again_ms = 0

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
        for warning in warnings_of(facts):
            if warning.problem not in record.warned:
                record.warned.add(warning.problem)
                self.outbox.append(Warn(facts.uid, facts.namespace, facts.name, warning.problem, warning.text))

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
