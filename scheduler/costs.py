"""What requests cost on nodes, remembered until a node changes. A decision then looks at numbers that are there."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.change_log import ChangeLog
from scheduler.kernels import feasible, score
from scheduler.kernels.arrays import CPU, NO_DEVICES, Ask, NodeArrays, Scratch
from scheduler.policy import Policy
from scheduler.request import Request

REMEMBERED_BYTES: Final = 64 << 20
FEWEST: Final = 16


class Sight(NamedTuple):
    """What costs follow from: the policy, the nodes (`slots` of them in use), and which of them changed."""

    policy: Policy
    nodes: NodeArrays
    slots: int
    changes: ChangeLog
    buffers: Scratch


class _Known:
    """The costs of one request: `costs` is int64[S], true of the state after `seen` changes."""

    __slots__ = ("costs", "epoch", "seen")

    def __init__(self, slots: int) -> None:
        self.costs = np.full(slots, score.DOES_NOT_FIT, np.int64)
        self.seen = -1
        self.epoch = -1


class Costs:
    """Costs by request. Those asked for longest ago are forgotten when they take too much memory."""

    def __init__(self, remembered_bytes: int = REMEMBERED_BYTES) -> None:
        self._remembered_bytes: Final = remembered_bytes
        self._known: dict[Request, _Known] = {}
        self._every = np.zeros(0, np.int64)

    def clear(self) -> None:
        """The arrays have another size."""
        self._known.clear()

    def of(self, request: Request, ask: Ask, sight: Sight) -> NDArray[np.int64]:
        """int64[S]: the cost on each slot as things are now, DOES_NOT_FIT where the request has no room.

        Read-only for the caller, and true until the next change of the state. `ask` is the request as kernels read it.
        """
        policy, nodes, slots, changes, buffers = sight
        known = self._known.pop(request, None) or self._new(buffers.fits.size)
        self._known[request] = known
        epoch = policy.epoch
        stale = changes.since(known.seen) if known.seen >= 0 and known.epoch == epoch else None
        if stale is None or stale.size > slots:
            stale = self._all(slots)
        if stale.size:
            feasible.holds(nodes, ask, stale, buffers.fits)
            policy.price(nodes, ask, stale, buffers)
            plain = ask.demand == NO_DEVICES and ask.pack_column == CPU
            score.settle(
                nodes.virtual, nodes.accelerated, nodes.pool, plain, stale, buffers.fits, buffers.cost, known.costs
            )
        known.seen, known.epoch = changes.now, epoch
        return known.costs

    def _new(self, slots: int) -> _Known:
        most = max(self._remembered_bytes // (8 * slots), FEWEST)
        while len(self._known) >= most:
            del self._known[next(iter(self._known))]
        return _Known(slots)

    def _all(self, count: int) -> NDArray[np.int64]:
        if self._every.size != count:
            self._every = np.arange(count)
        return self._every
