"""Which devices of a node a request gets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import Ask, NodeArrays, Scratch

# A device's key is one integer, so that the smallest is the best: its index in the low bits, above it what a share
# leaves on the device, above that whether the share would open it.
ROW = 1 << 16
MOST_REST = 1 << 30
"""Above what any device has of milli or MiB."""
OPENS = ROW * MOST_REST * 2
NONE = 1 << 62


@kernel
def choose_share(nodes: NodeArrays, ask: Ask, spread: int, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """Chooses `ask.devices` different devices for a share on each of `slots` (int64[n]) where it fits.

    Packing: devices in use before untouched ones, then the one with least left afterwards. Spreading: most left.
    Equals: the lowest index. Where fewer devices may be opened than are asked for, those in use always come first.
    A share by memory takes only devices whose memory is known.

    Reads `buffers.fits`. Writes `opened`, and `left` in milli or in MiB as the share is asked; `buffers.rows` holds the
    choice on the last slot.
    """
    device_count = nodes.device_count
    openable = nodes.openable
    room = nodes.device_room_milli if ask.milli > 0 else nodes.device_room_mib
    need = ask.milli if ask.milli > 0 else ask.mib
    holders = nodes.device_holders
    fits = buffers.fits
    opened = buffers.opened
    left = buffers.left
    rows = buffers.rows
    count = ask.devices
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        may_open = openable[slot]
        opening = OPENS if spread == 0 or may_open < count else 0
        last = -1
        opened_now = 0
        left_now = 0
        for k in range(count):
            best = NONE
            for row in range(device_count[slot]):
                rest = room[slot, row] - need
                key = (MOST_REST - rest if spread != 0 else rest) * ROW + row
                key += opening if holders[slot, row] == 0 else 0
                key = key if rest >= 0 and key > last else NONE
                best = min(best, key)
            last = best
            row = best % ROW
            rest = best % OPENS // ROW
            rows[k] = row
            left_now += MOST_REST - rest if spread != 0 else rest
            opened_now += 1 if holders[slot, row] == 0 else 0
        opened[slot] = opened_now
        left[slot] = left_now
