"""Whether nodes have room: by the counts that kube-scheduler keeps, and on their devices.

How kernels of this package are built, for speed: each runs over many nodes in one pass and is called from Python.
A look into a tuple costs a reference count, so arrays are taken out of it before a loop, and rows of an array before an
inner one. Which nodes are looked at is said by a list of slots, so that a few can be looked at again: then the call
itself, with its tens of arrays, costs most, and one kernel does all that is to be done.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import SHARE, WHOLE, Ask, NodeArrays


@inner
def has_room(nodes: NodeArrays, ask: Ask, slot: int) -> bool:
    """Whether the node holds the request.

    Whole devices that are only counted: the count decides. Modelled ones: enough untouched ones may be opened. Shares:
    enough different devices have room, of which no more are untouched than may be opened.
    """
    free = nodes.free[slot]
    columns = ask.columns
    amounts = ask.amounts
    for k in range(columns.size):
        if free[columns[k]] < amounts[k]:
            return False
    if ask.demand == WHOLE:
        counted = nodes.device_count[slot] == 0 or nodes.device_column[slot] != ask.device_column
        return bool(counted or nodes.openable[slot] >= ask.devices)
    if ask.demand != SHARE:
        return True
    if not nodes.shares[slot]:
        return False
    room = nodes.device_room_milli[slot] if ask.milli > 0 else nodes.device_room_mib[slot]
    need = ask.milli if ask.milli > 0 else ask.mib
    holders = nodes.device_holders[slot]
    used = 0
    untouched = 0
    for row in range(nodes.device_count[slot]):
        if room[row] >= need:
            if holders[row] == 0:
                untouched += 1
            else:
                used += 1
    return bool(used + min(untouched, nodes.openable[slot]) >= ask.devices)


@kernel
def holds(nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], fits: NDArray[np.bool_]) -> None:
    """Writes to `fits` (bool[S]) for each of `slots` (int64[n]) whether the node holds the request."""
    for index in range(slots.size):
        fits[slots[index]] = has_room(nodes, ask, slots[index])
