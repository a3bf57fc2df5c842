"""When what a policy knows of the demand is made anew. It takes long and is done beside the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from scheduler.cluster import Cluster
from scheduler.packing.hardware import Hardware
from scheduler.packing.learner import Learner
from scheduler.packing.mix import Mix
from scheduler.packing.survey import hardware_of, models_open_to
from scheduler.policy import Policy
from scheduler.state import ClusterState

ARRIVALS: Final = 250
"""After so many the tables are made anew,"""
EVERY_MS: Final = 30_000
"""or after so long,"""
PART: Final = 20
"""when one pod came or went for so many there are."""


@runtime_checkable
class LearningPolicy(Protocol):
    """A policy whose costs follow from the demand and the hardware."""

    @property
    def learns(self) -> bool:
        """Whether they really do."""
        ...

    def build(self, mix: Mix, hardware: Hardware) -> Any:
        """What the costs are read from. Pure; may run in a thread."""
        ...

    def publish(self, built: Any) -> None:
        """From now on costs are read from this."""
        ...


def learner_of(policy: Policy) -> LearningPolicy | None:
    """The policy as one that learns, None for one that does not."""
    return policy if isinstance(policy, LearningPolicy) and policy.learns else None


def teach(state: ClusterState, mix: Mix) -> None:
    """Lets the policy of the state know the demand, if it wants to."""
    learner = learner_of(state.policy)
    if learner is not None:
        learner.publish(learner.build(mix, hardware_of(state)))


@dataclass(frozen=True, slots=True, eq=False)
class TablesQuestion:
    """What is to be made of a mix and hardware."""

    mix: Mix
    hardware: Hardware
    _build: Callable[[Mix, Hardware], Any]

    def answer(self) -> Any:
        """Makes it. May run in a thread."""
        return self._build(self.mix, self.hardware)


class Refresh:
    """Keeps the tables of the cluster's policy near the demand. Does nothing for a policy that does not learn."""

    def __init__(self, cluster: Cluster) -> None:
        self.learner: Final = Learner()
        self.current: TablesQuestion | None = None
        """What the tables that are in use were made of."""
        self.epoch = 0
        """How often tables were made."""
        self._cluster = cluster
        self._asked: TablesQuestion | None = None
        self._seen = (-1, -1)
        self._asked_ms = 0
        self._nodes_seen = -1

    def question(self, now_ms: int) -> TablesQuestion | None:
        """What has to be made anew, if anything; nothing else is asked before it is answered."""
        policy = learner_of(self._cluster.state.policy)
        if policy is None or self._asked is not None or not self._is_due(now_ms):
            return None
        hardware = hardware_of(self._cluster.state)
        only_nodes = self._seen == (self.learner.arrivals, self.learner.departures)
        self._seen = (self.learner.arrivals, self.learner.departures)
        self._nodes_seen, self._asked_ms = self._cluster.node_changes, now_ms
        if only_nodes and self.current is not None and self.current.hardware == hardware:
            return None
        self._asked = TablesQuestion(
            self.learner.mix(hardware, lambda rules: models_open_to(self._cluster, rules)), hardware, policy.build
        )
        return self._asked

    def answered(self, question: TablesQuestion, built: Any | None) -> None:
        """The answer, None when there was trouble; then the old tables stay until they are due again."""
        self._asked = None
        policy = learner_of(self._cluster.state.policy)
        if built is None or policy is None:
            return
        policy.publish(built)
        self.current = question
        self.epoch += 1

    def at_once(self, now_ms: int) -> None:
        """Makes tables anew here and now, if they are due: where nobody waits for answers meanwhile."""
        question = self.question(now_ms)
        if question is not None:
            self.answered(question, question.answer())

    def _is_due(self, now_ms: int) -> bool:
        if self._nodes_seen != self._cluster.node_changes:
            return True
        arrivals = self.learner.arrivals - self._seen[0]
        changes = arrivals + self.learner.departures - self._seen[1]
        some = changes > 0 and changes * PART >= self.learner.pods
        return arrivals >= ARRIVALS or (some and now_ms - self._asked_ms >= EVERY_MS)
