"""Which devices of a node a request gets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import Ask, NodeArrays

# A device's key is one integer, so that the smallest is the best: its index in the low bits, above it what a share
# leaves on the device, above that whether the share would open it.
ROW = 1 << 16
MOST_REST = 1 << 30
"""Above what any device has of milli or MiB."""
OPENS = ROW * MOST_REST * 2
NONE = 1 << 62


@inner
def choose(nodes: NodeArrays, ask: Ask, spread: int, slot: int, rows: NDArray[np.int64]) -> tuple[int, int]:
    """Chooses `ask.devices` different devices for a share on a slot where it fits; writes them to the first of `rows`.

    Packing: devices in use before untouched ones, then the one with least left afterwards. Spreading: most left.
    Equals: the lowest index. Where fewer devices may be opened than are asked for, those in use always come first.
    A share by memory takes only devices whose memory is known.

    Returns how many untouched ones are among them, and what is left on all of them, in milli or in MiB as is asked.
    """
    room = nodes.device_room_milli[slot] if ask.milli > 0 else nodes.device_room_mib[slot]
    need = ask.milli if ask.milli > 0 else ask.mib
    holders = nodes.device_holders[slot]
    opening = OPENS if spread == 0 or nodes.openable[slot] < ask.devices else 0
    last = -1
    opened = 0
    left = 0
    for k in range(ask.devices):
        best = NONE
        for row in range(nodes.device_count[slot]):
            rest = room[row] - need
            key = (MOST_REST - rest if spread != 0 else rest) * ROW + row
            key += opening if holders[row] == 0 else 0
            key = key if rest >= 0 and key > last else NONE
            best = min(best, key)
        last = best
        rows[k] = best % ROW
        rest = best % OPENS // ROW
        left += MOST_REST - rest if spread != 0 else rest
        opened += 1 if holders[rows[k]] == 0 else 0
    return opened, left


@kernel
def packed_rows(nodes: NodeArrays, ask: Ask, spread: int, slot: int, rows: NDArray[np.int64]) -> None:
    """See `choose`."""
    choose(nodes, ask, spread, slot, rows)
