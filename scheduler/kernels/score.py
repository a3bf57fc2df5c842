"""What a placement costs under the packing and spreading rules; the cheapest node wins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import CPU, Ask, NodeArrays, Rules

# The parts of a cost stand one above the other in one integer, so that comparing costs compares part by part.
VIRTUAL = 1 << 60
ACCELERATED = 1 << 58
MOST_FREE = 1 << 56
"""Above every free amount that orders nodes."""
MOST_IDLE = 1 << 16
MOST_LEFT = 1 << 36
"""Above what a share leaves on all its devices together, milli or MiB."""
MOST_OPENED = 1 << 9
DOES_NOT_FIT = -1


@kernel
def share_costs(
    idle: NDArray[np.int64],
    fits: NDArray[np.bool_],
    opened: NDArray[np.int64],
    left: NDArray[np.int64],
    spread: int,
    end: int,
    cost: NDArray[np.int64],
) -> None:
    """Writes the cost of a share on each slot below `end` to `cost` (all arrays are [S], as `judge_share` left them).

    Packing: fewest devices opened, then least left on the chosen ones, then fewest idle devices on the node.
    Spreading: most idle devices, then most left on the chosen ones.
    """
    for slot in range(end):
        if not fits[slot]:
            cost[slot] = DOES_NOT_FIT
        elif spread != 0:
            cost[slot] = (MOST_IDLE - idle[slot]) * MOST_LEFT + MOST_LEFT - left[slot]
        else:
            opens = min(opened[slot], MOST_OPENED)
            cost[slot] = (opens * MOST_LEFT + left[slot]) * MOST_IDLE + idle[slot]


@kernel
def plain_costs(
    nodes: NodeArrays, ask: Ask, rules: Rules, fits: NDArray[np.bool_], end: int, cost: NDArray[np.int64]
) -> None:
    """Writes the cost of a request without a share on each slot below `end` to `cost` (int64[S]): by what is free.

    Whole devices: by idle ones where they are modelled, by the count elsewhere. Parts of devices (MIG): by the count.
    Without devices: nodes that have none first, then by free CPU. Virtual nodes cost the same, more than any real one.
    """
    free = nodes.free
    virtual = nodes.virtual
    accelerated = nodes.accelerated
    device_column = nodes.device_column
    device_count = nodes.device_count
    idle = nodes.idle
    asked = ask.device_column
    pack = ask.pack_column
    spread = rules.cpu_spread != 0 if pack == CPU else rules.gpu_spread != 0
    for slot in range(end):
        if not fits[slot]:
            cost[slot] = DOES_NOT_FIT
            continue
        if virtual[slot]:
            cost[slot] = VIRTUAL
            continue
        amount = max(free[slot, pack], 0)
        if device_count[slot] > 0 and device_column[slot] == asked:
            amount = idle[slot]
        value = MOST_FREE - amount if spread else amount
        cost[slot] = value + ACCELERATED if pack == CPU and accelerated[slot] else value


@kernel
def cheapest(cost: NDArray[np.int64], rank: NDArray[np.int64], end: int) -> int:
    """The slot below `end` with the least cost that is not DOES_NOT_FIT, or -1.

    Equal costs: the node whose name comes first, so that the answer does not depend on the order of slots.
    """
    best = -1
    for slot in range(end):
        if cost[slot] >= 0 and (
            best < 0 or cost[slot] < cost[best] or (cost[slot] == cost[best] and rank[slot] < rank[best])
        ):
            best = slot
    return best
