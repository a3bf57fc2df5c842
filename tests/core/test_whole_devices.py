"""Whole devices come from as few islands as can be."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import placement
from scheduler.allocation import FULL_MILLI, DeviceShare
from scheduler.state import ClusterState
from scheduler.whole_devices import nearest
from tests.strategies import inventory, whole

MIB = 40960


def choose(islands: list[int], held: list[int], count: int) -> list[int] | None:
    """The rows that a pod gets on a node with devices in these islands, some of them held."""
    state = ClusterState()
    slot = state.set_node(inventory("n1", devices=[MIB] * len(islands), islands=islands))
    for row in held:
        state.take(slot, whole(1), (DeviceShare(row, MIB, FULL_MILLI, None),))
    found = placement.place(state, whole(count), np.ones(1, np.bool_))
    return None if found is None else [share.index for share in found.devices]


def fewest(islands: list[int], rows: list[int], count: int) -> int:
    """By trying every choice."""
    return min(len({islands[row] for row in choice}) for choice in combinations(rows, count))


@given(data=st.data(), islands=st.lists(st.integers(0, 3), min_size=1, max_size=8))
@settings(deadline=None)
def test_the_fewest_islands(data: st.DataObject, islands: list[int]) -> None:
    """Of all choices of untouched devices; and None exactly where there are too few."""
    rows = list(range(len(islands)))
    held = data.draw(st.lists(st.sampled_from(rows), unique=True))
    count = data.draw(st.integers(1, len(rows)))
    left = [row for row in rows if row not in held]
    chosen = choose(islands, held, count)
    if len(left) < count:
        assert chosen is None
        return
    assert chosen is not None
    assert chosen == sorted(set(chosen))
    assert len(chosen) == count
    assert set(chosen) <= set(left)
    assert len({islands[row] for row in chosen}) == fewest(islands, left, count)
    if len(set(islands)) == 1:
        assert chosen == left[:count]


def test_the_smallest_island_that_holds_all() -> None:
    """So that large ones stay whole; of equals the one with the lowest index, and the lowest indices in it."""
    assert choose([0, 0, 0, 0, 1, 1, 1, 1], [5], 2) == [4, 6]
    assert choose([0, 0, 0, 0, 1, 1, 1, 1], [], 2) == [0, 1]
    assert choose([7, 7, 2, 2], [], 2) == [0, 1]
    assert choose([0, 0, 0, 0, 1, 1, 1, 1], [1, 2, 5], 3) == [4, 6, 7]


def test_more_than_one_island_holds() -> None:
    """The largest first, and for the rest the smallest that holds it."""
    assert choose([0, 0, 1, 1, 1, 2], [], 4) == [2, 3, 4, 5]
    assert choose([0, 1, 0, 1], [], 3) == [0, 1, 2]


def test_rows_that_are_too_few() -> None:
    """All of them: it does not judge."""
    assert nearest(np.array([], np.intp), np.array([], np.int32), 2) == []
    assert nearest(np.array([1, 4]), np.array([0, 1], np.int32), 3) == [1, 4]
