"""Planning without a cluster: facts in, a plan out. One call is one round; nothing is remembered.

What pods that are being deleted hold counts as about to be free, and a pod that needs it is placed `after-release`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from queues.amounts import Amounts
from queues.spec import QueueSpec
from queues.tree import Finding
from scheduler import expectation, planner
from scheduler.allocation import DeviceShare
from scheduler.candidates import Candidates
from scheduler.claim import DEFAULT_RULES, ClaimRules, misunderstandings
from scheduler.cluster import Cluster
from scheduler.constraints import constraints_of
from scheduler.line import Alike, Line
from scheduler.now_and_later import BoundRules, NowAndLater, When
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy, Strategy
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord, invalid_request
from scheduler.request import RequestError, parse_request, warnings_of
from topology.inventory import InventorySettings
from topology.node import NodeFacts


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A cluster at one moment, its nodes, pods and queues in any order. `now_ms` is epoch milliseconds.

    Without `allocate` nothing is placed: only the reasons of those that may not start or fit nowhere are found.
    """

    nodes: tuple[NodeFacts, ...]
    pods: tuple[PodFacts, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    now_ms: int
    policy: PlacementPolicy
    inventory: InventorySettings
    queues: tuple[QueueSpec, ...] = ()
    rules: ClaimRules = DEFAULT_RULES
    allocate: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod goes, with its devices; `after-release` when it needs what somebody is still about to give back."""

    pod: PodFacts
    node: str
    devices: tuple[DeviceShare, ...]
    when: When


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that has to wait, and why."""

    pod: PodFacts
    reason: Reason


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A queue after the round: what it is entitled to, holds, and wants in all. The fair share is that of the round."""

    name: str
    fair_share: Amounts
    allocated: Amounts
    requested: Amounts


@dataclass(slots=True)
class PlanAnswer:
    """The round's outcome, in the order in which it was decided."""

    placements: list[Placement] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    queues: list[QueueShare] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    warnings: list[str] = field(default_factory=list)


def plan(given: PlanInput) -> PlanAnswer:
    """One round over the waiting pods of the given cluster. The order of nodes, pods and queues makes no difference."""
    answer = PlanAnswer()
    pods = sorted(given.pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))
    views = NowAndLater(
        lambda: _empty(given),
        (pod for pod in pods if pod.node_name is not None and not pod.finished),
        BoundRules(
            given.rules.scheduler_name,
            given.inventory.device_resources,
            given.now_ms,
            joins=given.policy.device is Strategy.BINPACK,
        ),
        answer.warnings,
    )
    round_ = _Round(views, given)
    # a node that is nominated for a pod is promised to it: it is on its way there, and stays so without being mentioned
    waiting = [record for record in list(_waiting(given, pods, answer)) if not views.promise(record)]
    for record in waiting:
        choice = views.later.accounts.choice(record.facts)
        if choice.queue is None:
            assert choice.refusal is not None
            answer.pending.append(Pending(record.facts, Reason(Code(choice.refusal.value), choice.numbers)))
        else:
            round_.add(record, choice.queue)
    round_.run(answer)
    answer.findings = views.later.accounts.tree.findings
    return answer


def _waiting(given: PlanInput, pods: list[PodFacts], answer: PlanAnswer) -> Iterator[PodRecord]:
    """Records of the pods that want a place. Those that cannot have one go to the answer at once."""
    for pod in pods:
        if pod.node_name is not None or pod.finished or pod.deleted_ms is not None:
            continue
        if pod.scheduler_name != given.rules.scheduler_name:
            continue
        if pod.held_by_others:
            answer.pending.append(Pending(pod, Reason(Code.HELD_BY_OTHER_GATE)))
            continue
        try:
            request = parse_request(pod, given.inventory.device_resources)
        except RequestError as err:
            answer.pending.append(Pending(pod, invalid_request(err)))
            continue
        texts = [warning.text for warning in warnings_of(pod)]
        texts += [*misunderstandings(pod).values(), *expectation.misunderstandings(pod).values()]
        answer.warnings += [f"pod {pod.key}: {text}" for text in texts]
        yield PodRecord(pod, constraints_of(pod), request, None, since_ms=given.now_ms)


class _Round:
    """Places pods in the order of their queues. Room only shrinks, so what failed once is not searched for again."""

    def __init__(self, views: NowAndLater, given: PlanInput) -> None:
        self._views = views
        self._now_ms = given.now_ms
        self._allocate = given.allocate
        self._line = Line()
        self._records: list[PodRecord] = []
        self._reasons: dict[Hashable, Reason] = {}

    def add(self, record: PodRecord, queue: str) -> None:
        """A pod that a queue takes."""
        accounts = self._views.later.accounts
        assert record.request is not None
        record.queue = queue
        record.preemptible = accounts.is_preemptible(record.facts, queue)
        record.wants = accounts.wants(record.request)
        record.runtime_ms = expectation.declared_ms(record.facts)
        accounts.want(record.uid, queue, record.wants)
        self._line.add(record)
        self._records.append(record)

    def run(self, answer: PlanAnswer) -> None:
        """Tries every pod, and says of each that waits why."""
        placed = set()
        accounts = self._views.later.accounts
        accounts.divide()
        shares = {name: standing.fair_share for name, standing in accounts.books.standings.items()}
        candidates = Candidates(self._views.later, self._line, self._now_ms, None)
        while (turn := candidates.next()) is not None:
            placement = self._try(candidates, *turn)
            candidates.done(*turn, placed=placement is not None)
            if placement is not None:
                answer.placements.append(placement)
                placed.add(placement.pod.uid)
                accounts.unwant(placement.pod.uid)
        for record in planner.in_order(self._records):
            if record.uid not in placed and (reason := self._why(record)) is not None:
                answer.pending.append(Pending(record.facts, reason))
        if not accounts.tree.implicit:
            answer.queues = [
                QueueShare(name, shares[name], standing.allocated, standing.requested)
                for name, standing in accounts.books.standings.items()
            ]

    def _try(self, candidates: Candidates, record: PodRecord, group: Alike) -> Placement | None:
        room = candidates.room(record, group)
        later = self._views.later
        odd = planner.form(later, record, self._now_ms) is None
        if room is None or not self._allocate or (not odd and room.is_hopeless(later)):
            return None
        place = self._views.place(record, room.slots(later))
        if place is None:
            if not odd:
                room.hopeless_at = later.growth.now
            return None
        allocation, when = place
        return Placement(record.facts, allocation.node, allocation.devices, when)

    def _why(self, record: PodRecord) -> Reason | None:
        """Why the pod waits; None when it would not have to, had anything been allowed to be placed."""
        group, later = self._line.alike(record), self._views.later
        if group.block is not None or group.room is None:
            return group.block
        if not self._allocate and self._views.fits(record, group.room.slots(later)):
            return None
        form = planner.form(later, record, self._now_ms)
        key = None if form is None else (form, group.room.kept)
        reason = None if key is None else self._reasons.get(key)
        if reason is None:
            reason = self._views.why(record, group.room.excluded(later))
            if key is not None:
                self._reasons[key] = reason
        return reason


def _empty(given: PlanInput) -> Cluster:
    """The cluster without pods."""
    cluster = Cluster(inventory=given.inventory, policy=given.policy, rules=given.rules)
    cluster.set_queues(given.queues)
    for facts in sorted(given.nodes, key=lambda node: node.name):
        cluster.set_node(facts)
    for name, labels in sorted(given.namespaces.items()):
        cluster.set_namespace(name, labels)
    return cluster
