"""What a placement costs under the packing and spreading rules, and which node is cheapest under any."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import CPU, Ask, NodeArrays, Rules, Scratch

# The parts of a cost stand one above the other in one integer, so that comparing costs compares part by part. Below
# stands what the policy says.
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


@kernel
def share_costs(nodes: NodeArrays, spread: int, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """Writes to `buffers.cost` what a share costs on each of `slots` (int64[n]) where it fits, after `choose_share`.

    Packing: fewest devices opened, then least left on the chosen ones, then fewest idle devices on the node.
    Spreading: most idle devices, then most left on the chosen ones.
    """
    idle = nodes.idle
    fits = buffers.fits
    opened = buffers.opened
    left = buffers.left
    cost = buffers.cost
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        rest = min(left[slot], MOST_LEFT - 1)
        if spread != 0:
            cost[slot] = (MOST_IDLE - idle[slot]) * MOST_LEFT + MOST_LEFT - rest
        else:
            cost[slot] = (min(opened[slot], MOST_OPENED - 1) * MOST_LEFT + rest) * MOST_IDLE + idle[slot]


@kernel
def plain_costs(
    nodes: NodeArrays,
    ask: Ask,
    rules: Rules,
    slots: NDArray[np.int64],
    fits: NDArray[np.bool_],
    cost: NDArray[np.int64],
) -> None:
    """Writes the cost of a request without a share on each of `slots` (int64[n]) where it fits: by what is free.

    Whole devices: by idle ones where they are modelled, by the count elsewhere. Parts of devices (MIG): by the count.
    Without devices: by free CPU.
    """
    free = nodes.free
    device_column = nodes.device_column
    device_count = nodes.device_count
    idle = nodes.idle
    asked = ask.device_column
    pack = ask.pack_column
    spread = rules.cpu_spread != 0 if pack == CPU else rules.gpu_spread != 0
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        amount = min(max(free[slot, pack], 0), MOST_FREE)
        if device_count[slot] > 0 and device_column[slot] == asked:
            amount = idle[slot]
        cost[slot] = MOST_FREE - amount if spread else amount


@kernel
def settle(
    virtual: NDArray[np.bool_],
    accelerated: NDArray[np.bool_],
    pool: NDArray[np.int64],
    plain: bool,
    slots: NDArray[np.int64],
    fits: NDArray[np.bool_],
    cost: NDArray[np.int64],
    settled: NDArray[np.int64],
) -> None:
    """Writes to `settled` for each of `slots` (int64[n]) the policy's cost and what comes before policies.

    The policy's is `cost`, where `fits` holds; all other arrays are [S]. `plain`: the request asks for no devices or
    parts of them, and goes to nodes that have none first. Then the order of pools. Virtual nodes cost the same, more
    than any real one. DOES_NOT_FIT where there is no room.
    """
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            settled[slot] = DOES_NOT_FIT
        elif virtual[slot]:
            settled[slot] = VIRTUAL
        else:
            value = min(max(cost[slot], 0), MOST_COST) + pool[slot] * POOL
            settled[slot] = value + ACCELERATED if plain and accelerated[slot] else value


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
