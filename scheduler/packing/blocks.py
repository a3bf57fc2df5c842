"""Room for pods that take several whole devices of one node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.allocation import FULL_MILLI
from scheduler.kernels.rest_tables import UNIT
from scheduler.packing.figures import Figures


class Blocks(NamedTuple):
    """B classes of such pods, those with most demand first; M models.

    The room of a node with f free devices, c milli-CPU and m bytes is worth the sum over the classes allowed there of
    q · min(f // devices, c // cpu, m // memory), without the part of what a class does not ask for.
    """

    q: NDArray[np.int64]
    """[B] in UNIT, for each pod that fits: α · devices · 1000 · the class's part of all demand for devices."""
    devices: NDArray[np.int64]
    """[B]: at least 2."""
    cpu: NDArray[np.int64]
    """[B] milli-CPU."""
    memory: NDArray[np.int64]
    """[B] bytes."""
    allowed: NDArray[np.bool_]
    """[M, B]"""


def blocks(of: Figures, weight: float, most: int) -> Blocks:
    """The `most` classes with the greatest demand for devices, equals in the order of the mix. `weight` is α."""
    asked = of.asked
    total = sum(asked)
    several = np.flatnonzero(of.whole & (of.devices > 1)).tolist()
    chosen = sorted((j for j in several if asked[j] > 0 and weight > 0), key=lambda j: -asked[j])[:most]
    q = [round(weight * int(of.devices[j]) * FULL_MILLI * (asked[j] / total) * UNIT) for j in chosen]
    return Blocks(
        q=np.array(q, np.int64),
        devices=of.devices[chosen],
        cpu=of.cpu[chosen],
        memory=of.memory[chosen],
        allowed=np.ascontiguousarray(of.allowed[chosen].T),
    )
