"""Which devices of a node a request gets."""

from __future__ import annotations

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import FULL, SHARE, WHOLE, Ask, NodeArrays, Scratch
from scheduler.kernels.feasible import openable, whole_modelled

OPENS = 1 << 20
"""Added to the key of a device that the choice would open; above every other key."""


@kernel
def milli_of(mib: int, total_mib: int) -> int:
    """An amount of memory as milli of a device of known size, rounded up."""
    return (mib * FULL + total_mib - 1) // total_mib


@kernel
def share_fits(nodes: NodeArrays, ask: Ask, slot: int, row: int) -> bool:
    """Whether one share fits on the device. A share by memory needs a device whose memory is known."""
    if ask.milli > 0:
        return nodes.device_room[slot, row] >= ask.milli
    return (
        nodes.device_healthy[slot, row]
        and nodes.device_total_mib[slot, row] > 0
        and nodes.device_free_mib[slot, row] >= ask.mib
    )


@kernel
def insert(buffers: Scratch, length: int, limit: int, row: int, key: int) -> int:
    """Puts a device into the list of the `limit` smallest keys, behind equal ones; returns the new length."""
    if length == limit:
        if key >= buffers.keys[length - 1]:
            return length
        at = length - 1
    else:
        at = length
        length += 1
    while at > 0 and buffers.keys[at - 1] > key:
        buffers.keys[at] = buffers.keys[at - 1]
        buffers.rows[at] = buffers.rows[at - 1]
        at -= 1
    buffers.keys[at] = key
    buffers.rows[at] = row
    return length


@kernel
def select_share(
    nodes: NodeArrays, ask: Ask, spread: int, slot: int, buffers: Scratch
) -> tuple[bool, int, int]:
    """Chooses `ask.count` different devices for a share; `buffers.rows` receives them, best first.

    Packing: devices in use before untouched ones, then the one with least left afterwards. Spreading: most left.
    Equals: the lowest index. Where fewer devices may be opened than are asked for, those in use always come first.
    Returns whether it fits, how many devices it opens, and the milli left on all of them together.
    """
    may_open = openable(nodes, slot)
    in_use_first = spread == 0 or may_open < ask.count
    length = 0
    want = ask.milli
    sized_for = 0
    for row in range(nodes.device_count[slot]):
        opens = nodes.device_holders[slot, row] == 0
        if (opens and may_open == 0) or not share_fits(nodes, ask, slot, row):
            continue
        if ask.milli == 0 and nodes.device_total_mib[slot, row] != sized_for:
            sized_for = nodes.device_total_mib[slot, row]
            want = milli_of(ask.mib, sized_for)
        left = max(nodes.device_room[slot, row] - want, 0)
        key = FULL - left if spread != 0 else left
        if opens and in_use_first:
            key += OPENS
        length = insert(buffers, length, ask.count, row, key)
    if length < ask.count:
        return False, 0, 0
    opened = 0
    left = 0
    for k in range(length):
        key = buffers.keys[k] % OPENS
        left += FULL - key if spread != 0 else key
        if nodes.device_holders[slot, buffers.rows[k]] == 0:
            opened += 1
    return opened <= may_open, opened, left


@kernel
def judge(nodes: NodeArrays, ask: Ask, spread: int, slot: int, buffers: Scratch) -> tuple[bool, int, int]:
    """Whether the node's devices serve the request, how many it opens, and the milli a share leaves on its devices.

    `buffers` is overwritten; only `choose` leaves a choice of whole devices there.
    """
    if ask.demand == SHARE:
        if nodes.virtual[slot] or not nodes.shares[slot] or nodes.device_count[slot] < ask.count:
            return False, 0, 0
        return select_share(nodes, ask, spread, slot, buffers)
    if ask.demand == WHOLE and whole_modelled(nodes, ask, slot):
        return openable(nodes, slot) >= ask.count, ask.count, 0
    return True, 0, 0


@kernel
def choose(nodes: NodeArrays, ask: Ask, spread: int, slot: int, buffers: Scratch) -> int:
    """Chooses the devices on one node into `buffers.rows`. Returns their number, or -1 when they do not suffice.

    0 stands for a request that needs no device of its own here: none asked, or devices that are only counted.
    """
    fits, _, _ = judge(nodes, ask, spread, slot, buffers)
    if not fits:
        return -1
    if ask.demand == SHARE:
        return ask.count
    if ask.demand != WHOLE or not whole_modelled(nodes, ask, slot):
        return 0
    found = 0
    for row in range(nodes.device_count[slot]):
        if found < ask.count and nodes.device_healthy[slot, row] and nodes.device_holders[slot, row] == 0:
            buffers.rows[found] = row
            found += 1
    return found
