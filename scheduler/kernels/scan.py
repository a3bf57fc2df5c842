"""One request against many nodes: room, devices and cost in one pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import Ask, NodeArrays, Rules, Scratch
from scheduler.kernels.devices import judge
from scheduler.kernels.feasible import has_room
from scheduler.kernels.score import node_cost

DOES_NOT_FIT = -1


@kernel
def best_node(nodes: NodeArrays, ask: Ask, rules: Rules, mask: NDArray[np.bool_], buffers: Scratch) -> int:
    """The slot with the least cost among those of `mask` (bool[n], n ≤ S) that hold the request, or -1.

    Equal costs: the node whose name comes first, so that the answer does not depend on the order of slots.
    """
    best = -1
    best_cost = 0
    for slot in range(mask.size):
        if not mask[slot] or not has_room(nodes, ask, slot):
            continue
        fits, opened, left = judge(nodes, ask, rules.device_spread, slot, buffers)
        if not fits:
            continue
        cost = node_cost(nodes, ask, rules, slot, opened, left)
        if best < 0 or cost < best_cost or (cost == best_cost and nodes.rank[slot] < nodes.rank[best]):
            best = slot
            best_cost = cost
    return best


@kernel
def fitting_nodes(
    nodes: NodeArrays, ask: Ask, mask: NDArray[np.bool_], buffers: Scratch, out: NDArray[np.bool_]
) -> None:
    """Writes to `out` (bool[n], like `mask`) which nodes of `mask` hold the request."""
    for slot in range(mask.size):
        out[slot] = False
        if mask[slot] and has_room(nodes, ask, slot):
            out[slot] = judge(nodes, ask, 0, slot, buffers)[0]


@kernel
def node_costs(
    nodes: NodeArrays,
    ask: Ask,
    rules: Rules,
    slots: NDArray[np.int64],
    buffers: Scratch,
    out: NDArray[np.int64],
) -> None:
    """Writes the cost on each of `slots` (int64[n]) to `out` (int64[n]), DOES_NOT_FIT where there is no room."""
    for k in range(slots.size):
        out[k] = DOES_NOT_FIT
        if has_room(nodes, ask, slots[k]):
            fits, opened, left = judge(nodes, ask, rules.device_spread, slots[k], buffers)
            if fits:
                out[k] = node_cost(nodes, ask, rules, slots[k], opened, left)
