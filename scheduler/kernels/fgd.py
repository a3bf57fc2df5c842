"""Fragmentation gradient descent (Weng et al., USENIX ATC 2023): the node whose fragmentation grows least.

The fragmentation of a node is, over the tasks that the cluster mostly gets, the mean of the free devices that the task
cannot use: in milli-GPU, weighted by popularity. The score is an integer from 0 to 100, by the logistic function of the
change in devices; the coarse steps leave many ties, which the order of nodes breaks.

Here alone kernels calculate in floats. Sums go task by task into six parts, which are added in one order, so that equal
machines give equal scores.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import CPU, NO_DEVICES, SHARE, Ask, NodeArrays
from scheduler.kernels.holding import FULL
from scheduler.kernels.sharing import is_among, is_counted, is_repeated, offers, room_after

if TYPE_CHECKING:
    from scheduler.packing.fgd_mix import FgdTasks

BEST = 100


@inner
def fragmentation(tasks: FgdTasks, model: int, cpu: int, rooms: NDArray[np.int64], count: int) -> float:
    """F of a node with `cpu` free milli and `rooms` (int64[count]) free milli on its devices."""
    total = 0
    for row in range(count):
        total += rooms[row]
    few_short = 0.0
    enough_cpu = 0.0
    short = 0.0
    plain = 0.0
    plain_short = 0.0
    foreign = 0.0
    for t in range(tasks.cpu.size):
        part = tasks.popularity[t]
        suffices = cpu >= tasks.cpu[t]
        if tasks.devices[t] == 0:
            if suffices:
                plain += part * total
            else:
                plain_short += part * total
            continue
        if model >= tasks.allowed.shape[1] or not tasks.allowed[t, model]:
            foreign += part * total
            continue
        fitting = 0
        small = 0
        for row in range(count):
            if rooms[row] >= tasks.milli[t]:
                fitting += 1
            else:
                small += rooms[row]
        if fitting >= tasks.devices[t]:
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


@inner
def choose(
    nodes: NodeArrays, ask: Ask, tasks: FgdTasks, slot: int, rooms: NDArray[np.int64], rows: NDArray[np.int64]
) -> int:
    """Chooses devices for a share on a slot where it fits, one after the other: the first with the greatest score.

    `rooms` (int64[D]) are the free milli before, and afterwards those after. Returns the last score.
    """
    count = nodes.device_count[slot]
    cpu = nodes.free[slot, CPU]
    may_open = nodes.openable[slot]
    best_score = 0
    for k in range(ask.devices):
        before = fragmentation(tasks, nodes.model[slot], cpu if k == 0 else cpu - ask.cpu_milli, rooms, count)
        best = -1
        best_score = -1
        for row in range(count):
            if not offers(nodes, ask, slot, row, may_open) or is_among(rows, k, row):
                continue
            if k == 0 and is_repeated(nodes, slot, row):
                continue
            room = rooms[row]
            rooms[row] = room_after(nodes, ask, slot, row)
            score = score_of(before, fragmentation(tasks, nodes.model[slot], cpu - ask.cpu_milli, rooms, count))
            rooms[row] = room
            if score > best_score:
                best, best_score = row, score
        rows[k] = best
        may_open -= 1 if nodes.device_holders[slot, best] == 0 else 0
        rooms[best] = room_after(nodes, ask, slot, best)
    return best_score


@kernel
def fgd_costs(
    nodes: NodeArrays,
    ask: Ask,
    tasks: FgdTasks,
    slots: NDArray[np.int64],
    fits: NDArray[np.bool_],
    cost: NDArray[np.int64],
) -> None:
    """Writes to `cost` (int64[S]) for each of `slots` (int64[n]) where `fits` (bool[S]) holds: 100 less the score.

    Devices that are only counted leave no fragments: their change is 0.
    """
    width = nodes.device_room_milli.shape[1]
    rooms = np.zeros(width, np.int64)
    rows = np.zeros(max(width, ask.devices), np.int64)
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        count = nodes.device_count[slot]
        for row in range(count):
            rooms[row] = nodes.device_room_milli[slot, row]
        if ask.demand == SHARE:
            cost[slot] = BEST - choose(nodes, ask, tasks, slot, rooms, rows)
            continue
        before = fragmentation(tasks, nodes.model[slot], nodes.free[slot, CPU], rooms, count)
        if ask.demand != NO_DEVICES and not is_counted(nodes, ask, slot):
            left = ask.devices
            for row in range(count):
                if left > 0 and nodes.device_holders[slot, row] == 0 and nodes.device_healthy[slot, row]:
                    rooms[row] = 0
                    left -= 1
        after = fragmentation(tasks, nodes.model[slot], nodes.free[slot, CPU] - ask.cpu_milli, rooms, count)
        cost[slot] = BEST - score_of(before, after)


@kernel
def fgd_rows(nodes: NodeArrays, ask: Ask, tasks: FgdTasks, slot: int, rows: NDArray[np.int64]) -> None:
    """Writes to the first of `rows` the devices of a share on a slot where it fits."""
    rooms = np.zeros(nodes.device_room_milli.shape[1], np.int64)
    for row in range(nodes.device_count[slot]):
        rooms[row] = nodes.device_room_milli[slot, row]
    choose(nodes, ask, tasks, slot, rooms, rows)


@kernel
def fragmentation_in_all(nodes: NodeArrays, tasks: FgdTasks, end: int) -> float:
    """The sum of the fragmentation of the slots below `end`, in milli-GPU."""
    rooms = np.zeros(nodes.device_room_milli.shape[1], np.int64)
    total = 0.0
    for slot in range(end):
        count = nodes.device_count[slot]
        for row in range(count):
            rooms[row] = nodes.device_room_milli[slot, row]
        if count > 0:
            total += fragmentation(tasks, nodes.model[slot], nodes.free[slot, CPU], rooms, count)
    return total
