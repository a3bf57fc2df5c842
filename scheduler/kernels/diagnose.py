"""Why a request does not fit: the first thing that each node lacks, and how much of it there is."""

from __future__ import annotations

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import SHARE, WHOLE, Ask, NodeArrays, Scratch

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
"""The number is the largest fraction for which enough devices have room."""
LITTLE_MEMORY = 7
"""The number is the largest amount of MiB for which enough devices have room."""
FEW_IDLE = 8
"""The number is how many whole devices can be had."""
FIRST_COLUMN = 16
"""FIRST_COLUMN + k: the k-th asked resource is short; the number is what is free of it, at least 0."""


@kernel
def unsuited(nodes: NodeArrays, ask: Ask, buffers: Scratch, end: int) -> None:
    """Starts `codes` and `numbers`: what no waiting can change, or FITS."""
    total = nodes.total
    virtual = nodes.virtual
    shares = nodes.shares
    accelerated = nodes.accelerated
    device_count = nodes.device_count
    codes = buffers.codes
    numbers = buffers.numbers
    demand = ask.demand
    for slot in range(end):
        code = FITS
        if demand == WHOLE and total[slot, ask.device_column] <= 0:
            code = HAS_NONE
        elif demand == SHARE:
            if virtual[slot]:
                code = VIRTUAL_SHARE
            elif not accelerated[slot]:
                code = HAS_NONE
            elif not shares[slot] or device_count[slot] == 0:
                code = NO_SHARES
        codes[slot] = code
        numbers[slot] = 0


@kernel
def short_of_resources(nodes: NodeArrays, ask: Ask, buffers: Scratch, end: int) -> None:
    """Where nothing is noted yet: the first asked resource that is short."""
    free = nodes.free
    columns = ask.columns
    amounts = ask.amounts
    codes = buffers.codes
    numbers = buffers.numbers
    for slot in range(end):
        if codes[slot] == FITS:
            for k in range(columns.size):
                if free[slot, columns[k]] < amounts[k]:
                    whole = ask.demand == WHOLE and columns[k] == ask.device_column
                    codes[slot] = FEW_IDLE if whole else FIRST_COLUMN + k
                    numbers[slot] = max(free[slot, columns[k]], 0)
                    break


@kernel
def short_of_devices(nodes: NodeArrays, ask: Ask, buffers: Scratch, end: int) -> None:
    """Where nothing is noted yet and `fits` (see `feasible.holds`) is False: what the devices lack."""
    device_count = nodes.device_count
    openable = nodes.openable
    total_mib = nodes.device_total_mib
    healthy = nodes.device_healthy
    codes = buffers.codes
    numbers = buffers.numbers
    fits = buffers.fits
    for slot in range(end):
        if codes[slot] != FITS or fits[slot]:
            continue
        if ask.demand == WHOLE:
            codes[slot] = FEW_IDLE
            numbers[slot] = openable[slot]
            continue
        usable = 0
        known = 0
        for row in range(device_count[slot]):
            usable += 1 if healthy[slot, row] else 0
            known += 1 if healthy[slot, row] and total_mib[slot, row] > 0 else 0
        if usable < ask.devices:
            codes[slot] = TOO_FEW_DEVICES
            numbers[slot] = usable
        elif ask.milli == 0 and known < ask.devices:
            codes[slot] = UNKNOWN_MEMORY
            numbers[slot] = known
        else:
            codes[slot] = LITTLE_MILLI if ask.milli > 0 else LITTLE_MEMORY


@kernel
def best_share(nodes: NodeArrays, ask: Ask, buffers: Scratch, end: int) -> None:
    """Fills in the numbers of LITTLE_MILLI and LITTLE_MEMORY."""
    device_count = nodes.device_count
    openable = nodes.openable
    room = nodes.device_room_milli if ask.milli > 0 else nodes.device_room_mib
    holders = nodes.device_holders
    codes = buffers.codes
    numbers = buffers.numbers
    for slot in range(end):
        if codes[slot] != LITTLE_MILLI and codes[slot] != LITTLE_MEMORY:
            continue
        best = 0
        for row in range(device_count[slot]):
            size = room[slot, row]
            if size <= best:
                continue
            in_use = 0
            untouched = 0
            for other in range(device_count[slot]):
                if room[slot, other] >= size:
                    if holders[slot, other] == 0:
                        untouched += 1
                    else:
                        in_use += 1
            if in_use + min(untouched, openable[slot]) >= ask.devices:
                best = size
        numbers[slot] = best
