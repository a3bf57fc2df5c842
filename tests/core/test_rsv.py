"""RSV on the state arrays against the plain floats of tests/core/naive_rsv.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import placement
from scheduler.allocation import DeviceShare
from scheduler.kernels import rsv
from scheduler.kernels.rest_tables import UNIT
from scheduler.packing.figures import figures
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.rests import draw_weights
from scheduler.packing.rsv import Rsv
from scheduler.packing.scenarios import drawn
from scheduler.packing.settings import RsvSettings
from scheduler.packing.survey import hardware_of
from scheduler.request import Request
from scheduler.state import ClusterState
from tests.core.naive_rsv import Item, Rest, World
from tests.strategies import fraction, inventory, whole

GIB = 1 << 30
SETTINGS = RsvSettings(scenarios=3, classes_per_scenario=4, seed=5)
PER_MILLI = UNIT / rsv.QUANTUM
"""Steps of costs in a milli-GPU."""

items = st.builds(
    Item,
    cpu=st.sampled_from([0, 500, 2000, 8000]),
    memory=st.sampled_from([0, GIB, 64 * GIB]),
    devices=st.just(1),
    milli=st.sampled_from([100, 230, 470, 815, 1000]),
    demand=st.integers(1, 9),
)
blocks = st.builds(
    Item,
    cpu=st.sampled_from([0, 4000]),
    memory=st.sampled_from([0, 8 * GIB]),
    devices=st.sampled_from([2, 3]),
    milli=st.just(1000),
    demand=st.integers(1, 9),
)
asked = st.one_of(items, blocks, st.builds(Item, st.sampled_from([100, 3000]), st.just(GIB), st.just(0), st.just(0)))


def request_of(item: Item) -> Request:
    made = whole(item.devices, cpu_milli=item.cpu) if item.milli == 1000 else fraction(item.milli, cpu_milli=item.cpu)
    if item.devices == 0:
        return Request(item.cpu, item.memory, 0)
    fields = {name: getattr(made, name) for name in made.__slots__}
    return Request(**{**fields, "memory_bytes": item.memory})


class _Node:
    """One node in both worlds: `parts` are milli that shares hold of its first devices."""

    def __init__(self, demand: list[Item], parts: list[int], devices: int, cpu: int, memory: int) -> None:
        self.policy = Rsv(SETTINGS)
        self.state = ClusterState(self.policy)
        self.state.set_node(inventory("a", devices=[1000] * devices, cpu_milli=cpu, memory_bytes=memory, pods=1000))
        for row, milli in enumerate(parts):
            self.state.take(0, fraction(milli, cpu_milli=0), (DeviceShare(row, milli, milli),))
        mix = Mix(
            tuple(PodClass(one.cpu, one.memory, one.devices, one.milli) for one in demand),
            tuple(one.demand for one in demand),
        )
        hardware = hardware_of(self.state)
        self.policy.publish(self.policy.build(mix, hardware))
        sets = drawn(draw_weights(figures(mix, hardware)), 3, 4, 5)
        chosen = [[demand[number] for number in dict.fromkeys(row)] for row in sets.tolist()]
        total = sum(one.demand * one.devices * one.milli for one in demand)
        scarce = sum(one.demand * one.cpu for one in demand) * devices * 1000 > 0.95 * total * cpu
        self.world = World(chosen, demand, SETTINGS.block_weight, SETTINGS.best_fit, 0.03 if scarce else 0.0)
        self.rest = Rest(cpu, memory, devices - len(parts), [1000 - milli for milli in parts if milli < 1000])


@given(
    demand=st.lists(st.one_of(items, blocks), min_size=1, max_size=5),
    parts=st.lists(st.sampled_from([100, 350, 470, 600, 999]), max_size=3),
    more=st.integers(1, 3),
    cpu=st.sampled_from([1000, 12_345, 96_000]),
    memory=st.sampled_from([4 * GIB, 256 * GIB]),
    item=asked,
)
@settings(max_examples=150)
def test_a_cost_is_what_the_plain_sums_give(
    demand: list[Item], parts: list[int], more: int, cpu: int, memory: int, item: Item
) -> None:
    node = _Node(demand, parts, len(parts) + more, cpu, memory)
    request = request_of(item)
    if not placement.fits(node.state, request, np.ones(1, np.bool_))[0]:
        return
    ask = node.state.ask(request)
    node.state.scratch.fits[0] = True
    node.policy.price(node.state.arrays, ask, np.zeros(1, np.int64), node.state.scratch)
    cost = (int(node.state.scratch.cost[0]) - rsv.OFFSET) / PER_MILLI
    choices = node.world.choices(node.rest, item)
    devices = placement.place_on(node.state, request, 0)
    assert devices is not None
    if 0 < item.milli < 1000:
        left = 1000 - sum(parts[devices[0].index : devices[0].index + 1]) - item.milli
        chosen = [(found, rest) for found, rest in choices if left in rest.parts]
        by_loss = min(found - _price(rest, node.world) for found, rest in choices)
        assert min(found - _price(rest, node.world) for found, rest in chosen) == pytest.approx(by_loss, abs=1e-3)
        choices = chosen
    assert cost == pytest.approx(min(found for found, _ in choices), abs=1e-3)


def _price(rest: Rest, world: World) -> float:
    return world.best_fit * 0.5 * (max(rest.cpu, 0) / 128000 + rest.room / 8000)


def test_before_anything_is_known_the_best_fit_wins() -> None:
    state = ClusterState(Rsv())
    for name, devices in (("a", [1000] * 8), ("b", [1000] * 2)):
        state.set_node(inventory(name, devices=devices, cpu_milli=8000 * len(devices)))
    found = placement.place(state, whole(1), np.ones(2, np.bool_))
    assert found is not None
    assert found.node == "b"


def test_a_node_newer_than_the_tables_is_no_trouble() -> None:
    state = ClusterState(Rsv())
    state.set_node(inventory("a", devices=[1000] * 2))
    state.policy.publish(state.policy.build(Mix((PodClass(100, 0, 1, 500),), (1,)), hardware_of(state)))  # type: ignore[attr-defined]
    state.set_node(inventory("b", devices=[2000] * 2))
    state.take(0, whole(2), placement.place_on(state, whole(2), 0) or ())
    found = placement.place(state, fraction(500), np.ones(2, np.bool_))
    assert found is not None
    assert found.node == "b"


def test_mig_instances_are_packed_by_count() -> None:
    mig = Request(100, 0, 0, (("nvidia.com/mig-1g.10gb", 1),))
    state = ClusterState(Rsv())
    for name, count in (("a", 7), ("b", 2)):
        state.set_node(inventory(name, extended={"nvidia.com/mig-1g.10gb": count}))
    found = placement.place(state, mig, np.ones(2, np.bool_))
    assert found is not None
    assert found.node == "b"
