"""In which domain each node is, and what a wish means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.gang_spec import Nearness
from scheduler.landscape import OUTSIDE, Landscape, Near
from tests.gangs.hall import BLOCK, HOST, NETWORK, RACK, near
from topology.domains import PRESETS
from topology.topology import Topology

ZONES = Topology("zones", ("topology.kubernetes.io/zone", HOST), {"zone": "topology.kubernetes.io/zone"})


def landscape(*labels: dict[str, str], topologies: tuple[Topology, ...] = (NETWORK,)) -> Landscape:
    """Nodes n0, n1, … with these labels."""
    found = Landscape()
    found.set_topologies(topologies)
    for slot, one in enumerate(labels):
        found.set_node(slot, f"n{slot}", one)
    return found


def ids(found: Landscape, level: int, count: int, topology: Topology = NETWORK) -> list[int]:
    return [int(number) for number in found.layer(topology, level).ids[:count]]


# -- domains -----------------------------------------------------------------------------------------------------


def test_the_same_rack_in_two_blocks_is_two_racks() -> None:
    found = landscape({BLOCK: "a", RACK: "1"}, {BLOCK: "b", RACK: "1"}, {BLOCK: "a", RACK: "1"})
    one, two, three = ids(found, 1, 3)
    assert one == three != two
    assert found.layer(NETWORK, 1).paths[two] == ("b", "1")
    assert found.path(NETWORK, 1, 0) == ("a", "1")


@pytest.mark.parametrize("value", [None, "", "  ", "none", "not-available"])
def test_nodes_that_say_nothing_are_no_neighbours(value: str | None) -> None:
    labels = {BLOCK: "a"} if value is None else {BLOCK: "a", RACK: value}
    found = landscape(labels, labels)
    blocks, racks = ids(found, 0, 2), ids(found, 1, 2)
    assert blocks[0] == blocks[1]
    assert racks[0] != racks[1]
    assert found.path(NETWORK, 1, 0) == ("a", ""), "what is made up is not told"


def test_the_host_is_the_nodes_name_where_it_says_nothing() -> None:
    found = landscape({HOST: "other"}, {})
    assert found.path(NETWORK, 2, 0)[-1] == "other"
    assert found.path(NETWORK, 2, 1)[-1] == "n1"


def test_labels_that_change_move_the_node() -> None:
    found = landscape({BLOCK: "a", RACK: "1"}, {BLOCK: "a", RACK: "1"})
    assert len(set(ids(found, 1, 2))) == 1
    found.set_node(1, "n1", {BLOCK: "a", RACK: "2"})
    assert len(set(ids(found, 1, 2))) == 2
    found.set_node(1, "n1", {BLOCK: "a", RACK: "1"})
    assert len(set(ids(found, 1, 2))) == 1


def test_a_slot_is_used_again_by_another_node() -> None:
    found = landscape({}, {})
    before = ids(found, 1, 2)
    found.clear_node(0)
    assert ids(found, 1, 2) == [OUTSIDE, before[1]]
    found.set_node(0, "new", {})
    assert ids(found, 1, 2)[0] not in (*before, OUTSIDE), "it is not the one that went"


def test_layers_grow_with_the_slots() -> None:
    found = landscape({RACK: "1"})
    assert found.layer(NETWORK, 1).ids.size >= 1
    for slot in range(1, 40):
        found.set_node(slot, f"n{slot}", {BLOCK: "a", RACK: str(slot % 3)})
    assert len(set(ids(found, 1, 40))) == 4
    assert set(found.layer(NETWORK, 1).ids[40:].tolist()) <= {OUTSIDE}


def test_topologies_that_change_are_looked_at_anew() -> None:
    found = landscape({RACK: "1"}, {RACK: "1"})
    version = found.version
    assert isinstance(found.find(near(RACK)), Near)
    found.set_topologies([ZONES])
    assert found.version > version
    assert found.topologies == [ZONES]


LABELS = st.dictionaries(st.sampled_from([BLOCK, RACK]), st.sampled_from(["", "1", "2", "none"]), max_size=2)


class Nodes(RuleBasedStateMachine):
    """Nodes that come, change and go, looked at in between: as if all had come now."""

    def __init__(self) -> None:
        super().__init__()
        self.found = landscape()
        self.nodes: dict[int, tuple[str, dict[str, str]]] = {}

    @rule(slot=st.integers(0, 5), name=st.sampled_from("xyz"), labels=LABELS)
    def set(self, slot: int, name: str, labels: dict[str, str]) -> None:
        self.nodes[slot] = (f"{name}{slot}", labels)
        self.found.set_node(slot, f"{name}{slot}", labels)

    @rule(slot=st.integers(0, 5))
    def clear(self, slot: int) -> None:
        if self.nodes.pop(slot, None) is not None:
            self.found.clear_node(slot)

    @invariant()
    def as_labels_say(self) -> None:
        for level in range(3):
            layer = self.found.layer(NETWORK, level)
            seen: dict[int, tuple[str, ...]] = {}
            for slot, (name, labels) in self.nodes.items():
                values = tuple(
                    value if (value := labels.get(key, "")) not in ("", "none") else f"only {name}"
                    for key in (BLOCK, RACK)
                )
                domain = (*values, name)[: level + 1]
                assert seen.setdefault(int(layer.ids[slot]), domain) == domain
            assert len(seen) == len(set(seen.values()))
            assert all(number == OUTSIDE for slot, number in enumerate(layer.ids.tolist()) if slot not in self.nodes)


TestNodes = Nodes.TestCase
TestNodes.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


# -- wishes ------------------------------------------------------------------------------------------------------


def test_levels_by_label_and_by_alias() -> None:
    found = landscape(topologies=(NETWORK, ZONES))
    assert found.find(near(BLOCK, RACK)) == Near(NETWORK, 0, 1)
    assert found.find(near("", "rack")) == Near(NETWORK, None, 1)
    assert found.find(near("zone")) == Near(ZONES, 0, None)
    assert found.find(near(HOST, HOST)) == Near(NETWORK, 2, 2)


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        (Nearness(RACK, topology="lost"), "topology lost does not exist"),
        (Nearness("row", topology="network"), "topology network has no level row"),
        (Nearness(RACK, BLOCK), f"the preferred level {BLOCK} is broader than the required level {RACK}"),
        (Nearness("no label!"), "no topology has the levels no label!"),
        (Nearness(HOST, RACK, topology="zones"), f"topology zones has no level {RACK}"),
    ],
)
def test_what_cannot_be_understood_is_said(wish: Nearness, problem: str) -> None:
    assert landscape(topologies=(NETWORK, ZONES)).find(wish) == problem


def test_the_usual_topology_comes_first_where_it_has_the_levels() -> None:
    other = Topology("another", (RACK, HOST))
    found = landscape(topologies=(NETWORK, other, ZONES))
    assert found.find(near(RACK)) == Near(other, 0, None), "the first by name"
    assert found.find(near(RACK), usual="network") == Near(NETWORK, 1, None)
    assert found.find(near("zone"), usual="network") == Near(ZONES, 0, None)
    assert found.find(near(RACK), usual="lost") == Near(other, 0, None)
    assert found.find(Nearness(RACK, topology="another"), usual="network") == Near(other, 0, None)


def test_labels_that_no_topology_has_are_levels_of_their_own() -> None:
    found = landscape({"row": "1"}, {"row": "1"}, {"row": "2"}, topologies=())
    wish = found.find(near("row", HOST))
    assert isinstance(wish, Near)
    assert (wish.topology.levels, wish.required, wish.preferred) == (("row", HOST), 0, 1)
    one, two, three = ids(found, 0, 3, wish.topology)
    assert one == two != three


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_levels_of_the_settings(preset: str) -> None:
    """Those of a cluster without Topology objects; objects come before them."""
    keys = PRESETS[preset]
    found = Landscape((preset,))
    wish = found.find(near(keys[0], HOST))
    assert isinstance(wish, Near)
    assert (wish.topology.name, wish.required, wish.preferred) == ("", 0, len(keys) - 1)
    own = Topology("own", (keys[0], HOST))
    found.set_topologies([own])
    wish = found.find(near(keys[0]))
    assert isinstance(wish, Near)
    assert wish.topology == own


@given(st.lists(LABELS, min_size=1, max_size=6))
def test_when_a_layer_was_asked_for_makes_no_difference(labels: list[dict[str, str]]) -> None:
    early = landscape()
    early.layer(NETWORK, 0)
    for slot, one in enumerate(labels):
        early.set_node(slot, f"n{slot}", one)
    late = landscape(*labels)
    for level in range(3):
        assert ids(early, level, len(labels)) == ids(late, level, len(labels))
