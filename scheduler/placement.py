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
    costs = state.costs(request)
    slot = int(score.cheapest(costs, _canonical(mask, state), state.arrays.rank))
    inventory = state.inventories[slot] if slot >= 0 else None
    if inventory is None:
        return None
    return Allocation(inventory.name, _devices(state, request, state.ask(request), slot))


def place_on(state: ClusterState, request: Request, slot: int) -> tuple[DeviceShare, ...] | None:
    """The devices that the request gets on one node, none where it needs none, or None when it does not fit."""
    if state.inventories[slot] is None:
        return None
    ask = state.ask(request)
    if not _holds(state, ask, slot):
        return None
    return _devices(state, request, ask, slot)


def fits(state: ClusterState, request: Request, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[slots]: the nodes of `mask` (bool[slots]) that hold the request now."""
    mask = mask[: len(state.inventories)]
    answer = np.zeros(len(state.inventories), np.bool_)
    answer[: mask.size] = (state.costs(request)[: mask.size] != score.DOES_NOT_FIT) & mask
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
    slots = np.flatnonzero(fits(state, request, mask))
    costs = state.costs(request)
    return slots[np.lexsort((state.arrays.rank[slots], costs[slots]))]


def scores(state: ClusterState, request: Request, slots: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[len(slots)], 0..100, by the order in which the policy would choose among these nodes.

    100 for the best and its equals alone, 0 where the request does not fit; the steps between are even.
    """
    costs = state.costs(request)[np.asarray(slots, np.int64)]
    levels, place = np.unique(costs[costs >= 0], return_inverse=True)
    answer = np.zeros(costs.size, np.int64)
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


def _holds(state: ClusterState, ask: Ask, slot: int) -> bool:
    """As `feasible.holds` decides; for one node and no share a kernel takes longer to call than this."""
    nodes = state.arrays
    if (nodes.free[slot, ask.columns] < ask.amounts).any():
        return False
    if ask.demand == WHOLE and nodes.device_column[slot] == ask.device_column and nodes.device_count[slot] > 0:
        return bool(nodes.openable[slot] >= ask.devices)
    if ask.demand == SHARE:
        feasible.holds(nodes, ask, np.array([slot]), state.scratch.fits)
        return bool(state.scratch.fits[slot])
    return True


def _devices(state: ClusterState, request: Request, ask: Ask, slot: int) -> tuple[DeviceShare, ...]:
    """The devices on a node where the request fits, in the order of their index."""
    nodes = state.arrays
    rows: list[int] = []
    if ask.demand == SHARE:
        state.scratch.fits[slot] = True
        state.policy.choose(nodes, ask, slot, state.scratch)
        rows = sorted(state.scratch.rows[: ask.devices].tolist())
    elif ask.demand == WHOLE and nodes.device_column[slot] == ask.device_column:
        rows = _whole_rows(nodes, ask, slot)
    inventory = state.inventories[slot]
    assert inventory is not None
    shares = []
    for row in rows:
        milli, memory_mib = share_of_device(request, int(nodes.device_total_mib[slot, row]))
        shares.append(DeviceShare(row, memory_mib, milli, inventory.devices[row].uuid))
    return tuple(shares)


def _whole_rows(nodes: NodeArrays, ask: Ask, slot: int) -> list[int]:
    untouched = np.flatnonzero(nodes.device_healthy[slot] & (nodes.device_holders[slot] == 0))
    return nearest(untouched, nodes.device_island[slot, untouched], ask.devices)
