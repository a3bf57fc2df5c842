"""Whether a node has room, resources first: what kube-scheduler counts."""

from __future__ import annotations

from scheduler.kernels._jit import kernel
from scheduler.kernels.arrays import Ask, NodeArrays


@kernel
def has_room(nodes: NodeArrays, ask: Ask, slot: int) -> bool:
    """Whether the node's free resources cover the request. Devices beyond their count are not looked at."""
    for k in range(ask.columns.size):  # noqa: SIM110 - numba knows no all() over a generator
        if nodes.free[slot, ask.columns[k]] < ask.amounts[k]:
            return False
    return True


@kernel
def openable(nodes: NodeArrays, slot: int) -> int:
    """How many untouched devices may still be taken on a node with modelled devices.

    Besides the idle ones themselves, the count has a say: devices under shares look free to kube-scheduler, and whole
    devices may be in use that we cannot place on a row. Both together must stay within what is allocatable.
    """
    left = nodes.free[slot, nodes.device_column[slot]] - nodes.shared[slot]
    return max(min(left, nodes.idle[slot]), 0)


@kernel
def whole_modelled(nodes: NodeArrays, ask: Ask, slot: int) -> bool:
    """Whether the whole devices asked for are ones that this node models row by row."""
    return nodes.device_count[slot] > 0 and nodes.device_column[slot] == ask.device_column
