"""Several policies in one cluster: one for each pool of nodes, and one for all other nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels.arrays import Ask, NodeArrays, Scratch
from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix
from scheduler.packing.refresh import learner_of
from scheduler.policy import Policy, PolicyError
from topology.inventory import NodeInventory

MOST_POOLS: Final = 62


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes with a label: `value` None takes any value."""

    key: str
    value: str | None
    policy: Policy

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is in the pool."""
        return self.key in labels and self.value in (None, labels[self.key])


class Pools:
    """The policy of a cluster with pools. A pod that may go to several goes to the first with room, in their order.

    Nodes of no pool come last. Costs of different policies cannot be compared, so the order decides. A node in several
    pools belongs to the first.
    """

    def __init__(self, pools: Sequence[Pool], other: Policy) -> None:
        """Raises PolicyError for too many pools."""
        if len(pools) > MOST_POOLS:
            raise PolicyError(
                f"{len(pools)} pools are more than the {MOST_POOLS} that there can be: merge some of them"
            )
        self._pools: Final = tuple(pools)
        self._policies: Final = (*(pool.policy for pool in pools), other)

    @property
    def epoch(self) -> int:
        """See `Policy.epoch`."""
        return sum(policy.epoch for policy in self._policies)

    @property
    def device_cost(self) -> int:
        """See `Policy.device_cost`. Nodes of a domain may be in several pools."""
        return 0

    @property
    def learns(self) -> bool:
        """See `LearningPolicy.learns`."""
        return any(learner_of(policy) for policy in self._policies)

    def build(self, mix: Mix, hardware: Hardware) -> tuple[Any, ...]:
        """See `LearningPolicy.build`: of each policy, None for one that does not learn."""
        learners = [learner_of(policy) for policy in self._policies]
        return tuple(None if learner is None else learner.build(mix, hardware) for learner in learners)

    def publish(self, built: tuple[Any, ...]) -> None:
        """See `LearningPolicy.publish`."""
        for policy, part in zip(self._policies, built, strict=True):
            learner = learner_of(policy)
            if learner is not None:
                learner.publish(part)

    def price(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        """See `Policy.price`."""
        pools = nodes.pool[slots]
        for number in np.unique(pools).tolist():
            self._policies[number].price(nodes, ask, slots[pools == number], buffers)

    def choose(self, nodes: NodeArrays, ask: Ask, slot: int, buffers: Scratch) -> None:
        """See `Policy.choose`."""
        self._policies[int(nodes.pool[slot])].choose(nodes, ask, slot, buffers)

    def fills(self, ask: Ask) -> bool:
        """See `Policy.fills`."""
        return all(policy.fills(ask) for policy in self._policies)

    def pool_of(self, inventory: NodeInventory) -> int:
        """See `Policy.pool_of`."""
        labels = inventory.facts.labels
        return next((at for at, pool in enumerate(self._pools) if pool.takes(labels)), len(self._pools))
