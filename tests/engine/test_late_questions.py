"""kube-scheduler's view and ours differ for a moment: questions about pods that went, and about pods not seen yet.

Also what a replica says when it takes over from another.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.instruction import BindOrder, BindRefusal, Release, Tell, Warn
from scheduler.reason import Code
from tests.engine.world import World, engine, node, pod, share


@pytest.fixture
def world() -> World:
    world = World(engine(booking_deadline_ms=10_000))
    world.add_nodes(node("n1", gpus=1))
    return world


def test_a_late_question_does_not_bring_a_deleted_pod_back(world: World) -> None:
    world.create(pod("a", whole=1, gated=False))
    facts = world.pods["uid-a"]
    world.delete("uid-a")
    verdict = world.engine.filter(facts, ["n1"], world.now_ms)
    assert verdict.error == "the pod is deleted"
    assert not world.engine.roster.records
    assert not world.engine.cluster.ledger.entries
    world.create(pod("b", whole=1))
    assert [said.uid for said in world.plan() if isinstance(said, Release)] == ["uid-b"]


def test_a_pod_that_no_watch_shows_is_forgotten(world: World) -> None:
    """It was deleted before Tangram started, and kube-scheduler did not know that yet."""
    ghost = pod("ghost", whole=1, gated=False)
    assert list(world.engine.filter(ghost, ["n1"], world.now_ms).nodes) == ["n1"]
    assert world.engine.next_deadline_ms(world.now_ms) is not None
    world.now_ms += 10_001
    world.create(pod("b", whole=1))
    assert [said.uid for said in world.plan() if isinstance(said, Release)] == ["uid-b"]
    assert set(world.engine.roster.records) == {"uid-b"}


def test_a_watch_that_lags_for_long_makes_nobody_deleted(world: World) -> None:
    slow = pod("slow", whole=1, gated=False)
    world.engine.filter(slow, ["n1"], world.now_ms)
    world.now_ms += 20_000
    world.plan()
    assert list(world.engine.filter(slow, ["n1"], world.now_ms).nodes) == ["n1"]
    stranger = pod("s", gated=False, scheduler="other")
    for _ in range(3):
        world.engine.meet(stranger, world.now_ms)
        world.now_ms += 8000
        world.plan()
        assert world.engine.foreign == {"uid-s"}


def test_a_pod_that_no_watch_shows_and_that_fits_nowhere_is_forgotten_too(world: World) -> None:
    world.engine.filter(pod("ghost", whole=2, gated=False), ["n1"], world.now_ms)
    world.now_ms += 10_001
    world.plan()
    assert not world.engine.roster.records


def test_a_pod_that_the_watch_shows_late_stays(world: World) -> None:
    facts = pod("late", whole=1, gated=False)
    world.engine.filter(facts, ["n1"], world.now_ms)
    world.now_ms += 5000
    world.create(facts)
    world.now_ms += 6000
    world.plan()
    assert set(world.engine.roster.records) == {"uid-late"}


def test_a_uid_that_comes_back_is_taken(world: World) -> None:
    """A watch that lost its place may show a pod again that it had said to be gone."""
    world.create(pod("a", whole=1))
    facts = world.pods["uid-a"]
    world.delete("uid-a")
    world.create(facts)
    assert [said.uid for said in world.plan() if isinstance(said, Release)] == ["uid-a"]
    assert world.schedule("uid-a") == "n1"


def test_a_bind_asked_again_of_a_pod_that_is_bound_and_terminating_frees_nothing(world: World) -> None:
    world.create(pod("a", whole=1))
    world.schedule_all()
    world.create(replace(world.pods["uid-a"], deleted_ms=world.now_ms))
    order = world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms)
    assert isinstance(order, BindOrder)
    assert world.engine.cluster.ledger.entries["uid-a"].bound
    world.engine.validate()


def test_a_pod_that_is_being_deleted_is_neither_placed_nor_bound(world: World) -> None:
    doomed = pod("a", whole=1, gated=False, deleted_ms=world.now_ms)
    assert world.engine.filter(doomed, ["n1"], world.now_ms).error == "the pod is being deleted"
    assert isinstance(world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms), BindRefusal)
    assert not world.engine.cluster.ledger.entries
    world.engine.validate()


def test_deleted_while_a_binding_is_on_its_way(world: World) -> None:
    world.create(pod("a", whole=1, gated=False))
    world.filter("uid-a")
    assert isinstance(world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms), BindOrder)
    world.create(replace(world.pods["uid-a"], deleted_ms=world.now_ms))
    assert isinstance(world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms), BindRefusal)
    assert "uid-a" in world.engine.cluster.ledger.entries, "the first Binding may still take effect"
    world.engine.binding.finish("uid-a", False, world.now_ms, keep_booking=False)
    assert not world.engine.cluster.ledger.entries
    world.engine.validate()


def test_pods_of_others_are_known_before_the_watch_shows_them(world: World) -> None:
    stranger = pod("s", gated=False, scheduler="other")
    world.engine.meet(stranger, world.now_ms)
    assert world.engine.foreign == {"uid-s"}
    world.now_ms += 20_000
    world.plan()
    assert not world.engine.foreign, "no watch has shown it"
    world.create(stranger)
    world.now_ms += 20_000
    world.plan()
    assert world.engine.foreign == {"uid-s"}
    world.delete("uid-s")
    world.engine.meet(stranger, world.now_ms)
    assert not world.engine.foreign


def test_many_pods_that_went_are_not_remembered_for_ever(world: World) -> None:
    for number in range(20_000):
        world.engine.remove_pod(f"uid-{number}")
    assert not world.engine.hearsay.is_gone("uid-0")
    assert world.engine.hearsay.is_gone("uid-19999")


def test_a_standby_says_nothing_and_forgets_what_it_would_have_said(world: World) -> None:
    world.create(
        pod("bad", whole=1, annotations={"gpu-fraction": "0.5"}),
        pod("old-word", annotations={"kai.scheduler/gpu-fraction": "0.5"}),
    )
    assert len(world.engine.roster.outbox) == 2
    world.engine.stand_down(world.now_ms)
    assert not world.engine.roster.outbox


def test_taking_over_says_again_what_is_young(world: World) -> None:
    world.create(pod("long-ago", whole=1, annotations={"gpu-fraction": "0.5"}))
    world.now_ms += 100_000
    world.create(
        pod("bad", whole=1, annotations={"gpu-fraction": "0.5"}),
        pod("old-word", annotations={"kai.scheduler/gpu-fraction": "0.5"}),
        share("too-much", "0.5"),
    )
    world.engine.take_over(world.now_ms)
    said = world.plan()
    assert [(item.uid, item.reason.code) for item in said if isinstance(item, Tell)] == [
        ("uid-bad", Code.INVALID_REQUEST)
    ]
    assert [item.uid for item in said if isinstance(item, Warn)] == ["uid-old-word"]
    assert {item.uid for item in said if isinstance(item, Release)} == {"uid-old-word", "uid-too-much"}
