"""Waiting in line: the grouped line places exactly as one search after another would, at a fraction of the searches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.growth import Growth
from scheduler.instruction import Release, Tell
from scheduler.line import Mark
from scheduler.pod import PodAffinityTerm, PodFacts
from tests.engine.world import World, engine, node, pod, share
from topology.node import NodeFacts
from topology.selector import Requirement

KINDS = st.one_of(
    st.builds(lambda n: {"whole": n}, st.integers(1, 4)),
    st.builds(lambda f: {"annotations": {"gpu-fraction": f"0.{f}"}}, st.integers(1, 9)),
    st.builds(lambda c: {"cpu_milli": c}, st.sampled_from([500, 4000, 9000])),
    st.just({"whole": 1, "pod_anti_affinity": (PodAffinityTerm("kubernetes.io/hostname", (), ("default",)),)}),
)
NODES = (node("n1", gpus=2, cpu_milli=9000), node("n2", gpus=4, cpu_milli=9000), node("n3", gpus=1, cpu_milli=4000))


def waiting(kinds: list[tuple[dict[str, object], int]]) -> list[PodFacts]:
    return [
        pod(f"p{at:02}", created_ms=at, priority=priority, **kind)  # type: ignore[arg-type]
        for at, (kind, priority) in enumerate(kinds)
    ]


@given(kinds=st.lists(st.tuples(KINDS, st.integers(0, 2)), max_size=14), ends=st.lists(st.integers(0, 13), max_size=5))
@settings(max_examples=150, deadline=None)
def test_the_same_places_as_one_search_after_another(
    kinds: list[tuple[dict[str, object], int]], ends: list[int]
) -> None:
    """After every end of a pod, too, when only nodes that gained room are looked at."""
    world, naive = World(engine()), World(engine())
    for each in (world, naive):
        each.add_nodes(*NODES)
    pods = waiting(kinds)
    world.create(*pods)
    naive.create(*pods)
    for end in [None, *ends]:
        if end is not None:
            world.delete(f"uid-p{end:02}")
            naive.delete(f"uid-p{end:02}")
        world.now_ms = naive.now_ms = world.now_ms + 1000  # pods like no other have to wait between searches
        world.plan()
        for record in naive.engine.roster.waiting.values():
            record.tried_epoch = -1
        for group in naive.engine.roster.line.groups:
            group.block, group.room = None, None
            group.mark = Mark()
        naive.engine.roster.line._rooms.clear()
        naive.plan()
        held = {uid: entry.allocation for uid, entry in world.engine.cluster.ledger.entries.items()}
        assert held == {uid: entry.allocation for uid, entry in naive.engine.cluster.ledger.entries.items()}
        world.engine.validate()


@pytest.fixture
def world() -> World:
    return World(engine())


def searches(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on the names of pods for which the whole cluster is searched."""
    done: list[str] = []
    place = world.engine.cluster.place

    def counted(facts: PodFacts, *rest: object) -> object:
        done.append(facts.name)
        return place(facts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(world.engine.cluster, "place", counted)
    return done


def test_copies_of_one_pod_cost_one_search(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(*(pod(f"p{i:03}", whole=1, created_ms=i) for i in range(300)))
    done = searches(world, monkeypatch)
    world.plan()
    assert done == ["p000", "p001"]
    world.create(*(pod(f"q{i:03}", whole=1, created_ms=300 + i) for i in range(300)))
    world.plan()
    assert done == ["p000", "p001"]


def test_what_grew_elsewhere_brings_no_search(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add_nodes(node("n1", gpus=1), node("n2", gpus=0, cpu_milli=2000))
    world.create(pod("gpu", whole=1), pod("wants-gpu", whole=1, created_ms=1), pod("cpu", cpu_milli=2000))
    world.schedule_all()
    done = searches(world, monkeypatch)
    world.delete("uid-cpu")
    world.plan()
    assert done == []
    world.delete("uid-gpu")
    world.plan()
    assert done == ["wants-gpu"]


def grown(facts: NodeFacts, gpus: int) -> NodeFacts:
    return node(facts.name, gpus=gpus)


def test_a_node_that_grows_and_a_node_that_comes_are_looked_at(world: World) -> None:
    small = node("n1", gpus=1)
    world.add_nodes(small)
    world.create(pod("two", whole=2), pod("four", whole=4))
    assert world.plan() == []
    world.add_nodes(grown(small, 2))
    assert [said.uid for said in world.plan() if isinstance(said, Release)] == ["uid-two"]
    world.add_nodes(node("n2", gpus=4))
    assert [said.uid for said in world.plan() if isinstance(said, Release)] == ["uid-four"]


def test_a_place_left_behind_by_a_pod_that_is_elsewhere_after_all(world: World) -> None:
    """Booked on n1, bound by somebody to n2: n1 is free for those who wait."""
    world.add_nodes(node("n1", gpus=1), node("n2", gpus=1))
    world.create(pod("a", whole=1), pod("b", whole=1, created_ms=1), pod("c", whole=1, created_ms=2))
    world.plan()
    booked = {uid: entry.node for uid, entry in world.engine.cluster.ledger.entries.items()}
    assert len(booked) == 2
    other = "n2" if booked["uid-a"] == "n1" else "n1"
    world.delete("uid-b")
    world.create(pod("a", whole=1, node_name=other))
    world.plan()
    assert "uid-c" in world.engine.cluster.ledger.entries


def test_required_affinity_is_met_by_a_pod_that_comes(world: World) -> None:
    with_db = PodAffinityTerm("kubernetes.io/hostname", (Requirement("app", "In", ("db",)),), ("default",))
    world.add_nodes(node("n1", gpus=0), node("n2", gpus=0))
    world.create(pod("web", pod_affinity=(with_db,)))
    assert world.plan() == []
    world.create(pod("db", labels={"app": "db"}, scheduler="other", node_name="n2"))
    world.plan()
    assert world.engine.cluster.ledger.entries["uid-web"].node == "n2"


def test_a_round_ends_in_time_and_the_next_goes_on_where_it_stopped(world: World) -> None:
    """A thousand forms that fit nowhere, and behind them one that does."""
    world.add_nodes(node("n1", gpus=1, cpu_milli=500_000))
    world.create(*(pod(f"p{i:04}", whole=2, cpu_milli=1000 + i, created_ms=i) for i in range(1000)))
    world.create(pod("fits", whole=1, created_ms=5000))
    rounds = 0
    more = True
    while more:
        _, more = world.engine.plan(world.now_ms)
        rounds += 1
    assert 2 < rounds < 40
    assert "uid-fits" in world.engine.cluster.ledger.entries


def test_priority_and_age_decide_among_all_forms(world: World) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.create(
        pod("young", whole=1, created_ms=3),
        share("old", "0.9", created_ms=1),
        pod("important", whole=1, priority=10, created_ms=9),
    )
    released = [said.uid for said in world.plan() if isinstance(said, Release)]
    assert released == ["uid-important", "uid-old"]


def test_a_pod_that_changes_while_it_waits_keeps_the_line_in_order(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("a", whole=1), pod("b", whole=2, created_ms=1), pod("c", whole=2, created_ms=2))
    world.plan()
    world.create(pod("c", whole=2, created_ms=2, priority=5), pod("b", cpu_milli=10, created_ms=1))
    world.engine.validate()
    world.plan()
    assert "uid-b" in world.engine.cluster.ledger.entries
    world.engine.validate()


# -- telling -------------------------------------------------------------------------------------------------------


def test_all_copies_are_told_and_nobody_twice(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(*(pod(f"p{i:03}", whole=2, created_ms=i) for i in range(120)))
    told: list[str] = []
    for _ in range(200):
        told += [said.uid for said in world.plan() if isinstance(said, Tell)]
        world.now_ms += 250
    assert sorted(told) == [f"uid-p{i:03}" for i in range(120)]


def test_messages_of_one_tick_are_bounded(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(*(pod(f"p{i:03}", whole=2, created_ms=i) for i in range(120)))
    world.plan()
    world.now_ms += 2000
    assert len([said for said in world.plan() if isinstance(said, Tell)]) == 100
    assert world.plan() == []


def test_one_whose_turn_has_not_come_is_told_nothing() -> None:
    """kube-scheduler has as many of ours as it may have: that is no reason of the cluster's."""
    world = World(engine(max_in_flight=1))
    world.add_nodes(node("n1", gpus=4))
    world.create(pod("a", whole=1), pod("b", whole=1, created_ms=1))
    world.plan()
    world.now_ms += 5000
    assert world.plan() == []


def test_a_reason_that_changes_is_told_again(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("p", whole=2))
    world.plan()
    world.now_ms += 2000
    (first,) = world.plan()
    world.add_nodes(node("n1", gpus=1, unschedulable=True))
    world.now_ms += 20_000
    (second,) = world.plan()
    assert isinstance(first, Tell)
    assert isinstance(second, Tell)
    assert first.reason.code != second.reason.code


def test_idle_rounds_are_rare_however_many_wait(world: World) -> None:
    """With thousands waiting and nothing happening, the next round is never due at once."""
    world.add_nodes(node("n1", gpus=1))
    world.create(*(pod(f"p{i:04}", whole=2, created_ms=i) for i in range(3000)))
    for _ in range(100):
        world.plan()
        due = world.engine.next_deadline_ms(world.now_ms)
        assert due is not None
        assert due > world.now_ms
        world.now_ms = due


# -- growth --------------------------------------------------------------------------------------------------------


def test_growth_is_remembered_by_place() -> None:
    growth = Growth(remembered=3)
    start = growth.now
    assert growth.since(start) == frozenset()
    growth.at(4)
    growth.at(7)
    assert growth.since(start) == frozenset({4, 7})
    assert growth.since(start + 1) == frozenset({7})
    growth.anywhere()
    assert growth.since(start + 1) is None
    assert growth.since(growth.now) == frozenset()
    growth.at(1)
    assert growth.since(start) is None, "too long ago"
    assert growth.since(start + 3) == frozenset({1})
