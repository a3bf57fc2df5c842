"""The kernels and what stands on them, against the plain search of tests/naive.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import placement
from scheduler.allocation import DeviceShare
from scheduler.policy import PlacementPolicy, Strategy
from scheduler.reason import Code
from scheduler.request import Request
from scheduler.state import ClusterState
from tests import naive, strategies
from tests.core.states import everywhere, state_of
from tests.strategies import fraction, inventory, memory, whole
from topology.inventory import ShareSupport

SPREAD = PlacementPolicy(Strategy.SPREAD, Strategy.SPREAD, Strategy.SPREAD)


def placed(state: ClusterState, request: Request) -> tuple[str, list[int]] | None:
    found = placement.place(state, request, everywhere(state))
    return None if found is None else (found.node, [share.index for share in found.devices])


# -- generated ---------------------------------------------------------------------------------------------------


@given(strategies.nodes(), strategies.requests(), strategies.policies())
def test_place_chooses_what_the_plain_search_chooses(
    nodes: list[naive.Node], request: Request, policy: PlacementPolicy
) -> None:
    state = state_of(nodes, policy)
    state.validate()
    assert placed(state, request) == naive.place(nodes, request, policy)


@given(strategies.nodes(), strategies.requests(), strategies.policies())
def test_fits_is_whether_any_choice_of_devices_exists(
    nodes: list[naive.Node], request: Request, policy: PlacementPolicy
) -> None:
    state = state_of(nodes, policy)
    fits = placement.fits(state, request, everywhere(state))
    expected = [naive.rows_for(node, request, policy) is not None for node in nodes]
    assert fits.tolist() == expected
    on_each = [placement.place_on(state, request, slot) for slot in range(len(nodes))]
    assert [devices is not None for devices in on_each] == expected


@given(strategies.nodes(), strategies.requests(), strategies.policies(), st.data())
def test_the_mask_restricts_the_search(
    nodes: list[naive.Node], request: Request, policy: PlacementPolicy, data: st.DataObject
) -> None:
    state = state_of(nodes, policy)
    wanted = data.draw(st.lists(st.booleans(), min_size=len(nodes), max_size=len(nodes)))
    mask = np.array(wanted)
    found = placement.place(state, request, mask)
    expected = naive.place([node for node, want in zip(nodes, wanted, strict=True) if want], request, policy)
    assert (None if found is None else found.node) == (None if expected is None else expected[0])
    fits = placement.fits(state, request, mask)
    assert not fits[~mask].any()


@given(strategies.nodes(), strategies.requests(), strategies.policies())
def test_scores_order_nodes_as_the_policy_does(
    nodes: list[naive.Node], request: Request, policy: PlacementPolicy
) -> None:
    state = state_of(nodes, policy)
    slots = list(reversed(range(len(nodes))))
    scores = placement.scores(state, request, slots).tolist()
    fitting = {
        score: naive.cost(nodes[slot], request, policy)
        for slot, score in zip(slots, scores, strict=True)
        if naive.rows_for(nodes[slot], request, policy) is not None
    }
    costs = [naive.cost(node, request, policy) for node in nodes if naive.rows_for(node, request, policy) is not None]
    for slot, score in zip(slots, scores, strict=True):
        if naive.rows_for(nodes[slot], request, policy) is None:
            assert score == 0
        else:
            assert 0 < score <= 100
            assert fitting[score] == naive.cost(nodes[slot], request, policy)
            assert (score == 100) == (naive.cost(nodes[slot], request, policy) == min(costs))
    by_score = sorted(fitting.items(), reverse=True)
    assert [cost for _, cost in by_score] == sorted(set(costs))


@given(strategies.nodes(), strategies.requests())
def test_each_node_gets_its_first_lack(nodes: list[naive.Node], request: Request) -> None:
    state = state_of(nodes)
    codes = placement.codes(state, request, {})
    expected = {}
    for slot, node in enumerate(nodes):
        lack = naive.lack(node, request)
        if lack is not None:
            expected[slot] = lack[0]
    assert codes == expected


@given(strategies.nodes(), strategies.requests())
def test_the_numbers_are_the_best_that_any_node_has(nodes: list[naive.Node], request: Request) -> None:
    for node in nodes:
        lack = naive.lack(node, request)
        if lack is None or lack[0] in (Code.VIRTUAL_NODE_SHARES, Code.SHARES_NOT_SUPPORTED):
            continue
        reason = placement.why(state_of([node]), request, {})
        said = [value for key, value in reason.numbers.items() if key.startswith(("free", "best", "most", "have"))]
        assert reason.code is lack[0]
        assert said == ([] if lack[0] is Code.UNKNOWN_CARD_MEMORY else [lack[1]])


@given(strategies.nodes(), strategies.requests(), strategies.policies(), st.data())
def test_the_order_in_which_nodes_came_does_not_matter(
    nodes: list[naive.Node], request: Request, policy: PlacementPolicy, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(nodes))
    assert placed(state_of(nodes, policy), request) == placed(state_of(shuffled, policy), request)


# -- by example --------------------------------------------------------------------------------------------------


def test_shares_fill_a_device_before_they_open_another() -> None:
    state = state_of([naive.Node(inventory("a", devices=[100, 100]))])
    taken = []
    for milli in (400, 400, 800, 200):
        request = fraction(milli)
        devices = placement.place_on(state, request, 0)
        assert devices is not None
        taken.append([share.index for share in devices])
        state.take(0, request, devices)
    assert taken == [[0], [0], [1], [0]]


def test_a_fraction_does_not_straddle_devices() -> None:
    state = state_of([naive.Node(inventory("a", devices=[100, 100]))])
    for _ in range(2):
        devices = placement.place_on(state, fraction(600), 0)
        assert devices is not None
        state.take(0, fraction(600), devices)
    assert placement.place_on(state, fraction(500), 0) is None
    reason = placement.why(state, fraction(500), {})
    assert reason.code is Code.INSUFFICIENT_GPU_SHARE
    assert reason.numbers == {"need_milli": 500, "best_milli": 400}


def test_memory_is_compared_per_device_never_as_an_average() -> None:
    state = state_of([naive.Node(inventory("a", devices=[24576, 81920]))])
    got = []
    for _ in range(2):
        devices = placement.place_on(state, memory(40000), 0)
        assert devices is not None
        got.append(devices[0].index)
        state.take(0, memory(40000), devices)
    assert got == [1, 1]
    reason = placement.why(state, memory(40000), {})
    assert reason.code is Code.INSUFFICIENT_GPU_MEMORY
    assert reason.numbers == {"need_mib": 40000, "most_free_mib": 24576}


def test_the_reserve_leaves_room_for_22_shares_of_2000_mib() -> None:
    state = state_of([naive.Node(inventory("a", devices=[44685], pods=50))])
    for _ in range(22):
        devices = placement.place_on(state, memory(2000), 0)
        assert devices is not None
        state.take(0, memory(2000), devices)
    reason = placement.why(state, memory(2000), {})
    assert (reason.code, reason.numbers) == (
        Code.INSUFFICIENT_GPU_MEMORY,
        {"need_mib": 2000, "most_free_mib": 685},
    )


def test_two_devices_on_a_node_with_one() -> None:
    reason = placement.why(state_of([naive.Node(inventory("a", devices=[100]))]), fraction(500, devices=2), {})
    assert reason.code is Code.NEED_DISTINCT_DEVICES
    assert reason.numbers == {"need": 2, "have": 1}


def test_unknown_memory_takes_fractions_and_no_amounts() -> None:
    state = state_of([naive.Node(inventory("a", devices=[0]))])
    devices = placement.place_on(state, fraction(500), 0)
    assert devices is not None
    assert (devices[0].milli, devices[0].memory_mib) == (500, 0)
    assert placement.why(state, memory(4096), {}).code is Code.UNKNOWN_CARD_MEMORY


def test_shares_leave_what_whole_pods_are_counted_for() -> None:
    """Devices of whole pods may be on rows that are no longer there; then the count alone protects them."""
    node = naive.Node(inventory("a", devices=[100, 100, 100]))
    node.held = [(whole(2), ())]
    state = state_of([node])
    devices = placement.place_on(state, fraction(500), 0)
    assert devices is not None
    state.take(0, fraction(500), devices)
    assert placement.place_on(state, fraction(600), 0) is None
    assert placement.place_on(state, fraction(500), 0) is not None
    assert placement.place_on(state, whole(1), 0) is None


@pytest.mark.parametrize("policy", [PlacementPolicy(), SPREAD])
def test_two_shares_open_no_more_devices_than_the_count_leaves(policy: PlacementPolicy) -> None:
    node = naive.Node(inventory("a", devices=[100, 100, 100]))
    node.held = [(whole(2), ())]
    assert placement.place_on(state_of([node], policy), fraction(300, devices=2), 0) is None
    reason = placement.why(state_of([node], policy), fraction(300, devices=2), {})
    assert reason.numbers == {"need_milli": 300, "best_milli": 0, "devices": 2}
    node = naive.Node(inventory("b", devices=[100, 100, 100]))
    node.held = [(fraction(600), (DeviceShare(1, 60, 600),)), (whole(1), ())]
    devices = placement.place_on(state_of([node], policy), fraction(300, devices=2), 0)
    assert [share.index for share in devices or ()] == [0, 1]
    reason = placement.why(state_of([node], policy), fraction(500, devices=2), {})
    assert reason.numbers == {"need_milli": 500, "best_milli": 400, "devices": 2}


def test_real_nodes_come_before_virtual_ones() -> None:
    nodes = [
        naive.Node(inventory("a", counted=8, virtual=True)),
        naive.Node(inventory("b", devices=[100])),
    ]
    for policy in (PlacementPolicy(), SPREAD):
        state = state_of(nodes, policy)
        assert placed(state, whole(1)) == ("b", [0])
        state.take(1, whole(1), placement.place_on(state, whole(1), 1) or ())
        assert placed(state, whole(1)) == ("a", [])
        assert placed(state, fraction(500)) is None


def test_pods_without_devices_leave_gpu_nodes_alone() -> None:
    nodes = [
        naive.Node(inventory("a", devices=[100], cpu_milli=2000)),
        naive.Node(inventory("b", cpu_milli=8000)),
        naive.Node(inventory("c", cpu_milli=4000)),
    ]
    assert placed(state_of(nodes), Request(1000, 0, 0)) == ("c", [])
    assert placed(state_of(nodes, SPREAD), Request(1000, 0, 0)) == ("b", [])


def test_whole_devices_go_where_fewest_are_free() -> None:
    nodes = [naive.Node(inventory("a", devices=[100] * 8)), naive.Node(inventory("b", devices=[100] * 4))]
    assert placed(state_of(nodes), whole(2)) == ("b", [0, 1])
    assert placed(state_of(nodes, SPREAD), whole(2)) == ("a", [0, 1])


def test_a_slot_without_a_node_holds_nothing() -> None:
    state = state_of([naive.Node(inventory("a")), naive.Node(inventory("b"))])
    state.remove_node("a")
    nothing = Request(0, 0, 0)
    assert placement.place_on(state, nothing, 0) is None
    assert placement.fits(state, nothing, everywhere(state)).tolist() == [False, True]
    assert placed(state, nothing) == ("b", [])
    assert placement.codes(state, whole(1), {}) == {1: Code.INSUFFICIENT_WHOLE_GPUS}


def test_scores_of_nothing() -> None:
    state = state_of([naive.Node(inventory("a"))])
    assert placement.scores(state, whole(1), []).tolist() == []
    assert placement.scores(state, whole(1), [0]).tolist() == [0]


def test_a_read_only_or_strange_mask_is_taken() -> None:
    state = state_of([naive.Node(inventory("a")), naive.Node(inventory("b"))])
    frozen = np.array([False, True])
    frozen.setflags(write=False)
    strided = np.array([False, False, True, False])[::2]
    longer = np.ones(9, np.bool_)
    request = Request(1, 0, 0)
    assert [placement.place(state, request, mask) for mask in (frozen, strided)] == [
        placement.place(state, request, np.array([False, True]))
    ] * 2
    assert placement.fits(state, request, longer).tolist() == [True, True]
    assert placement.fits(state, request, np.ones(1, np.bool_)).tolist() == [True, False]


# -- the reason that tells most ----------------------------------------------------------------------------------


def test_nodes_without_gpus_do_not_outvote_the_one_that_has_some() -> None:
    nodes = [naive.Node(inventory(f"cpu-{i}")) for i in range(5)]
    nodes.append(naive.Node(inventory("gpu", devices=[100], cpu_milli=50)))
    reason = placement.why(state_of(nodes), whole(1), {})
    assert reason.code is Code.INSUFFICIENT_CPU
    assert reason.numbers == {"need_milli": 100, "best_milli": 50}
    assert reason.nodes == {Code.INSUFFICIENT_CPU: 1, Code.INSUFFICIENT_WHOLE_GPUS: 5}


def test_a_rule_tells_more_than_nodes_that_have_no_gpus() -> None:
    nodes = [naive.Node(inventory(f"cpu-{i}")) for i in range(5)] + [naive.Node(inventory("gpu", devices=[100]))]
    reason = placement.why(state_of(nodes), fraction(500), {5: Code.UNTOLERATED_TAINT})
    assert reason.code is Code.UNTOLERATED_TAINT
    assert reason.numbers == {}


def test_room_tells_more_than_rules() -> None:
    nodes = [naive.Node(inventory(name, devices=[100])) for name in "abc"]
    nodes[0].held = [(whole(1), ())]
    reason = placement.why(state_of(nodes), whole(1), {1: Code.NODE_NOT_READY, 2: Code.NODE_NOT_READY})
    assert reason.code is Code.INSUFFICIENT_WHOLE_GPUS
    assert reason.numbers == {"resource": "nvidia.com/gpu", "need": 1, "free": 0}


def test_no_gpus_anywhere_and_no_nodes_at_all() -> None:
    assert placement.why(ClusterState(), whole(1), {}).code is Code.NO_NODES
    reason = placement.why(state_of([naive.Node(inventory("a"))]), memory(10), {})
    assert reason.code is Code.INSUFFICIENT_GPU_MEMORY


def test_nodes_that_were_not_offered_say_so() -> None:
    nodes = [naive.Node(inventory(name, devices=[100])) for name in "ab"]
    nodes[0].held = [(whole(1), ())]
    reason = placement.why(state_of(nodes), whole(1), {}, offered=[0])
    assert reason.nodes == {Code.INSUFFICIENT_WHOLE_GPUS: 1, Code.NOT_OFFERED: 1}


def test_the_resource_that_is_short_is_named() -> None:
    node = naive.Node(inventory("a", extended={"example.com/plugin": 1}))
    reason = placement.why(state_of([node]), Request(0, 0, 0, (("example.com/plugin", 2),)), {})
    assert reason.numbers == {"resource": "example.com/plugin", "need": 2, "free": 1}


@pytest.mark.parametrize(
    ("support", "code"),
    [
        (ShareSupport.NO_AGENT, Code.SHARES_NOT_SUPPORTED),
        (ShareSupport.YES, Code.INSUFFICIENT_GPU_SHARE),
    ],
)
def test_where_nothing_honours_shares(support: ShareSupport, code: Code) -> None:
    node = naive.Node(inventory("a", devices=[100], shares=support))
    node.held = [(whole(1), ())]
    assert placement.why(state_of([node]), fraction(500), {}).code is code
