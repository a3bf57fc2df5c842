"""How many copies of a request fit on a node: the kernel against the plain search, pod after pod."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import placement
from scheduler.allocation import FULL_MILLI, DeviceShare
from scheduler.kernels.copies import MOST_COPIES
from scheduler.policy import PlacementPolicy, Strategy
from scheduler.request import Demand, Request
from scheduler.state import ClusterState
from tests import naive, strategies
from tests.strategies import cpu_only, fraction, inventory, memory, whole

POLICIES = [PlacementPolicy(device=strategy) for strategy in Strategy]


def copies(nodes: list[naive.Node], request: Request, mask: list[bool] | None = None) -> list[int]:
    state = ClusterState()
    for node in nodes:
        slot = state.set_node(node.inventory)
        for held, devices in node.held:
            state.take(slot, held, devices)
    return [int(count) for count in placement.copies(state, request, np.array(mask or [True] * len(nodes)))]


def one_by_one(node: naive.Node, request: Request, policy: PlacementPolicy) -> int:
    """How many the plain search places on the node one after the other."""
    node, count = naive.Node(node.inventory, list(node.held)), 0
    while (rows := naive.rows_for(node, request, policy)) is not None:
        node.held.append((request, tuple(_held(node, request, row) for row in rows)))
        count += 1
    return count


def _held(node: naive.Node, request: Request, row: int) -> DeviceShare:
    if request.demand is Demand.WHOLE:
        return DeviceShare(row, node.devices[row].memory_mib, FULL_MILLI)
    mib = request.share_memory_mib or request.share_milli * node.devices[row].memory_mib // 1000
    return DeviceShare(row, mib, request.share_milli)


def most(node: naive.Node, request: Request) -> int:
    """How many can be placed in any order and on any devices: all choices are gone through."""
    if naive.short_resources(node, request):
        return 0
    best = 0
    for choice in naive.share_choices(node, request):
        more = naive.Node(node.inventory, [*node.held, (request, tuple(_held(node, request, row) for row in choice))])
        best = max(best, 1 + most(more, request))
    return best


def is_exact(node: naive.Node, request: Request) -> bool:
    """Where the kernel promises the very number: no share, or one device each and untouched devices that are alike."""
    if request.demand is not Demand.SHARE:
        return True
    return request.device_count == 1 and len({node.devices[row].memory_mib for row in node.untouched()}) <= 1


# -- generated ---------------------------------------------------------------------------------------------------


@given(strategies.nodes(), strategies.requests())
def test_as_many_as_can_be_placed_one_by_one(nodes: list[naive.Node], request: Request) -> None:
    counted = copies(nodes, request)
    for node, count in zip(nodes, counted, strict=True):
        by_hand = [one_by_one(node, request, policy) for policy in POLICIES]
        assert count >= max(by_hand)
        assert (count > 0) == (max(by_hand) > 0)
        if request.demand is not Demand.SHARE:
            assert by_hand == [count] * len(POLICIES)


@st.composite
def small_cards(draw: st.DrawFn) -> naive.Node:
    """A node with up to three devices on which few copies fit, some already in use."""
    sizes = draw(st.lists(st.sampled_from([80, 80, 120]), min_size=1, max_size=3))
    node = naive.Node(inventory("a", devices=sizes, unhealthy=draw(st.integers(0, 1)), cpu_milli=400))
    for row in draw(st.lists(st.integers(0, len(sizes) - 1), max_size=2)):
        milli = draw(st.sampled_from([250, 500]))
        node.held.append((fraction(milli), (DeviceShare(row, milli * sizes[row] // 1000, milli),)))
    if draw(st.booleans()):
        node.held.append((whole(1), ()))  # somebody holds one, nobody knows which
    return node


@given(small_cards(), st.sampled_from([500, 400, 750]), st.integers(1, 2), st.booleans())
def test_no_choice_of_devices_holds_more(node: naive.Node, milli: int, count: int, by_memory: bool) -> None:
    request = memory(milli // 10, count) if by_memory else fraction(milli, count)
    (counted,) = copies([node], request)
    best = most(node, request)
    assert counted >= best
    if is_exact(node, request):
        assert counted == best


@given(strategies.nodes(), strategies.requests(), st.data())
def test_none_where_the_mask_is_not(nodes: list[naive.Node], request: Request, data: st.DataObject) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(nodes), max_size=len(nodes)))
    everywhere = copies(nodes, request)
    assert copies(nodes, request, mask) == [count if want else 0 for count, want in zip(everywhere, mask, strict=True)]


# -- by example --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "count"),
    [
        pytest.param(whole(1), 4, id="whole devices"),
        pytest.param(whole(3), 1, id="three each"),
        pytest.param(whole(1, cpu_milli=3000), 2, id="CPU for two"),
        pytest.param(fraction(500), 8, id="halves"),
        pytest.param(fraction(600), 4, id="one to a device"),
        pytest.param(fraction(500, devices=4), 2, id="halves of all"),
        pytest.param(fraction(500, devices=3), 2, id="halves of three: parts for two, and two fit"),
        pytest.param(memory(30, devices=2), 6, id="three parts of each device"),
        pytest.param(cpu_only(500), 16, id="no device"),
    ],
)
def test_on_a_node_with_four_devices(request_: Request, count: int) -> None:
    assert copies([naive.Node(inventory("a", devices=[100] * 4, pods=50))], request_) == [count]


def test_what_asks_for_nothing_is_bounded_by_pods() -> None:
    nodes = [naive.Node(inventory("a", pods=7))]
    assert copies(nodes, Request(0, 0, 0)) == [7]
    assert MOST_COPIES > 1 << 20


def test_at_most_so_many_where_untouched_devices_differ() -> None:
    """Two untouched devices, one of which may be opened: the larger one is counted, the smaller one may be taken."""
    node = naive.Node(inventory("a", devices=[100, 200]), [(whole(1), ())])
    assert copies([node], memory(100)) == [2]
    assert one_by_one(node, memory(100), PlacementPolicy(device=Strategy.BINPACK)) == 1
