"""Host ports and pod affinity: the rules one by one, and any history against the naive reference."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import neighbours as subject
from scheduler.neighbours import Neighbours
from scheduler.pod import Container, HostPort, PodAffinityTerm, PodFacts
from scheduler.reason import Code
from scheduler.tally import Tallies
from tests.constraints.naive_neighbours import NaiveNeighbours
from topology.selector import Requirement

HOST = "kubernetes.io/hostname"
ZONE = "zone"


def pod(uid: str, labels: Mapping[str, str] | None = None, namespace: str = "a", **facts: Any) -> PodFacts:
    return PodFacts(uid=uid, namespace=namespace, name=uid, labels=labels or {}, **facts)


def app(name: str) -> tuple[Requirement, ...]:
    return (Requirement("app", "In", (name,)),)


def term(
    key: str,
    selector: tuple[Requirement, ...] | None,
    namespaces: tuple[str, ...] = ("a",),
    namespace_selector: tuple[Requirement, ...] | None = None,
) -> PodAffinityTerm:
    return PodAffinityTerm(key, selector, namespaces, namespace_selector)


def with_ports(uid: str, *ports: HostPort, **facts: Any) -> PodFacts:
    return pod(uid, containers=(Container("c", host_ports=ports),), **facts)


@pytest.fixture
def cluster() -> Neighbours:
    """Slots 0 and 1 in zone x, 2 in zone y, 3 without labels."""
    known = Neighbours()
    known.set_node(0, {HOST: "n0", ZONE: "x"})
    known.set_node(1, {HOST: "n1", ZONE: "x"})
    known.set_node(2, {HOST: "n2", ZONE: "y"})
    known.set_node(3, {})
    return known


# -- host ports ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "asked", "collides"),
    [
        (HostPort("TCP", "", 80), HostPort("TCP", "", 80), True),
        (HostPort("TCP", "", 80), HostPort("TCP", "", 81), False),
        (HostPort("TCP", "", 80), HostPort("UDP", "", 80), False),
        (HostPort("", "", 80), HostPort("TCP", "0.0.0.0", 80), True),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.2", 80), False),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.1", 80), True),
        (HostPort("TCP", "0.0.0.0", 80), HostPort("TCP", "10.0.0.2", 80), True),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "", 80), True),
        (HostPort("TCP", "", 0), HostPort("TCP", "", 0), False),
    ],
)
def test_host_ports(cluster: Neighbours, taken: HostPort, asked: HostPort, collides: bool) -> None:
    cluster.add(with_ports("u", taken), 1)
    expected = {1: Code.HOST_PORT_TAKEN} if collides else {}
    assert cluster.refusals(with_ports("v", asked)) == expected
    cluster.remove("u")
    assert cluster.refusals(with_ports("v", asked)) == {}


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not(cluster: Neighbours) -> None:
    port = (HostPort("TCP", "", 80),)
    cluster.add(pod("side", init_containers=(Container("s", restartable=True, host_ports=port),)), 0)
    cluster.add(pod("init", init_containers=(Container("i", host_ports=port),)), 1)
    assert cluster.refusals(with_ports("v", *port)) == {0: Code.HOST_PORT_TAKEN}


def test_two_pods_with_one_port_release_it_one_by_one(cluster: Neighbours) -> None:
    """Kubelet may have let two in; the port is free when the last has gone."""
    port = HostPort("TCP", "", 80)
    cluster.add(with_ports("u", port), 0)
    cluster.add(with_ports("w", port), 0)
    cluster.remove("u")
    assert cluster.refusals(with_ports("v", port)) == {0: Code.HOST_PORT_TAKEN}
    cluster.remove("w")
    assert cluster.refusals(with_ports("v", port)) == {}


# -- affinity ------------------------------------------------------------------------------------------------------


def test_affinity_wants_a_friend_in_the_domain(cluster: Neighbours) -> None:
    cluster.add(pod("u", {"app": "db"}), 0)
    zone = pod("v", pod_affinity=(term(ZONE, app("db")),))
    host = pod("v", pod_affinity=(term(HOST, app("db")),))
    assert set(cluster.refusals(zone)) == {2, 3}
    assert cluster.refusals(host) == dict.fromkeys((1, 2, 3), Code.POD_AFFINITY)


def test_one_friend_must_match_all_terms(cluster: Neighbours) -> None:
    both = pod("v", pod_affinity=(term(ZONE, app("db")), term(ZONE, (Requirement("tier", "In", ("1",)),))))
    cluster.add(pod("u", {"app": "db"}), 0)
    cluster.add(pod("w", {"tier": "1"}), 0)
    assert set(cluster.refusals(both)) == {0, 1, 2, 3}
    cluster.add(pod("x", {"app": "db", "tier": "1"}), 2)
    assert set(cluster.refusals(both)) == {0, 1, 3}


def test_the_domains_of_several_terms_are_all_needed(cluster: Neighbours) -> None:
    cluster.add(pod("u", {"app": "db"}), 1)
    facts = pod("v", pod_affinity=(term(ZONE, app("db")), term(HOST, app("db"))))
    assert set(cluster.refusals(facts)) == {0, 2, 3}


def test_the_first_pod_of_a_group_goes_wherever_there_are_domains(cluster: Neighbours) -> None:
    facts = pod("v", {"app": "web"}, pod_affinity=(term(ZONE, app("web")),))
    assert cluster.refusals(facts) == {3: Code.POD_AFFINITY}
    cluster.add(facts, 2)
    assert cluster.refusals(facts) == {3: Code.POD_AFFINITY}, "it is not its own friend"
    second = pod("w", {"app": "web"}, pod_affinity=(term(ZONE, app("web")),))
    assert set(cluster.refusals(second)) == {0, 1, 3}


def test_no_first_pod_for_those_that_do_not_match_themselves(cluster: Neighbours) -> None:
    facts = pod("v", {"app": "web"}, pod_affinity=(term(ZONE, app("db")),))
    assert set(cluster.refusals(facts)) == {0, 1, 2, 3}


def test_a_friend_on_a_node_without_the_domain_is_none(cluster: Neighbours) -> None:
    cluster.add(pod("u", {"app": "web"}), 3)
    facts = pod("v", {"app": "web"}, pod_affinity=(term(ZONE, app("web")),))
    assert cluster.refusals(facts) == {3: Code.POD_AFFINITY}


def test_no_first_pod_where_a_friend_has_one_of_the_domains(cluster: Neighbours) -> None:
    cluster.set_node(3, {HOST: "n3"})
    cluster.add(pod("u", {"app": "web"}), 3)
    facts = pod("v", {"app": "web"}, pod_affinity=(term(ZONE, app("web")), term(HOST, app("web"))))
    assert set(cluster.refusals(facts)) == {0, 1, 2, 3}


# -- anti-affinity -------------------------------------------------------------------------------------------------


def test_anti_affinity_closes_the_domain(cluster: Neighbours) -> None:
    cluster.add(pod("u", {"app": "web"}), 0)
    assert cluster.refusals(pod("v", pod_anti_affinity=(term(ZONE, app("web")),))) == dict.fromkeys(
        (0, 1), Code.POD_ANTI_AFFINITY
    )
    assert set(cluster.refusals(pod("v", pod_anti_affinity=(term(HOST, app("web")),)))) == {0}
    assert cluster.refusals(pod("v", pod_anti_affinity=(term("rack", app("web")),))) == {}


def test_existing_pods_repel_newcomers_without_terms(cluster: Neighbours) -> None:
    cluster.add(pod("u", {"app": "db"}, pod_anti_affinity=(term(ZONE, app("web")),)), 0)
    assert set(cluster.refusals(pod("v", {"app": "web"}))) == {0, 1}
    assert cluster.refusals(pod("v", {"app": "other"})) == {}
    assert cluster.refusals(pod("v", {"app": "web"}, namespace="b")) == {}
    cluster.remove("u")
    assert cluster.refusals(pod("v", {"app": "web"})) == {}


def test_a_pod_that_repels_its_own_kind_may_stay_where_it_is_booked(cluster: Neighbours) -> None:
    spread = (term(HOST, app("web")),)
    one, two = (pod(uid, {"app": "web"}, pod_anti_affinity=spread) for uid in ("u", "v"))
    cluster.add(one, 0)
    assert cluster.refusals(one) == {}
    assert cluster.refusals(two) == {0: Code.POD_ANTI_AFFINITY}
    cluster.add(one, 2)
    assert cluster.refusals(two) == {2: Code.POD_ANTI_AFFINITY}


def test_selectors_none_and_empty(cluster: Neighbours) -> None:
    cluster.add(pod("u"), 0)
    assert cluster.refusals(pod("v", pod_anti_affinity=(term(HOST, None),))) == {}
    assert set(cluster.refusals(pod("v", pod_anti_affinity=(term(HOST, ()),)))) == {0}


# -- namespaces ----------------------------------------------------------------------------------------------------


def test_namespace_selectors_follow_the_namespaces_labels(cluster: Neighbours) -> None:
    prod = (Requirement("env", "In", ("prod",)),)
    facts = pod("v", pod_anti_affinity=(term(HOST, app("web"), (), prod),))
    cluster.add(pod("u", {"app": "web"}, namespace="b"), 0)
    assert cluster.refusals(facts) == {}
    cluster.set_namespace("b", {"env": "prod"})
    assert set(cluster.refusals(facts)) == {0}
    cluster.remove("u")
    cluster.add(pod("u", {"app": "web"}, namespace="b"), 1)
    assert set(cluster.refusals(facts)) == {1}
    cluster.set_namespace("b", None)
    assert cluster.refusals(facts) == {}


def test_an_empty_namespace_selector_means_every_namespace(cluster: Neighbours) -> None:
    cluster.add(pod("u", {"app": "web"}, namespace="b"), 0)
    assert set(cluster.refusals(pod("v", pod_anti_affinity=(term(HOST, app("web"), (), ()),)))) == {0}


def test_a_namespace_is_known_by_its_name_label_before_it_is_seen(cluster: Neighbours) -> None:
    named = (Requirement("kubernetes.io/metadata.name", "In", ("b",)),)
    cluster.add(pod("u", {"app": "web"}, namespace="b"), 0)
    assert set(cluster.refusals(pod("v", pod_anti_affinity=(term(HOST, app("web"), (), named),)))) == {0}


def test_the_name_label_is_there_even_where_a_file_leaves_it_out(cluster: Neighbours) -> None:
    named = (Requirement("kubernetes.io/metadata.name", "In", ("b",)),)
    cluster.add(pod("u", {"app": "web"}, namespace="b"), 0)
    cluster.set_namespace("b", {"env": "prod"})
    assert set(cluster.refusals(pod("v", pod_anti_affinity=(term(HOST, app("web"), (), named),)))) == {0}


# -- nodes ---------------------------------------------------------------------------------------------------------


def test_new_labels_of_a_node_move_its_pods_to_another_domain(cluster: Neighbours) -> None:
    cluster.add(pod("u", {"app": "web"}), 0)
    facts = pod("v", pod_anti_affinity=(term(ZONE, app("web")),))
    assert set(cluster.refusals(facts)) == {0, 1}
    cluster.set_node(0, {ZONE: "y"})
    assert set(cluster.refusals(facts)) == {0, 2}


def test_a_cleared_slot_is_another_nodes_next(cluster: Neighbours) -> None:
    cluster.add(with_ports("u", HostPort("TCP", "", 80), labels={"app": "web"}), 0)
    cluster.clear_node(0)
    cluster.set_node(0, {HOST: "new", ZONE: "x"})
    facts = with_ports("v", HostPort("TCP", "", 80), pod_anti_affinity=(term(ZONE, app("web")),))
    assert cluster.refusals(facts) == {}


def test_pods_may_come_before_their_node() -> None:
    known = Neighbours()
    known.add(with_ports("u", HostPort("TCP", "", 80)), 5)
    assert known.refusals(with_ports("v", HostPort("TCP", "", 80))) == {}
    known.set_node(5, {})
    assert known.refusals(with_ports("v", HostPort("TCP", "", 80))) == {5: Code.HOST_PORT_TAKEN}


# -- what matters --------------------------------------------------------------------------------------------------


def test_the_plain_pod_is_of_no_concern(cluster: Neighbours) -> None:
    cluster.add(with_ports("u", HostPort("TCP", "", 80)), 0)
    plain = pod("v", {"app": "web"}, containers=(Container("c"),))
    assert not cluster.matters(plain)
    cluster.add(pod("w", pod_anti_affinity=(term(HOST, app("db")),)), 0)
    assert not cluster.matters(plain)
    cluster.add(pod("x", pod_anti_affinity=(term(HOST, (Requirement("app", "Exists"),)),)), 0)
    assert cluster.matters(plain)
    cluster.remove("x")
    assert not cluster.matters(plain)
    assert cluster.matters(with_ports("v", HostPort("TCP", "", 81)))


# -- any history ---------------------------------------------------------------------------------------------------

SELECTORS: tuple[tuple[Requirement, ...] | None, ...] = (
    None,
    (),
    app("x"),
    app("y"),
    (Requirement("app", "NotIn", ("x",)),),
    (Requirement("tier", "Exists"),),
    (Requirement("tier", "DoesNotExist"), Requirement("app", "In", ("x",))),
    (Requirement("app", "In", ("x", "y")),),
)
NAMESPACE_SELECTORS: tuple[tuple[Requirement, ...] | None, ...] = (
    None,
    None,
    (),
    (Requirement("env", "In", ("prod",)),),
    (Requirement("env", "DoesNotExist"),),
)
LABELS: tuple[dict[str, str], ...] = ({"app": "x"}, {"app": "y"}, {"app": "x", "tier": "1"}, {"tier": "1"}, {})


def any_pods(count: int) -> list[PodFacts]:
    """Pods of every kind, the same in every run: histories are drawn from them, so that failures shrink quickly."""
    dice = Random(3)

    def any_term() -> PodAffinityTerm:
        namespaces = dice.choice([(), ("a",), ("a", "b")])
        return term(dice.choice([HOST, ZONE]), dice.choice(SELECTORS), namespaces, dice.choice(NAMESPACE_SELECTORS))

    def any_container() -> Container:
        port = HostPort(
            dice.choice(["TCP", "UDP", ""]), dice.choice(["", "10.0.0.1", "10.0.0.2"]), dice.choice([0, 80])
        )
        return Container("c", restartable=dice.random() < 0.5, host_ports=(port,) * dice.choice([0, 1]))

    return [
        PodFacts(
            uid=f"u{dice.randrange(6)}",
            namespace=dice.choice("ab"),
            name="p",
            labels=dice.choice(LABELS),
            containers=(any_container(),),
            init_containers=tuple(any_container() for _ in range(dice.choice([0, 0, 1]))),
            pod_affinity=tuple(any_term() for _ in range(dice.choice([0, 0, 1, 2]))),
            pod_anti_affinity=tuple(any_term() for _ in range(dice.choice([0, 0, 1, 2]))),
        )
        for _ in range(count)
    ]


PODS = st.sampled_from(any_pods(120))
SLOTS = st.integers(0, 4)
NODE_LABELS = st.sampled_from([{HOST: "n0", ZONE: "x"}, {HOST: "n1", ZONE: "y"}, {HOST: "n2"}, {ZONE: "x"}, {}])
NAMESPACE_LABELS = st.none() | st.sampled_from([{}, {"env": "prod"}, {"env": "test"}])
STEPS = st.one_of(
    st.tuples(st.just("add"), PODS, SLOTS),
    st.tuples(st.just("add"), PODS, SLOTS),
    st.tuples(st.just("set_node"), SLOTS, NODE_LABELS),
    st.tuples(st.just("remove"), st.sampled_from([f"u{number}" for number in range(6)])),
    st.tuples(st.just("clear_node"), SLOTS),
    st.tuples(st.just("set_namespace"), st.sampled_from(["a", "b"]), NAMESPACE_LABELS),
)


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(STEPS, min_size=15, max_size=30),
    probes=st.lists(PODS, min_size=4, max_size=4),
    remembered=st.sampled_from([1, 3, 256]),
)
def test_equals_the_naive_reference_after_any_history(
    steps: list[tuple[Any, ...]], probes: list[PodFacts], remembered: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "Tallies", lambda namespaces: Tallies(namespaces, remembered))
        known, naive = Neighbours(), NaiveNeighbours()
    for slot in range(3):
        for each in (known, naive):
            each.set_node(slot, {HOST: f"n{slot}", ZONE: "x" if slot < 2 else "y"})
    for name, *arguments in steps:
        for each in (known, naive):
            getattr(each, name)(*arguments)
        for probe in probes:
            refused = known.refusals(probe)
            assert refused == naive.refusals(probe)
            assert known.matters(probe) or not refused
