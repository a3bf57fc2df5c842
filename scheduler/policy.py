"""How places are chosen among those that fit. The search asks a policy two things: devices of a node, and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from scheduler.kernels import devices, score
from scheduler.kernels.arrays import CPU, SHARE, WHOLE, Ask, NodeArrays, Rules, Scratch


class Strategy(StrEnum):
    """Fill what is in use first, or take the emptiest."""

    BINPACK = "binpack"
    SPREAD = "spread"


class PolicyError(ValueError):
    """A policy that does not exist; the text names the key, the value and what is allowed."""


class Policy(Protocol):
    """What the search needs of a policy. Both work in place on `buffers`, for the slots from `begin` to `end`."""

    def judge(self, nodes: NodeArrays, ask: Ask, buffers: Scratch, begin: int, end: int) -> None:
        """Takes from `buffers.fits` the slots whose devices do not serve the request.

        Of a share, `buffers.rows` holds the devices chosen on the last slot that fits. Which slots fit is the same
        for every policy.
        """

    def score(self, nodes: NodeArrays, ask: Ask, buffers: Scratch, end: int) -> None:
        """Writes `buffers.cost` for the slots below `end` after `judge`: at least 0 where they fit, the least is best.

        Negative where they do not fit.
        """

    def fills(self, ask: Ask) -> bool:
        """Whether the best node stays the best for another such request, as long as it has room."""
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

    def judge(self, nodes: NodeArrays, ask: Ask, buffers: Scratch, begin: int, end: int) -> None:
        """See `Policy.judge`."""
        if ask.demand == SHARE:
            devices.judge_share(nodes, ask, self.rules.device_spread, buffers, begin, end)
        elif ask.demand == WHOLE:
            devices.judge_whole(nodes, ask, buffers.fits, begin, end)

    def score(self, nodes: NodeArrays, ask: Ask, buffers: Scratch, end: int) -> None:
        """See `Policy.score`."""
        rules = self.rules
        if ask.demand == SHARE:
            score.share_costs(
                nodes.idle, buffers.fits, buffers.opened, buffers.left, rules.gpu_spread, end, buffers.cost
            )
        else:
            score.plain_costs(nodes, ask, rules, buffers.fits, end, buffers.cost)

    def fills(self, ask: Ask) -> bool:
        """See `Policy.fills`. Shares may leave a node half used for another where they join a device."""
        if ask.demand == SHARE:
            return False
        return (self.cpu if ask.pack_column == CPU else self.gpu) is Strategy.BINPACK


def _strategy(key: str, name: str) -> Strategy:
    try:
        return Strategy(name)
    except ValueError:
        allowed = ", ".join(Strategy)
        raise PolicyError(f'{key} "{name}" is no placement policy: {allowed} are') from None
