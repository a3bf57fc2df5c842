"""Where a request fits and where it fits best. Looks only; `ClusterState.take` and the ledger act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.allocation import FULL_MILLI, Allocation, DeviceShare
from scheduler.diagnosis import codes, why
from scheduler.kernels import feasible, score
from scheduler.kernels.arrays import SHARE, WHOLE, Ask, NodeArrays
from scheduler.kernels.copies import count_copies
from scheduler.request import Request
from scheduler.state import ClusterState
from scheduler.whole_devices import nearest

__all__ = ["codes", "copies", "fits", "place", "place_on", "ranked", "scores", "why"]

BEST_SCORE: Final = 100


def place(state: ClusterState, request: Request, mask: NDArray[np.bool_]) -> Allocation | None:
    """The best node among those of `mask` (bool[slots]) and the devices there, or None when it fits on none."""
    ask = state.ask(request)
    mask = _canonical(mask, state)
    _judge(state, ask, mask)
    nodes, buffers = state.arrays, state.scratch
    state.policy.score(nodes, ask, buffers, mask.size)
    slot = int(score.cheapest(buffers.cost, nodes.rank, mask.size))
    inventory = state.inventories[slot] if slot >= 0 else None
    if inventory is None:
        return None
    devices = _devices(state, request, ask, slot)
    assert devices is not None, "the search and the choice of devices disagree"
    return Allocation(inventory.name, devices)


def place_on(state: ClusterState, request: Request, slot: int) -> tuple[DeviceShare, ...] | None:
    """The devices that the request gets on one node, none where it needs none, or None when it does not fit."""
    if state.inventories[slot] is None:
        return None
    ask = state.ask(request)
    if (state.arrays.free[slot, ask.columns] < ask.amounts).any():
        return None
    return _devices(state, request, ask, slot)


def fits(state: ClusterState, request: Request, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[slots]: the nodes of `mask` (bool[slots]) that hold the request now."""
    mask = _canonical(mask, state)
    _judge(state, state.ask(request), mask)
    answer = np.zeros(len(state.inventories), np.bool_)
    answer[: mask.size] = state.scratch.fits[: mask.size]
    return answer


def copies(state: ClusterState, request: Request, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64[slots]: how many pods that ask for the same fit on each node of `mask` (bool[slots]) at once."""
    ask = state.ask(request)
    mask = _canonical(mask, state)
    answer = np.zeros(mask.size, np.int64)
    count_copies(state.arrays, ask, mask, answer)
    return answer


def ranked(state: ClusterState, request: Request, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The slots of `mask` (bool[slots]) on which the request fits, the best first."""
    ask = state.ask(request)
    mask = _canonical(mask, state)
    _judge(state, ask, mask)
    state.policy.score(state.arrays, ask, state.scratch, mask.size)
    costs = state.scratch.cost[: mask.size]
    slots = np.flatnonzero(costs >= 0)
    return slots[np.lexsort((state.arrays.rank[slots], costs[slots]))]


def scores(state: ClusterState, request: Request, slots: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[len(slots)], 0..100, by the order in which the policy would choose among these nodes.

    100 for the best and its equals alone, 0 where the request does not fit; the steps between are even.
    """
    ask = state.ask(request)
    wanted = np.asarray(slots, np.int64)
    mask = np.zeros(len(state.inventories), np.bool_)
    mask[wanted] = True
    _judge(state, ask, mask)
    state.policy.score(state.arrays, ask, state.scratch, mask.size)
    costs = state.scratch.cost[wanted]
    levels, place = np.unique(costs[costs >= 0], return_inverse=True)
    answer = np.zeros(len(wanted), np.int64)
    answer[costs >= 0] = (len(levels) - place) * BEST_SCORE // max(len(levels), 1)
    return answer


def share_of_device(request: Request, total_mib: int) -> tuple[int, int]:
    """What the request takes of each of its devices: milli, and MiB of a device with `total_mib` (0: unknown)."""
    if request.share_milli > 0:
        return request.share_milli, request.share_milli * total_mib // FULL_MILLI
    if request.share_memory_mib > 0:
        return 0, request.share_memory_mib
    return FULL_MILLI, total_mib


def _canonical(mask: NDArray[np.bool_], state: ClusterState) -> NDArray[np.bool_]:
    """The mask in the one form that kernels are compiled for, no longer than there are slots."""
    mask = mask[: len(state.inventories)]
    if mask.flags.writeable and mask.flags.c_contiguous and mask.dtype == np.bool_:
        return mask
    return np.array(mask, np.bool_)


def _judge(state: ClusterState, ask: Ask, mask: NDArray[np.bool_]) -> None:
    nodes, buffers = state.arrays, state.scratch
    feasible.has_room(nodes.free, ask.columns, ask.amounts, mask, buffers.fits)
    state.policy.judge(nodes, ask, buffers, 0, mask.size)


def _devices(state: ClusterState, request: Request, ask: Ask, slot: int) -> tuple[DeviceShare, ...] | None:
    """The devices on a node whose resources suffice, in the order of their index."""
    nodes = state.arrays
    rows: list[int] | None = []
    if ask.demand == SHARE:
        rows = _shared_rows(state, ask, slot)
    elif ask.demand == WHOLE and nodes.device_column[slot] == ask.device_column:
        rows = _whole_rows(nodes, ask, slot)
    inventory = state.inventories[slot]
    assert inventory is not None
    if rows is None:
        return None
    shares = []
    for row in rows:
        milli, memory_mib = share_of_device(request, int(nodes.device_total_mib[slot, row]))
        shares.append(DeviceShare(row, memory_mib, milli, inventory.devices[row].uuid))
    return tuple(shares)


def _shared_rows(state: ClusterState, ask: Ask, slot: int) -> list[int] | None:
    buffers = state.scratch
    buffers.fits[slot] = True
    state.policy.judge(state.arrays, ask, buffers, slot, slot + 1)
    return sorted(buffers.rows[: ask.devices].tolist()) if buffers.fits[slot] else None


def _whole_rows(nodes: NodeArrays, ask: Ask, slot: int) -> list[int] | None:
    """As `devices.judge_whole` and `nearest` decide; a kernel takes longer to call than this for one node."""
    if nodes.device_count[slot] > 0 and nodes.openable[slot] < ask.devices:
        return None
    untouched = np.flatnonzero(nodes.device_healthy[slot] & (nodes.device_holders[slot] == 0))
    return nearest(untouched, nodes.device_island[slot, untouched], ask.devices)
