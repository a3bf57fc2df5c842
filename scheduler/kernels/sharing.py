"""What a request finds and takes of the devices of nodes, in thousandths of devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import NO_DEVICES, SHARE, Ask, NodeArrays, Scratch
from scheduler.kernels.holding import FULL, largest_fraction

MOST_ROOM = 1 << 62


@inner
def room_after(free_milli: int, free_mib: int, total_mib: int, milli: int, mib: int) -> int:
    """The largest fraction that a device still takes after a share of it; see `holding.hold`."""
    taken = mib if milli == 0 else milli * total_mib // FULL
    return largest_fraction(free_milli - milli, free_mib - taken, total_mib)


@inner
def is_among(rows: NDArray[np.int64], count: int, row: int) -> bool:
    """Whether the row is one of the first `count`."""
    found = False
    for k in range(count):
        found = found or rows[k] == row
    return found


@inner
def is_repeated(
    slot: int,
    row: int,
    room_milli: NDArray[np.int64],
    room_mib: NDArray[np.int64],
    free_milli: NDArray[np.int32],
    total_mib: NDArray[np.int64],
    holders: NDArray[np.int32],
) -> bool:
    """Whether an earlier device of the node is the same to every share, now and after it. All arrays are [S, D].

    Where memory limits the room, more free compute beyond it may come to count, since MiB are rounded.
    """
    for other in range(row):
        if (
            room_milli[slot, other] == room_milli[slot, row]
            and room_mib[slot, other] == room_mib[slot, row]
            and free_milli[slot, other] == free_milli[slot, row]
            and total_mib[slot, other] == total_mib[slot, row]
            and (holders[slot, other] == 0) == (holders[slot, row] == 0)
        ):
            return True
    return False


@kernel
def weigh(nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """Chooses for a share, on each of `slots` (int64[n]) where it fits, the devices with least room that suffice.

    Of equals the lowest index; no more untouched ones than may be opened. Reads `buffers.fits`. Writes `room`: what is
    free on all devices, those asked for that are only counted being whole ones; `taken`: what the request takes, whole
    devices too; for shares `opened`: untouched devices that it takes, and `left`: the room of the chosen ones before.
    `rows` holds the choice on the last slot.
    """
    fits = buffers.fits
    rows = buffers.rows
    free = nodes.free
    device_count = nodes.device_count
    device_column = nodes.device_column
    openable = nodes.openable
    room_milli = nodes.device_room_milli
    offer = nodes.device_room_milli if ask.milli > 0 else nodes.device_room_mib
    need = ask.milli if ask.milli > 0 else ask.mib
    free_milli = nodes.device_free_milli
    free_mib = nodes.device_free_mib
    total_mib = nodes.device_total_mib
    holders = nodes.device_holders
    demand = ask.demand
    asked = ask.device_column
    count = ask.devices
    room, taken, opened, left = buffers.room, buffers.taken, buffers.opened, buffers.left
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        total = 0
        for row in range(device_count[slot]):
            total += room_milli[slot, row]
        takes = 0
        if demand == SHARE:
            may_open = openable[slot]
            before = 0
            fresh = 0
            for k in range(count):
                best = -1
                least = MOST_ROOM
                for row in range(device_count[slot]):
                    suits = offer[slot, row] >= need and (may_open > 0 or holders[slot, row] > 0)
                    if suits and room_milli[slot, row] < least and not is_among(rows, k, row):
                        best, least = row, room_milli[slot, row]
                rows[k] = best
                untouched = holders[slot, best] == 0
                may_open -= 1 if untouched else 0
                fresh += 1 if untouched else 0
                before += least
                takes += least - room_after(
                    int(free_milli[slot, best]), free_mib[slot, best], total_mib[slot, best], ask.milli, ask.mib
                )
            opened[slot] = fresh
            left[slot] = before
        elif demand != NO_DEVICES:
            takes = count * FULL
            if device_count[slot] == 0 or device_column[slot] != asked:
                total += max(free[slot, asked], 0) * FULL
        room[slot] = total
        taken[slot] = takes
