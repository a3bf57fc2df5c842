from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scheduler.allocation import DeviceShare
from scheduler.journal import JournalError
from scheduler.kernels import arrays as layout
from scheduler.node_row import MOST
from scheduler.request import Request
from scheduler.state import REMEMBERED_REQUESTS, ClusterState, StateError
from tests import naive, strategies
from tests.strategies import GPU, MIG, fraction, inventory, memory, whole
from topology.inventory import ShareSupport


def copies(state: ClusterState) -> list[NDArray[np.generic]]:
    return [array.copy() for array in state.arrays]


def same(state: ClusterState, before: Sequence[NDArray[np.generic]]) -> bool:
    return all(map(np.array_equal, copies(state), before))


Taken = tuple[int, Request, tuple[DeviceShare, ...]]
"""Anything taken somewhere: a number that becomes a slot, what, and which devices."""


def taken() -> st.SearchStrategy[list[Taken]]:
    return st.lists(st.tuples(st.integers(0, 4), strategies.requests(), strategies.device_shares()), max_size=6)


@given(strategies.nodes(), taken(), taken())
def test_rollback_restores_exactly(nodes: list[naive.Node], outer: list[Taken], inner: list[Taken]) -> None:
    state = ClusterState()
    for node in nodes:
        slot = state.set_node(node.inventory)
        for request, devices in node.held:
            state.take(slot, request, devices)
    for _, request, _ in [*outer, *inner]:
        state.ask(request)  # columns come first, so that arrays can be compared
    start = copies(state)
    mark = state.checkpoint()
    _take(state, outer, len(nodes))
    middle = copies(state)
    nested = state.checkpoint()
    _take(state, inner, len(nodes))
    state.validate()
    state.rollback(nested)
    assert same(state, middle)
    kept = state.checkpoint()
    _take(state, inner, len(nodes))
    state.commit(kept)
    state.rollback(mark)
    assert same(state, start)
    assert not state.tentative


def _take(state: ClusterState, held: Sequence[Taken], nodes: int) -> None:
    for slot, request, devices in held:
        state.take(slot % nodes, request, devices)


@given(strategies.nodes(), taken())
def test_give_undoes_take_in_any_order(nodes: list[naive.Node], held: list[Taken]) -> None:
    state = ClusterState()
    for node in nodes:
        state.set_node(node.inventory)
    for _, request, _ in held:
        state.ask(request)
    start = copies(state)
    _take(state, held, len(nodes))
    for slot, request, devices in held:
        state.give(slot % len(nodes), request, devices)
    assert same(state, start)
    state.validate()


def test_committed_changes_stay() -> None:
    state = ClusterState()
    state.set_node(inventory("a", devices=[100]))
    mark = state.checkpoint()
    state.take(0, fraction(500), (DeviceShare(0, 50, 500),))
    state.commit()
    assert state.arrays.device_free_milli[0, 0] == 500
    with pytest.raises(JournalError):
        state.rollback(mark)


def test_every_change_moves_the_version() -> None:
    state = ClusterState()
    versions = [state.version]

    def moved() -> bool:
        versions.append(state.version)
        return versions[-1] > versions[-2]

    state.set_node(inventory("a", devices=[100]))
    assert moved()
    mark = state.checkpoint()
    state.take(0, whole(1), (DeviceShare(0, 100, 1000),))
    assert moved()
    state.rollback(mark)
    assert moved()
    state.hold(0, (DeviceShare(0, 100, 1000),))
    assert moved()
    state.clear(0)
    assert moved()
    state.remove_node("a")
    assert moved()


def test_nodes_do_not_change_inside_a_checkpoint() -> None:
    state = ClusterState()
    state.set_node(inventory("a"))
    state.checkpoint()
    with pytest.raises(StateError, match="set_node inside a checkpoint"):
        state.set_node(inventory("b"))
    with pytest.raises(StateError, match="remove_node"):
        state.remove_node("a")
    with pytest.raises(StateError, match="clear"):
        state.clear(0)


def test_slots_are_used_again_and_ranks_follow_names() -> None:
    state = ClusterState()
    for name in "dbac":
        state.set_node(inventory(name, devices=[100]))
    state.remove_node("b")
    state.remove_node("unknown")
    assert state.inventories[1] is None
    assert state.arrays.device_count[1] == 0
    assert state.set_node(inventory("aa")) == 1
    assert state.arrays.rank[:4].tolist() == [3, 1, 0, 2]
    state.validate()
    state.remove_node("aa")
    with pytest.raises(StateError, match="slot 1 holds no node"):
        state.clear(1)


def test_arrays_grow_and_keep_what_is_there() -> None:
    state = ClusterState()
    first = inventory("n000", devices=[100, 100])
    state.set_node(first)
    state.take(0, fraction(250), (DeviceShare(1, 25, 250),))
    for i in range(1, 130):
        state.set_node(inventory(f"n{i:03}", devices=[100] * (1 + i % 17)))
    for i in range(12):
        state.column(f"example.com/resource-{i}")
    arrays = state.arrays
    assert arrays.free.shape[0] >= 130
    assert arrays.free.shape[1] >= 16
    assert arrays.device_holders.shape[1] >= 17
    assert arrays.device_free_milli[0, 1] == 750
    assert state.scratch.fits.shape == (arrays.free.shape[0],)
    state.validate()


def test_a_request_that_names_a_new_resource_is_taken_whole() -> None:
    """The vector is as long as the arrays, which the request itself may make longer."""
    state = ClusterState()
    state.set_node(inventory("a"))
    request = Request(100, 0, 0, tuple((f"example.com/r{i}", i) for i in range(1, 9)))
    state.take(0, request, ())
    assert state.arrays.free[0, state.columns["example.com/r8"]] == -8
    assert state.arrays.free[0, layout.CPU] == 7900
    assert len(state.vector(request)) == state.arrays.free.shape[1]


def test_the_vector_and_the_ask() -> None:
    state = ClusterState()
    request = Request(1500, 1 << 30, 0, (("b.com/x", 2), (GPU, 1)), whole(1).demand, GPU, 1)
    vector = state.vector(request)
    assert vector[: layout.FIRST_EXTENDED].tolist() == [1500, 1 << 30, 0, 1]
    assert vector[state.columns[GPU]] == 1
    ask = state.ask(request)
    assert ask.columns.tolist() == [0, 1, 3, state.columns["b.com/x"], state.columns[GPU]]
    assert ask.amounts.tolist() == [1500, 1 << 30, 1, 2, 1]
    assert ask.device_column == ask.pack_column == state.columns[GPU]
    assert state.ask(Request(1, 0, 0, ((MIG, 1),))).pack_column == state.columns[MIG]
    assert state.ask(fraction(500)).pack_column == layout.CPU


def test_only_so_many_requests_are_remembered() -> None:
    state = ClusterState()
    for i in range(REMEMBERED_REQUESTS + 3):
        state.ask(Request(i, 0, 0))
    assert state.ask(Request(5, 0, 0)).amounts.tolist() == [5, 1]
    assert len(state._shapes) <= REMEMBERED_REQUESTS


def test_a_whole_device_takes_all_memory_whatever_was_written_down() -> None:
    """Its memory may have been unknown when the allocation was written."""
    state = ClusterState()
    state.set_node(inventory("a", devices=[100, 100]))
    state.take(0, whole(1), (DeviceShare(0, 0, 1000),))
    state.take(0, fraction(500), (DeviceShare(1, 0, 500),))
    assert state.arrays.device_free_mib[0, :2].tolist() == [0, 50]
    assert state.arrays.device_room_milli[0, :2].tolist() == [0, 500]


def test_kinds_of_nodes() -> None:
    state = ClusterState()
    state.set_node(inventory("cpu"))
    state.set_node(inventory("mig", shares=ShareSupport.MIG, extended={MIG: 7}))
    state.set_node(inventory("sliced", counted=16))
    state.set_node(inventory("virtual", counted=16, virtual=True))
    state.set_node(inventory("gpu", devices=[100] * 3, unhealthy=1))
    arrays = state.arrays
    assert arrays.accelerated[:5].tolist() == [False, True, True, True, True]
    assert arrays.shares[:5].tolist() == [False, False, False, False, True]
    assert arrays.virtual[:5].tolist() == [False, False, False, True, False]
    assert arrays.device_count[:5].tolist() == [0, 0, 0, 0, 3]
    assert arrays.idle[4] == 2
    assert arrays.device_room_milli[4, :3].tolist() == [1000, 1000, 0]
    assert arrays.free[4, state.columns[GPU]] == 2


def test_absurd_amounts_are_cut() -> None:
    state = ClusterState()
    state.set_node(inventory("a", cpu_milli=1 << 80, devices=[1 << 60]))
    assert state.arrays.free[0, layout.CPU] == MOST
    assert state.arrays.device_total_mib[0, 0] < 1 << 30


def test_over_use_and_unknown_rows_are_borne() -> None:
    state = ClusterState()
    state.set_node(inventory("a", devices=[100]))
    for _ in range(3):
        state.take(0, memory(80), (DeviceShare(0, 80, 0), DeviceShare(9, 80, 0)))
    assert state.arrays.device_free_mib[0, 0] == -140
    assert state.arrays.device_room_milli[0, 0] == 0
    assert state.arrays.device_holders[0, 0] == 3
    state.validate()
