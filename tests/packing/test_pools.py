"""Policies by name, and several in one cluster."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler import placement
from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.named import NAMES, policy_named
from scheduler.packing.pools import MOST_POOLS, Pool, Pools
from scheduler.packing.refresh import learner_of
from scheduler.packing.rsv import Rsv
from scheduler.packing.survey import hardware_of
from scheduler.policy import PlacementPolicy, PolicyError
from scheduler.request import Request
from scheduler.state import ClusterState
from tests.strategies import fraction, inventory, whole
from topology.inventory import NodeInventory


def labelled(name: str, devices: int, **labels: str) -> NodeInventory:
    from dataclasses import replace

    made = inventory(name, devices=[1000] * devices, cpu_milli=64_000)
    return replace(made, facts=replace(made.facts, labels=labels))


def state_with(policy: Pools, *nodes: NodeInventory) -> ClusterState:
    state = ClusterState(policy)
    for one in nodes:
        state.set_node(one)
    return state


def chosen(state: ClusterState, request: Request) -> str | None:
    found = placement.place(state, request, np.ones(len(state.inventories), np.bool_))
    if found is None:
        return None
    state.take(state.slot_of[found.node], request, found.devices)
    return found.node


def test_an_unknown_name_is_told_with_all_that_there_are() -> None:
    with pytest.raises(PolicyError, match=f'"random" is no placement policy: {", ".join(NAMES)} are'):
        policy_named("random")


def test_pools_come_in_order_and_each_goes_by_its_policy() -> None:
    pools = Pools([Pool("pool", "infer", policy_named("spread")), Pool("train", None, policy_named("binpack"))], Rsv())
    state = state_with(
        pools,
        labelled("a", 4, train="yes"),
        labelled("b", 2, train=""),
        labelled("x", 2, pool="infer"),
        labelled("y", 2, pool="infer", train="yes"),
        labelled("z", 8, pool="other"),
    )
    assert [chosen(state, whole(1)) for _ in range(11)] == ["x", "y", "x", "y", "b", "b", "a", "a", "a", "a", "z"]
    state.set_node(labelled("z", 8, pool="infer"))
    assert int(state.arrays.pool[state.slot_of["z"]]) == 0


def test_pods_without_devices_go_to_nodes_without_whatever_the_pool() -> None:
    state = state_with(
        Pools([Pool("pool", "infer", policy_named("spread"))], PlacementPolicy()),
        labelled("a", 2, pool="infer"),
        inventory("b"),
    )
    assert chosen(state, Request(100, 0, 0)) == "b"


def test_shares_get_the_devices_that_the_pools_policy_chooses() -> None:
    state = state_with(
        Pools([Pool("pool", "infer", policy_named("spread"))], PlacementPolicy()), labelled("a", 2, pool="infer")
    )
    first = placement.place_on(state, fraction(300), 0)
    state.take(0, fraction(300), first or ())
    second = placement.place_on(state, fraction(300), 0)
    assert [one.index for one in (*(first or ()), *(second or ()))] == [0, 1]


def test_only_policies_that_learn_are_told_the_demand() -> None:
    learning = Pools([Pool("pool", None, policy_named("bestfit"))], Rsv())
    plain = Pools([Pool("pool", None, policy_named("bestfit"))], PlacementPolicy())
    assert learner_of(plain) is None
    learner = learner_of(learning)
    assert learner is not None
    state = state_with(learning, labelled("a", 2))
    before = learning.epoch
    learner.publish(learner.build(Mix((PodClass(100, 0, 1, 500),), (1,)), hardware_of(state)))
    assert learning.epoch == before + 1
    assert learner_of(Rsv()) is not None
    assert Hardware(()).models == ()


def test_there_are_not_too_many_pools() -> None:
    with pytest.raises(PolicyError, match="63 pools are more than the 62"):
        Pools([Pool(str(number), None, PlacementPolicy()) for number in range(MOST_POOLS + 1)], PlacementPolicy())
