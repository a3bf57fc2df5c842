"""How many copies of a request fit on each node at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import SHARE, WHOLE, Ask, NodeArrays

MOST_COPIES = 1 << 30
"""Of a request that asks for nothing."""


@kernel
def count_copies(nodes: NodeArrays, ask: Ask, mask: NDArray[np.bool_], copies: NDArray[np.int64]) -> None:
    """Writes to `copies` (int64[n], n ≤ S) how many copies fit on each node of `mask` (bool[n]), 0 elsewhere.

    Exact but for shares where untouched devices differ or each copy takes several: there it may be too many, since m
    copies are counted while the devices, each counted up to m times, give m times as many parts as one copy needs.
    """
    free = nodes.free
    columns = ask.columns
    amounts = ask.amounts
    shares = nodes.shares
    device_count = nodes.device_count
    column = nodes.device_column
    openable = nodes.openable
    holders = nodes.device_holders
    room = nodes.device_room_milli if ask.milli > 0 else nodes.device_room_mib
    need = ask.milli if ask.milli > 0 else ask.mib
    demand = ask.demand
    asked = ask.device_column
    count = ask.devices
    for slot in range(mask.size):
        copies[slot] = 0
        if not mask[slot]:
            continue
        most = MOST_COPIES
        for k in range(columns.size):
            most = min(most, max(free[slot, columns[k]], 0) // amounts[k])
        if demand == WHOLE and device_count[slot] > 0 and column[slot] == asked:
            most = min(most, max(openable[slot], 0) // count)
        elif demand == SHARE:
            if not shares[slot] or need <= 0:
                continue
            low = 0
            high = most
            while low < high:
                middle = low + (high - low + 1) // 2
                parts = 0
                fresh = 0
                best_fresh = 0
                for row in range(device_count[slot]):
                    fits = min(room[slot, row] // need, middle)
                    if holders[slot, row] == 0:
                        if fits > 0:
                            fresh += 1
                            best_fresh = max(best_fresh, fits)
                    else:
                        parts += fits
                parts += min(fresh, openable[slot]) * best_fresh
                if parts >= middle * count:
                    low = middle
                else:
                    high = middle - 1
            most = low
        copies[slot] = most
