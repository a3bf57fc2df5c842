"""FGD: the node whose fragmentation grows least, to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels import fgd
from scheduler.kernels.arrays import Ask, NodeArrays, Scratch
from scheduler.packing.classic import Alike
from scheduler.packing.fgd_mix import FgdTasks, fgd_tasks
from scheduler.packing.hardware import NOTHING, Hardware
from scheduler.packing.mix import Mix


class Fgd(Alike):
    """The policy `fgd`, by the tasks that make up most of the demand."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: FgdTasks = fgd_tasks(Mix((), ()), NOTHING)

    @property
    def learns(self) -> bool:
        """See `LearningPolicy.learns`."""
        return True

    def build(self, mix: Mix, hardware: Hardware) -> FgdTasks:
        """See `LearningPolicy.build`."""
        return fgd_tasks(mix, hardware)

    def publish(self, built: FgdTasks) -> None:
        """See `LearningPolicy.publish`."""
        self.tasks = built
        self._epoch += 1

    def _costs(self, nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
        fgd.fgd_costs(nodes, ask, self.tasks, slots, buffers)

    def choose(self, nodes: NodeArrays, ask: Ask, slot: int, buffers: Scratch) -> None:
        """See `Policy.choose`."""
        fgd.fgd_costs(nodes, ask, self.tasks, np.array([slot]), buffers)
