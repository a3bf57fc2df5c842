"""RSV: a pod goes where the best use of what is left loses least, over random scenarios of the demand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.allocation import FULL_MILLI
from scheduler.kernels import rsv
from scheduler.kernels.arrays import Ask, NodeArrays, Scratch
from scheduler.kernels.rest_tables import UNIT
from scheduler.packing.classic import Alike
from scheduler.packing.hardware import NOTHING, Hardware
from scheduler.packing.mix import Mix
from scheduler.packing.settings import BALANCED, RsvSettings
from scheduler.packing.tables import Tables, build


class Rsv(Alike):
    """The policy `rsv`, by tables that are made of the demand mix. Before the first it is best fit."""

    def __init__(self, settings: RsvSettings = BALANCED) -> None:
        super().__init__()
        self.settings = settings
        self.tables: Tables = build(Mix((), ()), NOTHING, settings)

    @property
    def device_cost(self) -> int:
        """See `Policy.device_cost`."""
        return FULL_MILLI * UNIT // rsv.QUANTUM

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

    def _costs(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        rsv.rsv_costs(nodes, ask, self.tables, slots, buffers)

    def choose(self, nodes: NodeArrays, ask: Ask, slot: int, buffers: Scratch) -> None:
        """See `Policy.choose`."""
        rsv.rsv_costs(nodes, ask, self.tables, np.array([slot]), buffers)
