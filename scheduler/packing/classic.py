"""Policies of the literature that know nothing of the demand, to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels import classic, score, sharing
from scheduler.kernels.arrays import CPU, NO_DEVICES, Ask, NodeArrays, Rules, Scratch
from topology.inventory import NodeInventory

_PACKING: Final = Rules(0, 0, 0)


class Alike:
    """What policies share to which all nodes are alike: one pool; parts of devices (MIG) are packed by their count; a
    share takes the device with least room that suffices.
    """

    def __init__(self) -> None:
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """See `Policy.epoch`."""
        return self._epoch

    @property
    def device_cost(self) -> int:
        """See `Policy.device_cost`."""
        return 0

    def price(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        """See `Policy.price`."""
        if ask.demand == NO_DEVICES and ask.pack_column != CPU:
            score.plain_costs(nodes, ask, _PACKING, slots, buffers.fits, buffers.cost)
        else:
            self._costs(nodes, ask, slots, buffers)

    def _costs(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        raise NotImplementedError

    def choose(self, nodes: NodeArrays, ask: Ask, slot: int, buffers: Scratch) -> None:
        """See `Policy.choose`."""
        sharing.weigh(nodes, ask, np.array([slot]), buffers)

    def fills(self, ask: Ask) -> bool:
        """See `Policy.fills`. What is left of a node is worth something else after each pod."""
        return False

    def pool_of(self, inventory: NodeInventory) -> int:
        """See `Policy.pool_of`."""
        return 0


class Classic(Alike):
    """A policy whose costs one kernel of `kernels.classic` gives."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        super().__init__()
        self._kernel: Final = kernel

    def _costs(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        sharing.weigh(nodes, ask, slots, buffers)
        self._kernel(nodes, ask, slots, buffers)


def best_fit() -> Classic:
    """The node with least CPU and devices left."""
    return Classic(classic.bestfit_costs)


def dot_product() -> Classic:
    """The node whose free amounts have the least product with what is asked."""
    return Classic(classic.dotprod_costs)


def gpu_packing() -> Classic:
    """Devices in use first, then nodes in use, then small nodes."""
    return Classic(classic.gpu_packing_costs)


def gpu_clustering() -> Classic:
    """Nodes that host pods of the same kind first."""
    return Classic(classic.gpu_clustering_costs)
