"""What Tangram remembers of one pod of its own: facts, request, the stage it is in, and its story."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from queues import order
from queues.amounts import NOTHING, Amounts
from scheduler.constraints import Constraints
from scheduler.gang import Gang
from scheduler.membership import ALONE, Membership
from scheduler.pod import PodFacts
from scheduler.reason import Code, Reason
from scheduler.request import Request, RequestError
from topology import vocabulary

STORY_LENGTH: Final = 32
FIRST_FACT_MS: Final = 1000
MOST_DIGITS: Final = 10


class Stage(StrEnum):
    """Where a pod is on its way. `Engine` is the only one that moves it, through `PodRecord.move`."""

    HELD = "held"
    """Carries a gate of somebody else: neither demand nor ready."""
    REFUSED = "refused"
    """Its request contradicts itself: waits for its author."""
    UNQUEUED = "unqueued"
    """No queue takes it: waits for its author or an administrator."""
    WAITING = "waiting"
    """Wants a plan."""
    PLANNED = "planned"
    """Booked; the release has been ordered and is not seen yet."""
    RELEASED = "released"
    """Booked and without our gate: kube-scheduler has it."""
    BINDING = "binding"
    """Booked and a Binding is on its way."""
    BOUND = "bound"
    """On its node."""


PLACED: Final = frozenset({Stage.PLANNED, Stage.RELEASED, Stage.BINDING, Stage.BOUND})


class Step(NamedTuple):
    """One line of a pod's story."""

    at_ms: int
    stage: Stage
    cause: str


class OfferedFact(NamedTuple):
    """The nodes that kube-scheduler offered for the pod, learnt when the planned one was not among them."""

    nodes: frozenset[str]
    expires_ms: int


@dataclass(slots=True)
class PodRecord:
    """One pod. `request` is None exactly while `problem` says why it could not be read."""

    facts: PodFacts
    constraints: Constraints
    request: Request | None
    problem: RequestError | None
    since_ms: int
    stage: Stage = Stage.WAITING
    queue: str = ""
    """The leaf in which it waits; set, with the next three, when it begins to wait."""
    preemptible: bool = True
    wants: Amounts = NOTHING
    queue_epoch: int = -1
    """The state of the queues in which its booking was last held against them."""
    runtime_ms: int | None = None
    """How long it says that it runs."""
    rank: order.Rank = field(init=False)
    """Its place among those that wait; changes only in `take`."""
    membership: Membership = ALONE
    gang: Gang | None = None
    """The gang it has joined."""
    has_place: bool = False
    """Booked or bound, and not about to go. Kept in step by `move` and by the round that books it."""
    at_barrier: bool = False
    """Waits at bind for others of its gang; no Binding is on its way."""
    place_in_leaf: int = -1
    """Its number in a leaf whose pods are numbered, -1: none yet."""
    domain: str = ""
    """The domain of its gang that it goes to, its values from the broadest level on, joined by slashes."""
    gang_rank: int = -1
    """Its number in its gang, such that neighbours in number are neighbours in the network; -1: none yet."""
    was_gated: bool = False
    """Our gate has been seen on it. One that never had it was not released by anybody."""
    exposed: bool = False
    """Our gate was taken off for autoscalers to see it, not for a plan: it waits for its turn as before."""
    offered: OfferedFact | None = None
    offered_times: int = 0
    tried_epoch: int = -1
    vain: int = 0
    """Searches in vain for a pod that is like no other; see `planner`."""
    search_again_ms: int = 0
    not_before_ms: int = 0
    bind_not_before_ms: int = 0
    unsure_until_ms: int = 0
    """Until when a Binding whose outcome nobody knows may still take effect; its place is kept so long."""
    failures: int = 0
    """Releases and binds that failed one after the other."""
    expiries: int = 0
    """Bookings that expired one after the other: the pod was released and did not come to bind."""
    refusals: int = 0
    """How often kube-scheduler was told that no offered node fits."""
    told: Code | None = None
    told_ms: int = 0
    look_ms: int = 0
    """When its reason is looked at next, while it waits."""
    warned: set[str] = field(default_factory=set)
    reason: Reason | None = None
    story: deque[Step] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))

    def __post_init__(self) -> None:
        self.take(self.facts)

    @property
    def uid(self) -> str:
        return self.facts.uid

    @property
    def is_open(self) -> bool:
        """Whether it may get a place."""
        return self.stage is Stage.WAITING and self.request is not None

    def take(self, facts: PodFacts) -> None:
        """Takes newer facts, and the rank that follows from them."""
        self.facts = facts
        self.was_gated = self.was_gated or facts.gated_by_us
        released = self.was_gated and not facts.gates and not self.exposed
        self.rank = order.rank(uid=facts.uid, priority=facts.priority, created_ms=facts.created_ms, released=released)

    @property
    def stays(self) -> bool:
        """Whether it is bound, and not about to go."""
        return self.stage is Stage.BOUND and self.has_place

    def read_back(self) -> None:
        """What was written with the Binding, where it is not known any more: after a restart."""
        written = self.facts.annotations.get(vocabulary.RANK, "")
        if self.gang_rank < 0 and written.isascii() and written.isdecimal() and len(written) < MOST_DIGITS:
            self.gang_rank = int(written)
            self.domain = self.facts.annotations.get(vocabulary.TOPOLOGY_DOMAIN, "")

    def settled(self, now_ms: int) -> bool:
        """Whether no Binding of the pod can take effect any more: only then may its place be given away."""
        return (self.stage is not Stage.BINDING or self.at_barrier) and self.unsure_until_ms <= now_ms

    def move(self, stage: Stage, cause: str, now_ms: int) -> None:
        """The only way a stage changes; a repeated cause in the same stage leaves no second line."""
        last = self.story[-1] if self.story else None
        if last is None or (last.stage, last.cause) != (stage, cause):
            self.story.append(Step(now_ms, stage, cause))
        self.stage = stage
        if self.at_barrier and stage is not Stage.BINDING:
            self.at_barrier = False
            if self.gang is not None:
                self.gang.left_bind = True
        self.has_place = stage in PLACED and (stage is not Stage.BOUND or self.facts.deleted_ms is None)

    def learn_offered(self, nodes: frozenset[str], now_ms: int, longest_ms: int) -> int:
        """Believes an offered list for a while: shortly at first (the other side's view may only lag), then longer.

        Returns until when.
        """
        ttl_ms = min(FIRST_FACT_MS << min(self.offered_times, 10), longest_ms)
        self.offered_times += 1
        self.offered = OfferedFact(nodes, now_ms + ttl_ms)
        return self.offered.expires_ms

    def allowed_nodes(self, now_ms: int) -> Collection[str] | None:
        """The nodes that a learnt fact leaves, or None when nothing is known (any more)."""
        if self.offered is not None and self.offered.expires_ms <= now_ms:
            self.offered = None
        return None if self.offered is None else self.offered.nodes


def invalid_request(problem: RequestError) -> Reason:
    """The reason of a request that contradicts itself; `text` says what to change."""
    return Reason(Code.INVALID_REQUEST, {**problem.details, "problem": problem.problem, "text": str(problem)})
