"""Why a request does not fit: the first thing that each node lacks, and how much of it there is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import SHARE, WHOLE, Ask, NodeArrays, Scratch
from scheduler.kernels.devices import judge
from scheduler.kernels.feasible import openable, whole_modelled

FITS = 0
HAS_NONE = 1
"""The node has no device of the kind at all; the number is 0."""
VIRTUAL_SHARE = 2
NO_SHARES = 3
TOO_FEW_DEVICES = 4
"""Fewer healthy devices than asked for; the number is how many there are."""
UNKNOWN_MEMORY = 5
"""Too few devices of known memory for a share by memory; the number is how many there are."""
LITTLE_MILLI = 6
"""The number is the largest fraction for which `count` devices have room."""
LITTLE_MEMORY = 7
"""The number is the largest amount of MiB for which `count` devices have room."""
FEW_IDLE = 8
"""The number is how many whole devices can be had."""
FIRST_COLUMN = 16
"""FIRST_COLUMN + k: the k-th asked resource is short; the number is what is free of it, at least 0."""


@kernel
def unsuited(nodes: NodeArrays, ask: Ask, slot: int) -> int:
    """What no waiting can change: the code, or FITS."""
    if ask.demand == WHOLE and nodes.total[slot, ask.device_column] <= 0:
        return HAS_NONE
    if ask.demand != SHARE:
        return FITS
    if not nodes.accelerated[slot]:
        return HAS_NONE
    if nodes.virtual[slot]:
        return VIRTUAL_SHARE
    if not nodes.shares[slot] or nodes.device_count[slot] == 0:
        return NO_SHARES
    return FITS


@kernel
def room_for(nodes: NodeArrays, ask: Ask, slot: int, row: int) -> int:
    """What one device has left of what a share asks, milli or MiB; -1 where it cannot serve at all."""
    if not nodes.device_healthy[slot, row]:
        return -1
    if ask.milli > 0:
        return int(nodes.device_room[slot, row])
    if nodes.device_total_mib[slot, row] <= 0:
        return -1
    return max(nodes.device_free_mib[slot, row], 0)


@kernel
def best_room(nodes: NodeArrays, ask: Ask, slot: int) -> int:
    """The largest share, in milli or MiB as asked, for which `ask.count` devices of the node have room; at least 0."""
    may_open = openable(nodes, slot)
    best = 0
    for row in range(nodes.device_count[slot]):
        size = room_for(nodes, ask, slot, row)
        if size <= best:
            continue
        in_use = 0
        idle = 0
        for other in range(nodes.device_count[slot]):
            if room_for(nodes, ask, slot, other) >= size:
                if nodes.device_holders[slot, other] == 0:
                    idle += 1
                else:
                    in_use += 1
        if in_use + min(idle, may_open) >= ask.count:
            best = size
    return best


@kernel
def short_share(nodes: NodeArrays, ask: Ask, slot: int) -> tuple[int, int]:
    """What the devices lack for a share that does not fit: the code and the number that goes with it."""
    healthy = 0
    known = 0
    for row in range(nodes.device_count[slot]):
        if nodes.device_healthy[slot, row]:
            healthy += 1
            if nodes.device_total_mib[slot, row] > 0:
                known += 1
    if healthy < ask.count:
        return TOO_FEW_DEVICES, healthy
    if ask.milli > 0:
        return LITTLE_MILLI, best_room(nodes, ask, slot)
    if known < ask.count:
        return UNKNOWN_MEMORY, known
    return LITTLE_MEMORY, best_room(nodes, ask, slot)


@kernel
def first_lack(nodes: NodeArrays, ask: Ask, slot: int, buffers: Scratch) -> tuple[int, int]:
    """The first thing that rules the node out, and its number: what cannot change, then resources, then devices."""
    code = unsuited(nodes, ask, slot)
    if code != FITS:
        return code, 0
    for k in range(ask.columns.size):
        free = nodes.free[slot, ask.columns[k]]
        if free < ask.amounts[k]:
            if ask.columns[k] == ask.device_column and whole_modelled(nodes, ask, slot):
                return FEW_IDLE, openable(nodes, slot)
            return FIRST_COLUMN + k, max(free, 0)
    if judge(nodes, ask, 0, slot, buffers)[0]:
        return FITS, 0
    if ask.demand == SHARE:
        return short_share(nodes, ask, slot)
    return FEW_IDLE, openable(nodes, slot)


@kernel
def diagnose(
    nodes: NodeArrays,
    ask: Ask,
    buffers: Scratch,
    codes: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> None:
    """For the first n slots (`codes` and `numbers` are int64[n]): what rules the node out, and the number to it."""
    for slot in range(codes.size):
        code, number = first_lack(nodes, ask, slot, buffers)
        codes[slot] = code
        numbers[slot] = number
