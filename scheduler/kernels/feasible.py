"""Whether nodes have room: by the counts that kube-scheduler keeps, and on their devices.

How kernels of this package are built, for speed: each runs over many nodes in one pass and is called from Python, since
a kernel that calls another is compiled together with it, again and again. Arrays are taken out of a tuple once, before
the loop: a look into a tuple costs a reference count, which inside the loop would cost more than the loop. Which nodes
are looked at is said by a list of slots, so that a few can be looked at again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import SHARE, WHOLE, Ask, NodeArrays


@kernel
def holds(nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], fits: NDArray[np.bool_]) -> None:
    """Writes to `fits` (bool[S]) for each of `slots` (int64[n]) whether the node holds the request.

    Whole devices that are only counted: the count decides. Modelled ones: enough untouched ones may be opened. Shares:
    enough different devices have room, of which no more are untouched than may be opened.
    """
    free = nodes.free
    columns = ask.columns
    amounts = ask.amounts
    shares = nodes.shares
    column = nodes.device_column
    device_count = nodes.device_count
    openable = nodes.openable
    holders = nodes.device_holders
    room = nodes.device_room_milli if ask.milli > 0 else nodes.device_room_mib
    need = ask.milli if ask.milli > 0 else ask.mib
    demand = ask.demand
    asked = ask.device_column
    count = ask.devices
    for index in range(slots.size):
        slot = slots[index]
        enough = True
        for k in range(columns.size):
            if free[slot, columns[k]] < amounts[k]:
                enough = False
                break
        if enough and demand == WHOLE:
            if device_count[slot] > 0 and column[slot] == asked:
                enough = openable[slot] >= count
        elif enough and demand == SHARE:
            used = 0
            untouched = 0
            if shares[slot]:
                for row in range(device_count[slot]):
                    if room[slot, row] >= need:
                        if holders[slot, row] == 0:
                            untouched += 1
                        else:
                            used += 1
            enough = shares[slot] and used + min(untouched, openable[slot]) >= count
        fits[slot] = enough
