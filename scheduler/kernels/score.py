"""What a placement costs under the packing and spreading rules; the cheapest node wins."""

from __future__ import annotations

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import CPU, SHARE, WHOLE, Ask, NodeArrays, Rules
from scheduler.kernels.feasible import whole_modelled

# The parts of a cost stand one above the other in one integer, so that comparing costs compares part by part.
VIRTUAL = 1 << 60
ACCELERATED = 1 << 58
MOST_FREE = 1 << 56
"""Above every free amount that orders nodes."""
MOST_IDLE = 1 << 16
MOST_LEFT = 1 << 26


@kernel
def node_cost(nodes: NodeArrays, ask: Ask, rules: Rules, slot: int, opened: int, left: int) -> int:
    """The cost, at least 0, of the request on a node that holds it. `opened` and `left` come from `judge`.

    A virtual node costs the same for every request, more than any real one. Shares, packing: fewest devices opened,
    then least left on the chosen devices, then fewest idle devices; spreading: most idle devices, then most left.
    Whole devices and parts of devices: by the free number of them. Without devices: nodes that have none first, then
    by free CPU.
    """
    if nodes.virtual[slot]:
        return VIRTUAL
    if ask.demand == SHARE:
        if rules.gpu_spread != 0:
            return (MOST_IDLE - nodes.idle[slot]) * MOST_LEFT + MOST_LEFT - left
        return (opened * MOST_LEFT + left) * MOST_IDLE + nodes.idle[slot]
    free = nodes.free[slot, ask.pack_column]
    spread = rules.gpu_spread
    base = 0
    if ask.pack_column == CPU:
        spread = rules.cpu_spread
        if nodes.accelerated[slot]:
            base = ACCELERATED
    elif ask.demand == WHOLE and whole_modelled(nodes, ask, slot):
        free = nodes.idle[slot]
    return base + (MOST_FREE - free if spread != 0 else free)
