"""Costs of the policies that the fragmentation paper (Weng et al., USENIX ATC 2023) compares its own with.

Each score is an integer, truncated towards zero, of which the greatest wins; the cost is 100 less it, at least 0. The
scale of a node is 128 cores and 8 devices; scores of larger nodes may fall below 0. A share takes the device with least
room. Kernels come after `sharing.weigh`, read what it wrote, and write `buffers.cost` for each of `slots` (int64[n])
where `buffers.fits` holds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import CPU, MOST_IN_KIND, NO_DEVICES, SHARE, Ask, NodeArrays, Scratch
from scheduler.kernels.holding import FULL

BEST = 100
NODE_CPU = 128_000
NODE_MILLI = 8 * FULL
CPU_OF_GPU = NODE_CPU // NODE_MILLI
"""Milli-CPU that best fit takes for as much as a milli-GPU."""


@kernel
def dotprod_costs(nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """By the product of what is free and what is asked, of CPU and of devices: the least product wins."""
    free = nodes.free
    fits, room, taken, cost = buffers.fits, buffers.room, buffers.taken, buffers.cost
    asked = ask.cpu_milli / NODE_CPU
    for index in range(slots.size):
        slot = slots[index]
        if fits[slot]:
            product = max(free[slot, CPU], 0) / NODE_CPU * asked + room[slot] / NODE_MILLI * (taken[slot] / NODE_MILLI)
            cost[slot] = max(BEST - int(100 * (1 - product / 2)), 0)


@kernel
def bestfit_costs(nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """By what stays free, of CPU and of devices alike."""
    free = nodes.free
    fits, room, taken, cost = buffers.fits, buffers.room, buffers.taken, buffers.cost
    asked = ask.cpu_milli
    for index in range(slots.size):
        slot = slots[index]
        if fits[slot]:
            cpu, milli = free[slot, CPU] - asked, room[slot] - taken[slot]
            cost[slot] = max(BEST - int(100 * (1 - (0.5 * cpu / NODE_CPU + 0.5 * milli / NODE_MILLI))), 0)


@kernel
def gpu_packing_costs(nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """Devices in use first, then untouched ones of nodes in use, then untouched nodes with few devices."""
    free = nodes.free
    total = nodes.total
    idle = nodes.idle
    device_count = nodes.device_count
    device_column = nodes.device_column
    fits, opened, left, cost = buffers.fits, buffers.opened, buffers.left, buffers.cost
    demand = ask.demand
    asked = ask.device_column
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        score = 0
        if demand != NO_DEVICES:
            count, untouched = int(device_count[slot]), idle[slot]
            if demand != SHARE and (count == 0 or device_column[slot] != asked):
                count, untouched = total[slot, asked], free[slot, asked]
            opens = opened[slot] if demand == SHARE else ask.devices
            if untouched >= count:
                score = max(33 - count, count)
            elif opens >= 1:
                score = max(50 - opens, 33)
            else:
                score = max(100 - left[slot] * 100 // FULL // 10, 50)
        cost[slot] = max(BEST - score, 0)


@kernel
def gpu_clustering_costs(nodes: NodeArrays, ask: Ask, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """Nodes that host pods of the same kind (shares, one device, two, …), then untouched ones; of those the fullest."""
    hosted = nodes.hosted
    fits, room, cost = buffers.fits, buffers.room, buffers.cost
    demand = ask.demand
    kind = 0 if demand == SHARE else min(ask.devices, MOST_IN_KIND)  # see `arrays.kind_of`
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        score = 0
        if demand != NO_DEVICES:
            others = False
            for other in range(hosted.shape[1]):
                others = others or (other != kind and hosted[slot, other] > 0)
            score = 25 * max(NODE_MILLI - room[slot], 0) // NODE_MILLI
            if hosted[slot, kind] > 0:
                score += 50 if others else 75
            elif not others:
                score += 25
        cost[slot] = max(BEST - score, 0)
