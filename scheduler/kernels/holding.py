"""Taking and giving back devices of one node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import NodeArrays

FULL = 1000
ROW = 0
MILLI = 1
MIB = 2
"""Columns of what is held."""


@inner
def largest_fraction(free_milli: int, free_mib: int, total_mib: int) -> int:
    """The largest m ≤ free milli with m · total // 1000 ≤ free memory; memory that is unknown (0) limits nothing."""
    milli = free_milli
    if total_mib > 0:
        milli = min(milli, ((free_mib + 1) * FULL - 1) // total_mib)
    return max(milli, 0)


@kernel
def hold(nodes: NodeArrays, slot: int, held: NDArray[np.int64], sign: int) -> None:
    """Takes (`sign` 1) or gives back (-1) devices of the node; those that it does not have are passed over.

    `held` is int64[k, 3]: row, milli and MiB of each. Whole: all of its memory. MiB 0, as recorded while the memory
    was unknown: the part of it. Room: see `largest_fraction`.
    """
    count = nodes.device_count[slot]
    for k in range(held.shape[0]):
        row = held[k, ROW]
        if row >= count:
            continue
        milli = held[k, MILLI]
        total_mib = nodes.device_total_mib[slot, row]
        mib = held[k, MIB]
        if milli >= FULL or total_mib == 0:
            mib = total_mib
        elif mib == 0:
            mib = milli * total_mib // FULL
        nodes.device_free_milli[slot, row] -= sign * milli
        nodes.device_free_mib[slot, row] -= sign * mib
        nodes.device_holders[slot, row] += sign
        edge = 1 if sign > 0 else 0
        if nodes.device_healthy[slot, row] and nodes.device_holders[slot, row] == edge:
            nodes.idle[slot] -= sign
        if milli < FULL:
            nodes.device_sharers[slot, row] += sign
            if nodes.device_sharers[slot, row] == edge:
                nodes.shared[slot] += sign
        milli = np.int64(0)
        mib = np.int64(0)
        if nodes.device_healthy[slot, row]:
            mib = nodes.device_free_mib[slot, row]
            milli = largest_fraction(int(nodes.device_free_milli[slot, row]), mib, total_mib)
        nodes.device_room_milli[slot, row] = milli
        nodes.device_room_mib[slot, row] = max(mib, 0)
