"""How places are chosen among those that fit. The search asks a policy what nodes cost, and which devices it takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels import devices, score
from scheduler.kernels.arrays import CPU, SHARE, Ask, NodeArrays, Rules, Scratch
from topology.inventory import NodeInventory


class Strategy(StrEnum):
    """Fill what is in use first, or take the emptiest."""

    BINPACK = "binpack"
    SPREAD = "spread"


class PolicyError(ValueError):
    """A policy that does not exist; the text names the key, the value and what is allowed."""


class Policy(Protocol):
    """What the search needs of a policy. Which slots fit is the same for every policy."""

    @property
    def epoch(self) -> int:
        """Grows when costs change although no node does."""
        ...

    @property
    def device_cost(self) -> int:
        """What the loss of a whole device is in costs; 0: costs say nothing of domains, which go by fullness."""
        ...

    def price(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        """Writes to `buffers.cost` what the request costs on each of `slots` (int64[n]) where `buffers.fits` holds.

        At least 0 and at most `score.MOST_COST`; the least is best. Depends on the node alone, and on the epoch.
        """

    def choose(self, nodes: NodeArrays, ask: Ask, slot: int, buffers: Scratch) -> None:
        """Writes the devices of a share to the first of `buffers.rows`, on a slot where it fits."""

    def fills(self, ask: Ask) -> bool:
        """Whether the best node stays the best for another such request, as long as it has room."""
        ...

    def pool_of(self, inventory: NodeInventory) -> int:
        """The pool that a node belongs to, 0..62: nodes of a lower number come first."""
        ...


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """Packing or spreading: of pods without devices over nodes, of pods with devices over nodes, of shares over the
    devices of a node."""

    cpu: Strategy = Strategy.BINPACK
    gpu: Strategy = Strategy.BINPACK
    device: Strategy = Strategy.BINPACK

    @classmethod
    def from_names(cls, *, cpu: str = "binpack", gpu: str = "binpack", device: str = "binpack") -> PlacementPolicy:
        """The policy of these names. Raises PolicyError."""
        return cls(_strategy("cpu", cpu), _strategy("gpu", gpu), _strategy("device", device))

    @property
    def rules(self) -> Rules:
        """The policy as kernels read it."""
        return Rules(
            cpu_spread=int(self.cpu is Strategy.SPREAD),
            gpu_spread=int(self.gpu is Strategy.SPREAD),
            device_spread=int(self.device is Strategy.SPREAD),
        )

    @property
    def epoch(self) -> int:
        """Never another."""
        return 0

    @property
    def device_cost(self) -> int:
        """See `Policy.device_cost`. The fullest domain comes first."""
        return 0

    def price(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        """See `Policy.price`."""
        rules = self.rules
        if ask.demand == SHARE:
            devices.choose_share(nodes, ask, rules.device_spread, slots, buffers)
            score.share_costs(nodes, rules.gpu_spread, slots, buffers)
        else:
            score.plain_costs(nodes, ask, rules, slots, buffers.fits, buffers.cost)

    def choose(self, nodes: NodeArrays, ask: Ask, slot: int, buffers: Scratch) -> None:
        """See `Policy.choose`."""
        devices.choose_share(nodes, ask, self.rules.device_spread, np.array([slot]), buffers)

    def fills(self, ask: Ask) -> bool:
        """See `Policy.fills`. Shares may leave a node half used for another where they join a device."""
        if ask.demand == SHARE:
            return False
        return (self.cpu if ask.pack_column == CPU else self.gpu) is Strategy.BINPACK

    def pool_of(self, inventory: NodeInventory) -> int:
        """See `Policy.pool_of`. All are alike."""
        return 0


def _strategy(key: str, name: str) -> Strategy:
    try:
        return Strategy(name)
    except ValueError:
        allowed = ", ".join(Strategy)
        raise PolicyError(f'{key} "{name}" is no placement policy: {allowed} are') from None
