"""The pods of ours: a record of each, who of them waits, and what is to be done about them."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler import device_variable, planner
from scheduler.constraints import constraints_of
from scheduler.instruction import Instruction, Tell, Warn
from scheduler.pod import PodFacts
from scheduler.record import PodRecord, Stage
from scheduler.request import Request, RequestError, parse_request, warnings_of


class Roster:
    """Records by uid, the waiting ones in order, and the outbox of instructions for the next round."""

    def __init__(self, device_resources: Sequence[str], *, require_device_variable: bool = False) -> None:
        self._device_resources = device_resources
        self._require_device_variable = require_device_variable
        self.records: dict[str, PodRecord] = {}
        self.outbox: list[Instruction] = []
        self._waiting: dict[str, PodRecord] = {}
        self._in_order: list[PodRecord] | None = None

    @property
    def waiting(self) -> Sequence[PodRecord]:
        """Those that want a plan, in the order in which they get one."""
        if self._in_order is None:
            self._in_order = planner.in_order(self._waiting.values())
        return self._in_order

    def is_waiting(self, uid: str) -> bool:
        return uid in self._waiting

    def enter(self, facts: PodFacts, now_ms: int) -> PodRecord:
        """A record for a pod seen for the first time. A request that makes no sense is kept as such."""
        request, problem = self._read(facts)
        record = PodRecord(facts, constraints_of(facts), request, problem, since_ms=now_ms)
        self.records[facts.uid] = record
        return record

    def refresh(self, record: PodRecord, facts: PodFacts) -> bool:
        """Takes newer facts. True when what the pod wants has changed."""
        old = record.facts
        if old.gates != facts.gates or old.priority != facts.priority:
            self._in_order = None
        record.facts = facts
        if _same_text(old, facts):
            return False
        request, problem = self._read(facts)
        constraints = constraints_of(facts)
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

    def wait(self, record: PodRecord, cause: str, now_ms: int) -> None:
        """The pod wants a (new) plan."""
        if record.uid not in self._waiting:
            record.tried_epoch = -1
            self._waiting[record.uid] = record
            self._in_order = None
        record.move(Stage.WAITING, cause, now_ms)

    def leave(self, uid: str) -> None:
        """The pod wants no plan now."""
        if self._waiting.pop(uid, None) is not None:
            self._in_order = None

    def warn(self, record: PodRecord) -> None:
        """Orders one warning for each thing in the pod that works but is not meant."""
        facts = record.facts
        for warning in warnings_of(facts):
            if warning.problem not in record.warned:
                record.warned.add(warning.problem)
                self.outbox.append(Warn(facts.uid, facts.namespace, facts.name, warning.problem, warning.text))

    def tell(self, record: PodRecord, now_ms: int) -> None:
        """Orders a message when the reason's code is new."""
        if record.reason is None or record.told == record.reason.code:
            return
        record.told, record.told_ms = record.reason.code, now_ms
        facts = record.facts
        self.outbox.append(Tell(facts.uid, facts.namespace, facts.name, record.reason, gated=facts.gated_by_us))


def _same_text(old: PodFacts, new: PodFacts) -> bool:
    """Whether nothing changed from which wishes are read; a quick look before the thorough one."""
    return (
        old.annotations == new.annotations
        and old.containers == new.containers
        and old.node_selector == new.node_selector
        and old.node_affinity == new.node_affinity
        and old.tolerations == new.tolerations
    )
