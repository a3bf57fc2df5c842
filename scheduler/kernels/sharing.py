"""What a share leaves of a device, and the plain way to choose devices for it: those with least room."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import NO_DEVICES, SHARE, Ask, NodeArrays
from scheduler.kernels.holding import FULL

MOST_ROOM = 1 << 62


@inner
def room_after(nodes: NodeArrays, ask: Ask, slot: int, row: int) -> int:
    """The largest fraction that a device still takes after one part of the share; see `holding.hold`."""
    left = int(nodes.device_free_milli[slot, row]) - ask.milli
    total_mib = nodes.device_total_mib[slot, row]
    if total_mib > 0:
        taken = ask.mib if ask.milli == 0 else ask.milli * total_mib // FULL
        left = min(left, ((nodes.device_free_mib[slot, row] - taken + 1) * FULL - 1) // total_mib)
    return max(left, 0)


@inner
def offers(nodes: NodeArrays, ask: Ask, slot: int, row: int, may_open: int) -> bool:
    """Whether a device has room for one part of the share, given how many untouched ones may be opened."""
    room = nodes.device_room_milli[slot, row] if ask.milli > 0 else nodes.device_room_mib[slot, row]
    need = ask.milli if ask.milli > 0 else ask.mib
    return bool(room >= need and (may_open > 0 or nodes.device_holders[slot, row] > 0))


@inner
def is_among(rows: NDArray[np.int64], count: int, row: int) -> bool:
    """Whether the row is one of the first `count`."""
    found = False
    for k in range(count):
        found = found or rows[k] == row
    return found


@inner
def is_repeated(nodes: NodeArrays, slot: int, row: int) -> bool:
    """Whether an earlier device of the node is the same to every share."""
    for other in range(row):
        if (
            nodes.device_room_milli[slot, other] == nodes.device_room_milli[slot, row]
            and nodes.device_room_mib[slot, other] == nodes.device_room_mib[slot, row]
            and nodes.device_total_mib[slot, other] == nodes.device_total_mib[slot, row]
            and (nodes.device_holders[slot, other] == 0) == (nodes.device_holders[slot, row] == 0)
        ):
            return True
    return False


@inner
def tightest(nodes: NodeArrays, ask: Ask, slot: int, rows: NDArray[np.int64]) -> int:
    """Writes to `rows` the devices with least room that suffice, the lowest index first among equals.

    Of a share, on a slot where it fits. Returns the milli that is taken of them.
    """
    may_open = nodes.openable[slot]
    taken = 0
    for k in range(ask.devices):
        best = -1
        least = MOST_ROOM
        for row in range(nodes.device_count[slot]):
            room = nodes.device_room_milli[slot, row]
            if room < least and offers(nodes, ask, slot, row, may_open) and not is_among(rows, k, row):
                best, least = row, room
        rows[k] = best
        may_open -= 1 if nodes.device_holders[slot, best] == 0 else 0
        taken += least - room_after(nodes, ask, slot, best)
    return taken


@inner
def is_counted(nodes: NodeArrays, ask: Ask, slot: int) -> bool:
    """Whether whole devices are asked for that the node only counts."""
    modelled = nodes.device_count[slot] > 0 and nodes.device_column[slot] == ask.device_column
    return bool(ask.demand != NO_DEVICES and ask.demand != SHARE and not modelled)


@inner
def room_in_all(nodes: NodeArrays, ask: Ask, slot: int) -> int:
    """The milli that are free on all devices together; those asked for that are only counted are whole ones."""
    total = 0
    for row in range(nodes.device_count[slot]):
        total += nodes.device_room_milli[slot, row]
    if is_counted(nodes, ask, slot):
        total += max(nodes.free[slot, ask.device_column], 0) * FULL
    return total


@inner
def taken_in_all(nodes: NodeArrays, ask: Ask, slot: int, rows: NDArray[np.int64]) -> int:
    """The milli that the request takes on a slot where it fits, of the tightest devices; `rows` is overwritten."""
    if ask.demand == SHARE:
        return tightest(nodes, ask, slot, rows)
    return ask.devices * FULL if ask.demand != NO_DEVICES else 0


@kernel
def tightest_rows(nodes: NodeArrays, ask: Ask, slot: int, rows: NDArray[np.int64]) -> None:
    """See `tightest`."""
    tightest(nodes, ask, slot, rows)
