"""What a placement costs under the packing and spreading rules, and which node is cheapest under any.

Kernels of policies write to `cost` (int64[S]) for each of `slots` (int64[n]) what the request costs there: what the
policy says, from 0 to MOST_COST, and above it what comes before any policy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import CPU, NO_DEVICES, SHARE, Ask, NodeArrays, Rules
from scheduler.kernels.devices import choose
from scheduler.kernels.feasible import has_room

# The parts of a cost stand one above the other in one integer, so that comparing costs compares part by part.
VIRTUAL = 1 << 61
ACCELERATED = 1 << 60
POOL = 1 << 54
"""Above every cost that a policy gives. There are at most 63 pools."""
MOST_COST = POOL - 1
MOST_FREE = 1 << 53
"""Above every free amount that orders nodes; more counts as this."""
MOST_IDLE = 1 << 16
MOST_LEFT = 1 << 28
"""Above what a share leaves on all its devices together, milli or MiB; more counts as this."""
MOST_OPENED = 1 << 9
DOES_NOT_FIT = -1
OPEN = -2


@inner
def before_policy(nodes: NodeArrays, ask: Ask, slot: int) -> int:
    """DOES_NOT_FIT where there is no room, VIRTUAL on a virtual node, all of which cost the same, else OPEN."""
    if not has_room(nodes, ask, slot):
        return DOES_NOT_FIT
    return VIRTUAL if nodes.virtual[slot] else OPEN


@inner
def in_order(nodes: NodeArrays, ask: Ask, slot: int, value: int) -> int:
    """What a policy says, with the order of pools above it, and above that, for pods without devices, nodes that have
    none first.
    """
    whole: int = min(max(value, 0), MOST_COST) + nodes.pool[slot] * POOL
    plain = ask.demand == NO_DEVICES and ask.pack_column == CPU
    return whole + ACCELERATED if plain and nodes.accelerated[slot] else whole


@kernel
def pack_costs(nodes: NodeArrays, ask: Ask, rules: Rules, slots: NDArray[np.int64], cost: NDArray[np.int64]) -> None:
    """Packing and spreading. Of a share, by `share_cost`; of all else by what is free.

    Whole devices: by idle ones where they are modelled, by the count elsewhere. Parts of devices (MIG): by the count.
    Without devices: by free CPU.
    """
    free = nodes.free
    device_column = nodes.device_column
    device_count = nodes.device_count
    idle = nodes.idle
    pack = ask.pack_column
    spread = rules.cpu_spread != 0 if pack == CPU else rules.gpu_spread != 0
    rows = np.zeros(max(nodes.device_room_milli.shape[1], ask.devices), np.int64)
    for index in range(slots.size):
        slot = slots[index]
        value = before_policy(nodes, ask, slot)
        if value == OPEN:
            if ask.demand == SHARE:
                value = share_cost(nodes, ask, rules, slot, rows)
            else:
                amount = min(max(free[slot, pack], 0), MOST_FREE)
                if device_count[slot] > 0 and device_column[slot] == ask.device_column:
                    amount = idle[slot]
                value = MOST_FREE - amount if spread else amount
            value = in_order(nodes, ask, slot, value)
        cost[slot] = value


@inner
def share_cost(nodes: NodeArrays, ask: Ask, rules: Rules, slot: int, rows: NDArray[np.int64]) -> int:
    """Packing: fewest devices opened, then least left on the chosen ones, then fewest idle devices on the node.

    Spreading: most idle devices, then most left on the chosen ones.
    """
    opened, left = choose(nodes, ask, rules.device_spread, slot, rows)
    left = min(left, MOST_LEFT - 1)
    idle = int(nodes.idle[slot])
    if rules.gpu_spread != 0:
        return (MOST_IDLE - idle) * MOST_LEFT + MOST_LEFT - left
    return (min(opened, MOST_OPENED - 1) * MOST_LEFT + left) * MOST_IDLE + idle


@kernel
def cheapest(cost: NDArray[np.int64], mask: NDArray[np.bool_], rank: NDArray[np.int64]) -> int:
    """The slot of `mask` (bool[n], n ≤ S) with the least cost that is not DOES_NOT_FIT, or -1.

    Equal costs: the node whose name comes first, so that the answer does not depend on the order of slots.
    """
    best = -1
    least = np.int64(1 << 62)
    for slot in range(mask.size):
        value = cost[slot]
        if value <= least and value >= 0 and mask[slot] and (value < least or rank[slot] < rank[best]):
            best = slot
            least = value
    return best
