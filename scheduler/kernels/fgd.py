"""Fragmentation gradient descent (Weng et al., USENIX ATC 2023): the node whose fragmentation grows least.

The fragmentation of a node is, over the tasks that the cluster mostly gets, the mean of the free devices that the task
cannot use: in milli-GPU, weighted by popularity. The score is an integer from 0 to 100, by the logistic function of the
change in devices; the coarse steps leave many ties, which the order of nodes breaks.

Here and in `classic` alone kernels calculate in floats. Sums go task by task into six parts, which are added in one
order, so that equal machines give equal scores.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import CPU, NO_DEVICES, SHARE, Ask, NodeArrays, Scratch
from scheduler.kernels.holding import FULL
from scheduler.kernels.sharing import is_among, is_repeated, room_after

if TYPE_CHECKING:
    from scheduler.packing.fgd_mix import FgdTasks

BEST = 100


@inner
def fragmentation(
    task_cpu: NDArray[np.int64],
    task_milli: NDArray[np.int64],
    task_devices: NDArray[np.int64],
    popularity: NDArray[np.float64],
    allowed: NDArray[np.bool_],
    model: int,
    cpu: int,
    rooms: NDArray[np.int64],
    count: int,
) -> float:
    """F of a node with `cpu` free milli and `rooms` (int64[count]) free milli on its devices; see `FgdTasks`."""
    total = 0
    for row in range(count):
        total += rooms[row]
    few_short = 0.0
    enough_cpu = 0.0
    short = 0.0
    plain = 0.0
    plain_short = 0.0
    foreign = 0.0
    for t in range(task_cpu.size):
        part = popularity[t]
        suffices = cpu >= task_cpu[t]
        if task_devices[t] == 0:
            if suffices:
                plain += part * total
            else:
                plain_short += part * total
            continue
        if model >= allowed.shape[1] or not allowed[t, model]:
            foreign += part * total
            continue
        fitting = 0
        small = 0
        for row in range(count):
            if rooms[row] >= task_milli[t]:
                fitting += 1
            else:
                small += rooms[row]
        if fitting >= task_devices[t]:
            if suffices:
                enough_cpu += part * small
            else:
                short += part * total
        elif suffices:
            enough_cpu += part * total
        else:
            few_short += part * total
    return few_short + enough_cpu + short + plain + plain_short + foreign


@inner
def score_of(before: float, after: float) -> int:
    """0..100: 50 for no change."""
    return int(100 * (1 / (1 + math.exp(-(before - after) / FULL))))


@kernel
def fgd_costs(nodes: NodeArrays, ask: Ask, tasks: FgdTasks, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """Writes to `buffers.cost`, for each of `slots` (int64[n]) where `buffers.fits` holds, 100 less the score.

    Devices of a share are chosen one after the other, the first with the greatest score; the share costs what all of
    them change together. `buffers.rows` holds the choice on the last slot. Devices that are only counted leave no
    fragments: their change is 0.
    """
    cpus, millis, counts, popularity, allowed = tasks.cpu, tasks.milli, tasks.devices, tasks.popularity, tasks.allowed
    fits, cost, rows = buffers.fits, buffers.cost, buffers.rows
    free = nodes.free
    model = nodes.model
    device_count = nodes.device_count
    device_column = nodes.device_column
    openable = nodes.openable
    healthy = nodes.device_healthy
    room_milli = nodes.device_room_milli
    room_mib = nodes.device_room_mib
    free_milli = nodes.device_free_milli
    free_mib = nodes.device_free_mib
    total_mib = nodes.device_total_mib
    holders = nodes.device_holders
    offer = nodes.device_room_milli if ask.milli > 0 else nodes.device_room_mib
    need = ask.milli if ask.milli > 0 else ask.mib
    demand = ask.demand
    rooms = np.zeros(room_milli.shape[1], np.int64)
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        kind, count, cpu = model[slot], int(device_count[slot]), free[slot, CPU]
        for row in range(count):
            rooms[row] = room_milli[slot, row]
        before = fragmentation(cpus, millis, counts, popularity, allowed, kind, cpu, rooms, count)
        cpu -= ask.cpu_milli
        if demand == SHARE:
            may_open = openable[slot]
            step = before
            for k in range(ask.devices):
                best, best_score, best_after = -1, -1, step
                for row in range(count):
                    if offer[slot, row] < need or (may_open <= 0 and holders[slot, row] == 0):
                        continue
                    if is_among(rows, k, row):
                        continue
                    if k == 0 and is_repeated(slot, row, room_milli, room_mib, free_milli, total_mib, holders):
                        continue
                    room = rooms[row]
                    rooms[row] = room_after(
                        int(free_milli[slot, row]), free_mib[slot, row], total_mib[slot, row], ask.milli, ask.mib
                    )
                    after = fragmentation(cpus, millis, counts, popularity, allowed, kind, cpu, rooms, count)
                    rooms[row] = room
                    score = score_of(step, after)
                    if score > best_score:
                        best, best_score, best_after = row, score, after
                rows[k] = best
                step = best_after
                may_open -= 1 if holders[slot, best] == 0 else 0
                rooms[best] = room_after(
                    int(free_milli[slot, best]), free_mib[slot, best], total_mib[slot, best], ask.milli, ask.mib
                )
            cost[slot] = BEST - score_of(before, step)
            continue
        if demand != NO_DEVICES and count > 0 and device_column[slot] == ask.device_column:
            wanted = ask.devices
            for row in range(count):
                if wanted > 0 and holders[slot, row] == 0 and healthy[slot, row]:
                    rooms[row] = 0
                    wanted -= 1
        after = fragmentation(cpus, millis, counts, popularity, allowed, kind, cpu, rooms, count)
        cost[slot] = BEST - score_of(before, after)


@kernel
def fragmentation_in_all(nodes: NodeArrays, tasks: FgdTasks, end: int) -> float:
    """The sum of the fragmentation of the slots below `end`, in milli-GPU."""
    cpus, millis, counts, popularity, allowed = tasks.cpu, tasks.milli, tasks.devices, tasks.popularity, tasks.allowed
    free = nodes.free
    model = nodes.model
    device_count = nodes.device_count
    room_milli = nodes.device_room_milli
    rooms = np.zeros(room_milli.shape[1], np.int64)
    total = 0.0
    for slot in range(end):
        count = int(device_count[slot])
        for row in range(count):
            rooms[row] = room_milli[slot, row]
        if count > 0:
            total += fragmentation(
                cpus, millis, counts, popularity, allowed, model[slot], free[slot, CPU], rooms, count
            )
    return total
