"""The policies of the literature on the state arrays against tests/core/naive_policies.py."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import placement
from scheduler.allocation import DeviceShare
from scheduler.kernels import feasible, fgd, sharing
from scheduler.packing.fgd import Fgd
from scheduler.packing.fgd_mix import fgd_tasks
from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.named import policy_named
from scheduler.packing.survey import hardware_of
from scheduler.request import Demand, Request
from scheduler.state import ClusterState
from tests import naive, strategies
from tests.core import naive_policies
from tests.core.states import everywhere, state_of
from tests.packing import traces
from tests.strategies import fraction, inventory, whole

NAIVE: dict[str, Callable[[naive.Node, Request], int]] = {
    "bestfit": naive_policies.bestfit,
    "dotprod": naive_policies.dotprod,
    "gpu-packing": naive_policies.gpu_packing,
    "gpu-clustering": naive_policies.gpu_clustering,
}
TASKS = (
    naive_policies.Task(100, 500, 1, 0.4),
    naive_policies.Task(1000, 1000, 2, 0.3),
    naive_policies.Task(300, 0, 0, 0.2),
    naive_policies.Task(300, 1000, 1, 0.1),
)
MIX = Mix(tuple(PodClass(task.cpu, 0, task.devices, task.milli) for task in TASKS), (4, 3, 2, 1))


def costs(state: ClusterState, request: Request) -> list[int]:
    """What the policy says of each slot; of no meaning where the request does not fit."""
    slots = np.arange(len(state.inventories))
    ask = state.ask(request)
    feasible.holds(state.arrays, ask, slots, state.scratch.fits)
    state.policy.price(state.arrays, ask, slots, state.scratch)
    return [int(cost) for cost in state.scratch.cost[: slots.size]]


def whole_or_share(request: Request) -> bool:
    """Not a part of a device (MIG), which all policies pack by count."""
    return request.demand is not Demand.NONE or not any("mig" in name for name, _ in request.extended)


def every_model(state: ClusterState) -> Hardware:
    """As if every model took shares, so that every task may use it."""
    return Hardware(tuple(model._replace(takes_shares=True) for model in hardware_of(state).models))


# -- costs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(NAIVE))
@given(nodes=strategies.nodes(), request_=strategies.requests().filter(whole_or_share))
def test_costs_are_those_of_the_plain_scores(name: str, nodes: list[naive.Node], request_: Request) -> None:
    state = state_of(nodes, policy_named(name))
    fits = placement.fits(state, request_, everywhere(state))
    found = costs(state, request_)
    for slot in np.flatnonzero(fits).tolist():
        assert found[slot] == NAIVE[name](nodes[slot], request_), nodes[slot]
        devices = placement.place_on(state, request_, slot)
        if request_.demand is Demand.SHARE:
            assert [one.index for one in devices or ()] == sorted(naive_policies.tightest(nodes[slot], request_))


@given(nodes=strategies.nodes(), request_=strategies.requests().filter(whole_or_share))
def test_fgd_costs_and_devices_are_those_of_the_plain_sums(nodes: list[naive.Node], request_: Request) -> None:
    """To the bit: both add up in one order."""
    state = state_of(nodes, Fgd())
    assert isinstance(state.policy, Fgd)
    state.policy.publish(state.policy.build(MIX, every_model(state)))
    fits = placement.fits(state, request_, everywhere(state))
    found = costs(state, request_)
    for slot in np.flatnonzero(fits).tolist():
        cost, rows = naive_policies.fgd(nodes[slot], request_, TASKS)
        assert found[slot] == cost, nodes[slot]
        devices = placement.place_on(state, request_, slot)
        if request_.demand is Demand.SHARE:
            assert [one.index for one in devices or ()] == sorted(rows)


# -- devices that are tried only once ----------------------------------------------------------------------------


def repeated(state: ClusterState, slot: int, row: int) -> bool:
    nodes = state.arrays
    return sharing.is_repeated(
        slot,
        row,
        nodes.device_room_milli,
        nodes.device_room_mib,
        nodes.device_free_milli,
        nodes.device_total_mib,
        nodes.device_holders,
    )


@given(nodes=strategies.nodes(), milli=st.integers(1, 1000))
def test_what_is_passed_over_was_tried_already(nodes: list[naive.Node], milli: int) -> None:
    state = state_of(nodes)
    for slot, node in enumerate(nodes):
        for row in range(len(node.devices)):
            if repeated(state, slot, row):
                before, after = naive_policies.rooms(node), naive_policies.room_after(node, fraction(milli), row)
                alike = [other for other in range(row) if before[other] == before[row]]
                assert after in [naive_policies.room_after(node, fraction(milli), other) for other in alike]


def test_equal_room_is_not_enough() -> None:
    """54 of 100 MiB hold 549 milli; 467 milli take 46 MiB, and the 8 MiB left hold 89, but one device has only 85."""
    node = naive.Node(inventory("a", devices=[100, 100]))
    node.held = [(fraction(448), (DeviceShare(0, 46, 448),)), (fraction(330), (DeviceShare(1, 46, 330),))]
    assert naive_policies.rooms(node) == [549, 549]
    assert [naive_policies.room_after(node, fraction(467), row) for row in range(2)] == [85, 89]
    assert not repeated(state_of([node]), 0, 1)


# -- by example --------------------------------------------------------------------------------------------------


def test_the_fragmentation_of_one_node_is_known_to_the_bit() -> None:
    """8 × G2 with 96 cores under the default trace: empty, and after one of the commonest shares."""
    state = ClusterState()
    state.set_node(inventory("a", devices=[0] * 8, cpu_milli=96_000))
    tasks = fgd_tasks(traces.mix("default"), hardware_of(state))
    assert fgd.fragmentation_in_all(state.arrays, tasks, 1) == 1087.8186968838527
    share = fraction(810, cpu_milli=3152)
    state.take(0, share, (DeviceShare(0, 0, 810),))
    assert fgd.fragmentation_in_all(state.arrays, tasks, 1) == 1140.5202163275817


def test_fgd_of_the_paper() -> None:
    """A share that leaves what nobody can use costs more than one that fills a device up."""
    state = ClusterState(Fgd())
    for name in "ab":
        state.set_node(inventory(name, devices=[1000] * 2, cpu_milli=64_000))
    assert isinstance(state.policy, Fgd)
    state.policy.publish(state.policy.build(MIX, hardware_of(state)))
    state.take(1, fraction(500), placement.place_on(state, fraction(500), 1) or ())
    found = placement.place(state, fraction(500), np.ones(2, np.bool_))
    assert found is not None
    assert (found.node, [one.index for one in found.devices]) == ("b", [0])


def test_a_share_of_several_devices_costs_fgd_what_all_of_them_change() -> None:
    """The second step alone would cost next to nothing."""
    node = naive.Node(inventory("a", devices=[0] * 4, cpu_milli=1000))
    state = state_of([node], Fgd())
    assert isinstance(state.policy, Fgd)
    state.policy.publish(state.policy.build(MIX, every_model(state)))
    before = naive_policies.fragmentation([1000] * 4, 1000, TASKS)
    after = naive_policies.fragmentation([900, 900, 1000, 1000], 900, TASKS)
    assert costs(state, fraction(100, devices=2)) == [100 - int(100 / (1 + math.exp((after - before) / 1000)))]


def test_clustering_keeps_kinds_together() -> None:
    state = ClusterState(policy_named("gpu-clustering"))
    for name in "abc":
        state.set_node(inventory(name, devices=[1000] * 4, cpu_milli=64_000))
    state.take(1, whole(2), placement.place_on(state, whole(2), 1) or ())
    state.take(2, fraction(300), placement.place_on(state, fraction(300), 2) or ())
    for request, node in ((whole(2), "b"), (fraction(300), "c"), (whole(1), "a")):
        found = placement.place(state, request, np.ones(3, np.bool_))
        assert found is not None
        assert found.node == node
