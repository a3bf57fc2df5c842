"""Costs of the policies that the fragmentation paper (Weng et al., USENIX ATC 2023) compares its own with.

Each score is an integer, truncated towards zero, of which the greatest wins; the cost is 100 less it, at least 0. The
scale of a node is 128 cores and 8 devices; scores of larger nodes may fall below 0. A share takes the device with least
room. Kernels write to `cost` (int64[S]) for each of `slots` (int64[n]) where `fits` (bool[S]) holds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import CPU, KINDS, MOST_IN_KIND, NO_DEVICES, SHARE, Ask, NodeArrays
from scheduler.kernels.holding import FULL
from scheduler.kernels.sharing import is_counted, room_in_all, taken_in_all

BEST = 100
NODE_CPU = 128_000
NODE_MILLI = 8 * FULL


@kernel
def dotprod_costs(
    nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], fits: NDArray[np.bool_], cost: NDArray[np.int64]
) -> None:
    """By the product of what is free and what is asked, of CPU and of devices: the least product wins."""
    rows = np.zeros(max(nodes.device_room_milli.shape[1], ask.devices), np.int64)
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        cpu, milli = max(nodes.free[slot, CPU], 0), room_in_all(nodes, ask, slot)
        taken = taken_in_all(nodes, ask, slot, rows)
        product = cpu / NODE_CPU * (ask.cpu_milli / NODE_CPU) + milli / NODE_MILLI * (taken / NODE_MILLI)
        cost[slot] = max(BEST - int(100 * (1 - product / 2)), 0)


@kernel
def bestfit_costs(
    nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], fits: NDArray[np.bool_], cost: NDArray[np.int64]
) -> None:
    """By what stays free, of CPU and of devices alike."""
    rows = np.zeros(max(nodes.device_room_milli.shape[1], ask.devices), np.int64)
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        cpu = nodes.free[slot, CPU] - ask.cpu_milli
        milli = room_in_all(nodes, ask, slot) - taken_in_all(nodes, ask, slot, rows)
        cost[slot] = max(BEST - int(100 * (1 - (0.5 * cpu / NODE_CPU + 0.5 * milli / NODE_MILLI))), 0)


@kernel
def gpu_packing_costs(
    nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], fits: NDArray[np.bool_], cost: NDArray[np.int64]
) -> None:
    """Devices in use first, then idle ones of nodes in use, then idle nodes with few devices."""
    rows = np.zeros(max(nodes.device_room_milli.shape[1], ask.devices), np.int64)
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        score = 0
        if ask.demand != NO_DEVICES:
            count, idle = int(nodes.device_count[slot]), int(nodes.idle[slot])
            if is_counted(nodes, ask, slot):
                count = nodes.total[slot, ask.device_column]
                idle = nodes.free[slot, ask.device_column]
            opened, rest = ask.devices, 0
            if ask.demand == SHARE:
                taken_in_all(nodes, ask, slot, rows)
                opened = 0
                for k in range(ask.devices):
                    opened += 1 if nodes.device_holders[slot, rows[k]] == 0 else 0
                    rest += nodes.device_room_milli[slot, rows[k]] * 100 // FULL
            if idle >= count:
                score = max(33 - count, count)
            elif opened >= 1:
                score = max(50 - opened, 33)
            else:
                score = max(100 - rest // 10, 50)
        cost[slot] = max(BEST - score, 0)


@kernel
def gpu_clustering_costs(
    nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], fits: NDArray[np.bool_], cost: NDArray[np.int64]
) -> None:
    """Nodes that host pods of the same kind (shares, one device, two, ...), then idle ones; of those the fullest."""
    kind = 0 if ask.demand == SHARE else min(ask.devices, MOST_IN_KIND)  # see `kind_of`
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        score = 0
        if ask.demand != NO_DEVICES:
            same = nodes.hosted[slot, kind] > 0
            others = False
            for other in range(KINDS):
                others = others or (other != kind and nodes.hosted[slot, other] > 0)
            score = 25 * max(NODE_MILLI - room_in_all(nodes, ask, slot), 0) // NODE_MILLI
            if same:
                score += 50 if others else 75
            elif not others:
                score += 25
        cost[slot] = max(BEST - score, 0)
