"""States made of plain nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.policy import Policy
from scheduler.state import ClusterState
from tests import naive


def state_of(nodes: Sequence[naive.Node], policy: Policy | None = None) -> ClusterState:
    state = ClusterState(policy)
    for node in nodes:
        slot = state.set_node(node.inventory)
        for request, devices in node.held:
            state.take(slot, request, devices)
    return state


def everywhere(state: ClusterState) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(len(state.inventories), np.bool_)
