"""RSV: a pod goes where the best use of what is left loses least, over random scenarios of the demand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels import rsv, score
from scheduler.kernels.arrays import CPU, NO_DEVICES, Ask, NodeArrays, Rules, Scratch
from scheduler.packing.hardware import NOTHING, Hardware
from scheduler.packing.mix import Mix
from scheduler.packing.settings import BALANCED, RsvSettings
from scheduler.packing.tables import Tables, build
from topology.inventory import NodeInventory

_PACKING = Rules(0, 0, 0)


class Rsv:
    """The policy `rsv`, by tables that are made of the demand mix. Before the first it is best fit."""

    def __init__(self, settings: RsvSettings = BALANCED) -> None:
        self.settings = settings
        self.tables: Tables = build(Mix((), ()), NOTHING, settings)
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """See `Policy.epoch`."""
        return self._epoch

    @property
    def learns(self) -> bool:
        """See `LearningPolicy.learns`."""
        return True

    def build(self, mix: Mix, hardware: Hardware) -> Tables:
        """See `LearningPolicy.build`."""
        return build(mix, hardware, self.settings)

    def publish(self, built: Tables) -> None:
        """See `LearningPolicy.publish`."""
        self.tables = built
        self._epoch += 1

    def price(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        """See `Policy.price`. Parts of devices (MIG) are packed by their count."""
        if ask.demand == NO_DEVICES and ask.pack_column != CPU:
            score.plain_costs(nodes, ask, _PACKING, slots, buffers.fits, buffers.cost)
        else:
            rsv.rsv_costs(nodes, ask, self.tables, slots, buffers)

    def choose(self, nodes: NodeArrays, ask: Ask, slot: int, buffers: Scratch) -> None:
        """See `Policy.choose`."""
        rsv.rsv_rows(nodes, ask, self.tables, slot, buffers.rows)

    def fills(self, ask: Ask) -> bool:
        """See `Policy.fills`. What is left of a node is worth something else after each pod."""
        return False

    def pool_of(self, inventory: NodeInventory) -> int:
        """See `Policy.pool_of`. All are alike."""
        return 0
