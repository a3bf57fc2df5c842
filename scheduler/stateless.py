"""Planning without a cluster: facts in, a plan out. One call is one round; nothing is remembered.

What pods that are being deleted hold counts as about to be free, and a pod that needs it is placed `after-release`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from queues.spec import QueueSpec
from scheduler import expectation, planner, stale_gangs
from scheduler.adoption import bound_request
from scheduler.candidates import Candidates
from scheduler.claim import DEFAULT_RULES, ClaimRules, misunderstandings
from scheduler.cluster import Cluster
from scheduler.constraints import constraints_of
from scheduler.gang_turns import GangTurns
from scheduler.gangs import Gangs
from scheduler.line import Alike, Line
from scheduler.now_and_later import BoundRules, NowAndLater, When
from scheduler.object_facts import Objects
from scheduler.object_index import NO_OBJECTS
from scheduler.packing.mix import Mix
from scheduler.packing.refresh import Refresh, learner_of, teach
from scheduler.plan_answer import Pending, Placement, PlanAnswer, QueueShare
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy, Policy, Strategy
from scheduler.reason import Code, Reason
from scheduler.recognition import recognise
from scheduler.record import PodRecord, Stage, invalid_request
from scheduler.request import RequestError, parse_request, warnings_of
from scheduler.room import Form
from scheduler.views_ground import ViewsGround
from topology.inventory import InventorySettings
from topology.node import NodeFacts
from topology.topology import Topology

EXACT_LIMIT: Final = 0.5
"""Of the exact search for a place of a gang, in CP-SAT's deterministic time: half a second to a few seconds."""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A cluster at one moment, its nodes, pods and queues in any order. `now_ms` is epoch milliseconds.

    Without `allocate` nothing is placed: only the reasons of those that may not start or fit nowhere are found. With
    `stale` gangs that have run below their minimum for too long are restarted.
    """

    nodes: tuple[NodeFacts, ...]
    pods: tuple[PodFacts, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    now_ms: int
    policy: Policy
    inventory: InventorySettings
    queues: tuple[QueueSpec, ...] = ()
    rules: ClaimRules = DEFAULT_RULES
    allocate: bool = True
    stale: bool = False
    topologies: tuple[Topology, ...] = ()
    objects: Objects = NO_OBJECTS
    mix: Mix | None = None
    """The demand that a policy which learns goes by; None: what the given pods ask for."""


def plan(given: PlanInput) -> PlanAnswer:
    """One round over the waiting pods of the given cluster. The order of nodes, pods and queues makes no difference."""
    answer = PlanAnswer()
    gangs = Gangs(given.objects, recognise)
    pods = [_looked_at(pod, gangs, given) for pod in sorted(given.pods, key=_order)]
    views = NowAndLater(
        lambda: _empty(given),
        (pod for pod in pods if pod.node_name is not None and not pod.finished),
        BoundRules(
            given.rules.scheduler_name,
            given.inventory.device_resources,
            given.now_ms,
            joins=not (isinstance(given.policy, PlacementPolicy) and given.policy.device is Strategy.SPREAD),
        ),
        answer.warnings,
    )
    _learn(views.later, pods, given)
    round_ = _Round(views, given, gangs)
    _join_the_placed(pods, gangs, given)
    # a node that is nominated for a pod is promised to it: it is on its way there, and stays so without being mentioned
    waiting = [record for record in list(_waiting(given, pods, gangs, answer)) if not _is_promised(record, views)]
    for record in waiting:
        choice = views.later.accounts.choice(record.facts)
        if choice.queue is None:
            assert choice.refusal is not None
            answer.pending.append(_pending(record.facts, gangs, Reason(Code(choice.refusal.value), choice.numbers)))
        else:
            round_.add(record, choice.queue)
    round_.run(answer)
    if given.stale:
        answer.evictions += stale_gangs.evictions(gangs, given.now_ms)
    answer.findings = views.later.accounts.tree.findings
    return answer


def _order(pod: PodFacts) -> tuple[str, str, str]:
    return pod.namespace, pod.name, pod.uid


def _looked_at(pod: PodFacts, gangs: Gangs, given: PlanInput) -> PodFacts:
    return gangs.look(pod) if pod.scheduler_name == given.rules.scheduler_name else pod


def _join_the_placed(pods: list[PodFacts], gangs: Gangs, given: PlanInput) -> None:
    """Pods on nodes are members of their gangs, those that are about to go as such."""
    for pod in pods:
        if pod.scheduler_name != given.rules.scheduler_name:
            continue
        if pod.phase == "Succeeded":
            gangs.ended(pod.uid)
        if pod.node_name is None or pod.finished:
            continue
        record = PodRecord(pod, constraints_of(pod), None, None, since_ms=given.now_ms)
        record.move(Stage.BOUND, "on its node", given.now_ms)
        gangs.join(record)


def _learn(cluster: Cluster, pods: list[PodFacts], given: PlanInput) -> None:
    """The demand that a policy wants to know: the mix that is given, else all given pods and the prior."""
    if learner_of(given.policy) is None:
        return
    if given.mix is not None:
        teach(cluster.state, given.mix)
        return
    refresh = Refresh(cluster)
    for pod in pods:
        if pod.scheduler_name == given.rules.scheduler_name and not pod.finished:
            request = bound_request(pod, given.rules.scheduler_name, given.inventory.device_resources)
            refresh.learner.came(pod.uid, Form(request, constraints_of(pod)))
    refresh.at_once(given.now_ms)


def _is_promised(record: PodRecord, views: NowAndLater) -> bool:
    record.has_place = views.promise(record)
    return record.has_place


def _pending(pod: PodFacts, gangs: Gangs, reason: Reason) -> Pending:
    key = gangs.membership(pod.uid).gang
    return Pending(pod.name if key is None else key.name, (pod,), reason)


def _waiting(given: PlanInput, pods: list[PodFacts], gangs: Gangs, answer: PlanAnswer) -> Iterator[PodRecord]:
    """Records of the pods that want a place. Those that cannot have one go to the answer at once."""
    for pod in pods:
        if pod.node_name is not None or pod.finished or pod.deleted_ms is not None:
            continue
        if pod.scheduler_name != given.rules.scheduler_name:
            continue
        if pod.held_by_others:
            answer.pending.append(_pending(pod, gangs, Reason(Code.HELD_BY_OTHER_GATE)))
            continue
        try:
            request = parse_request(pod, given.inventory.device_resources)
        except RequestError as err:
            answer.pending.append(_pending(pod, gangs, invalid_request(err)))
            continue
        membership = gangs.membership(pod.uid)
        if membership.problem:
            reason = Reason(Code.GANG_INVALID, {"problem": membership.problem})
            answer.pending.append(_pending(pod, gangs, reason))
            continue
        texts = [warning.text for warning in warnings_of(pod)]
        texts += [*misunderstandings(pod).values(), *expectation.misunderstandings(pod).values()]
        texts += membership.warnings.values()
        answer.warnings += [f"pod {pod.key}: {text}" for text in texts]
        record = PodRecord(pod, constraints_of(pod), request, None, since_ms=given.now_ms)
        gangs.join(record)
        yield record


class _Round:
    """Places pods in the order of their queues. Room only shrinks, so what failed once is not searched for again."""

    def __init__(self, views: NowAndLater, given: PlanInput, gangs: Gangs) -> None:
        self._views = views
        self._turns = GangTurns(
            views.later, gangs.by_key, given.now_ms, lambda left: ViewsGround(views, left), EXACT_LIMIT
        )
        self._gangs = gangs
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
            placements = self._try(candidates, *turn)
            candidates.done(*turn, placed=bool(placements))
            answer.placements += placements
            for placement in placements:
                placed.add(placement.pod.uid)
                accounts.unwant(placement.pod.uid)
        answer.pending += self._waits(
            [record for record in planner.in_order(self._records) if record.uid not in placed]
        )
        if not accounts.tree.implicit:
            answer.queues = [
                QueueShare(name, shares[name], standing.allocated, standing.requested)
                for name, standing in accounts.books.standings.items()
            ]

    def _waits(self, records: list[PodRecord]) -> Iterator[Pending]:
        """Why these wait; the pods of a gang together."""
        told = set()
        for record in records:
            gang = record.gang
            if gang is None:
                reason = self._why(record)
                if reason is not None:
                    yield _pending(record.facts, self._gangs, reason)
            elif gang.key not in told:
                told.add(gang.key)
                group = self._line.alike(record)
                found = group.block or group.reason
                if found is not None:
                    pods = tuple(one.facts for one in records if one.gang is gang)
                    yield Pending(gang.key.name, pods, found)

    def _try(self, candidates: Candidates, record: PodRecord, group: Alike) -> list[Placement]:
        if group.gang is not None:
            return self._try_gang(candidates, group)
        placement = self._try_one(candidates, record, group)
        return [] if placement is None else [placement]

    def _try_gang(self, candidates: Candidates, group: Alike) -> list[Placement]:
        """The next step; all of it is for later when any of it is."""
        tried = self._turns.next_step(candidates, group) if self._allocate else None
        if tried is None:
            return []
        when: When = "after-release" if any(one.later for one in tried) else "now"
        for one in tried:
            one.record.has_place = True
        return [Placement(one.record.facts, one.allocation.node, one.allocation.devices, when) for one in tried]

    def _try_one(self, candidates: Candidates, record: PodRecord, group: Alike) -> Placement | None:
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
    cluster.set_topologies(given.topologies)
    for facts in sorted(given.nodes, key=lambda node: node.name):
        cluster.set_node(facts)
    for name, labels in sorted(given.namespaces.items()):
        cluster.set_namespace(name, labels)
    return cluster
