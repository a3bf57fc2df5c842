"""Claims on room and turns that end with their cause: reservations, exposed pods, and what a round remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from queues.amounts import UNLIMITED
from scheduler.instruction import Expose
from scheduler.reason import Code
from tests.engine.world import node, pod
from tests.replay.clock import MINUTE, Clock
from tests.replay.queued import QueuedWorld, devices, engine, in_queue, queue
from topology import vocabulary

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
RUNTIME = vocabulary.EXPECTED_RUNTIME.key


@pytest.fixture
def world() -> QueuedWorld:
    return QueuedWorld(engine(starving_after_ms=1000))


def later(world: QueuedWorld, seconds: float = 5) -> dict[str, str]:
    world.now_ms += round(seconds * 1000)
    return world.schedule_all()


def test_exposed_pods_wait_for_their_turn_like_others(world: QueuedWorld) -> None:
    """Queue a shows itself to autoscalers and holds all four devices; b is guaranteed four and waits."""
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(queue("a", autoscaling_visible=True), queue("b", quota=4))
    world.create(*(in_queue("a", pod(f"a{at}", whole=1, created_ms=at)) for at in range(4)))
    world.schedule_all()
    world.create(*(in_queue("b", pod(f"b{at}", whole=1, created_ms=10 + at)) for at in range(4)))
    world.create(*(in_queue("a", pod(f"a{at}", whole=1, created_ms=20 + at)) for at in range(4, 12)))
    world.schedule_all()
    assert [said.name for said in world.said if isinstance(said, Expose)]
    for at in range(4):
        world.end(f"a{at}")
        assert not world.filter(f"uid-a{4 + at}"), "nor does kube-scheduler's question pass others over"
        later(world)
    assert world.running() == {"b0", "b1", "b2", "b3"}


def test_a_reservation_ends_when_the_queue_no_longer_lets_its_pod_start(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    limited = queue("a", limit=4)
    world.set_queues(limited, queue("b"))
    world.create(in_queue("b", pod("holds", whole=4)))
    world.schedule_all()
    world.create(in_queue("a", pod("large", whole=4)))
    later(world)
    later(world)
    assert world.engine.reservations.of("uid-large") is not None
    world.set_queues(replace(limited, cordoned=True), queue("b"))
    world.end("holds")
    world.create(in_queue("b", pod("next", whole=1)))
    later(world)
    assert "next" in world.running() or "next" in later(world)
    assert list(world.engine.reservations) == []


def test_what_frees_beside_a_reserved_place_is_used() -> None:
    """A of 3 devices ends: beside the one that waits for B's 5, there is room for one of 1."""
    world = Clock(engine(starving_after_ms=1000))
    world.add_nodes(node("n1", gpus=8))
    world.submit("a", 3, 2, declared=False)
    world.submit("b", 5, 10)
    world.step()
    world.submit("large", 4, 60)
    world.step()
    world.step()
    kept = world.engine.reservations.of("uid-large")
    assert kept is not None
    world.submit("small", 1, 60)
    world.step()
    assert "uid-small" not in world.started_ms
    while world.minute < 3:
        world.step()
    assert "uid-small" in world.started_ms


def test_a_pod_that_comes_before_those_behind_a_reservation_is_tried(world: QueuedWorld) -> None:
    """Alike but more important than the one for which the node is kept."""
    world.add_nodes(node("n1", gpus=4))
    world.create(pod("holds", whole=3))
    world.schedule_all()
    world.create(pod("large", whole=4, priority=5))
    later(world)
    later(world)
    assert world.engine.reservations.of("uid-large") is not None
    world.create(pod("behind", whole=1))
    assert later(world) == {}
    world.create(pod("before", whole=1, priority=9))
    assert list(later(world)) == ["before"]


def test_a_run_time_that_is_declared_later_counts(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.create(replace(pod("holds", whole=3), annotations={RUNTIME: "10m"}))
    world.schedule_all()
    running = replace(world.pods["uid-holds"], phase="Running", started_ms=world.now_ms)
    world.create(running)
    world.create(pod("large", whole=4, priority=5))
    later(world)
    later(world)
    world.create(pod("s", whole=1), pod("t", whole=1))
    assert later(world) == {}
    world.create(replace(world.pods["uid-t"], annotations={RUNTIME: "30s"}))
    assert list(later(world)) == ["t"]


def test_only_nodes_that_could_hold_a_pod_count_for_what_its_queue_may_use(world: QueuedWorld) -> None:
    """One node without devices is no reason to think that there is a place where the limit for H100s does not count."""
    world.add_nodes(node("h1", gpus=4, labels=H100), node("cpu", gpus=0))
    world.set_queues(queue("a", models={"H100": devices(UNLIMITED, 1)}, strict_fifo=True), queue("b"))
    world.create(*(in_queue("a", pod(f"a{at}", whole=1, created_ms=at)) for at in range(2)))
    world.schedule_all()
    reason = world.reason("a1")
    assert (reason.code, reason.numbers["model"]) == (Code.OVER_LIMIT, "H100")
    later(world)
    later(world)
    assert list(world.engine.reservations) == []
    world.create(*(in_queue("b", pod(f"b{at}", whole=1, created_ms=at)) for at in range(3)))
    assert sorted(later(world)) == ["b0", "b1", "b2"]


def test_the_first_of_a_strict_queue_holds_up_others_while_its_model_is_used_up(world: QueuedWorld) -> None:
    world.add_nodes(node("h1", gpus=8, labels=H100), node("cpu", gpus=0))
    world.set_queues(queue("a", models={"H100": devices(UNLIMITED, 4)}, strict_fifo=True))
    world.create(in_queue("a", pod("runs", whole=1)))
    world.schedule_all()
    world.create(in_queue("a", pod("head", whole=4, created_ms=1)))
    world.create(*(in_queue("a", pod(f"f{at}", whole=1, created_ms=2 + at)) for at in range(3)))
    assert later(world) == {}
    world.end("runs")
    assert list(later(world)) == ["head"]


def test_a_node_that_shrinks_below_the_first_of_a_strict_queue_is_for_the_next(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4), node("n2", gpus=4))
    world.set_queues(queue("a", strict_fifo=True), queue("b"))
    for name in ("n1", "n2"):
        world.create(in_queue("b", pod(f"half-{name}", whole=2, node_selector={"kubernetes.io/hostname": name})))
    world.schedule_all()
    world.create(in_queue("a", pod("head", whole=4, created_ms=1)), in_queue("a", pod("next", whole=1, created_ms=2)))
    assert world.schedule_all() == {}
    world.add_nodes(node("n2", gpus=3))
    assert world.schedule_all() == {"next": "n2"}


def test_a_booking_that_outlived_its_queue_is_given_back_when_its_bind_has_failed(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(queue("a"), queue("b"))
    world.create(in_queue("a", pod("p", whole=1)))
    world.plan()
    binding = world.engine.binding
    binding.start("uid-p", "default", "p", "n1", world.now_ms)
    world.set_queues(queue("b"))
    binding.finish("uid-p", False, world.now_ms)
    world.now_ms += MINUTE // 2
    assert not world.filter("uid-p")
    assert "uid-p" not in world.engine.cluster.ledger.entries
    world.set_queues(queue("a"), queue("b"))
    assert list(later(world)) == ["p"]


def test_an_exposed_pod_counts_where_it_is_now(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(
        queue("a", limit=2, autoscaling_visible=True), queue("b", limit=1, autoscaling_visible=True), queue("c")
    )
    world.create(in_queue("c", pod("holds", whole=1)))
    world.schedule_all()
    world.create(*(in_queue("a", pod(f"a{at}", whole=1, created_ms=at)) for at in range(3)))
    world.schedule_all()
    world.relabel("a0", queue="b")
    world.create(in_queue("b", pod("b0", whole=1, created_ms=9)))
    world.schedule_all()
    world.plan()
    assert {said.name for said in world.said if isinstance(said, Expose)} == {"a0", "a1", "a2"}


def test_after_a_stand_down_what_was_not_shown_is_shown(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(queue("a", limit=2, autoscaling_visible=True))
    world.create(*(in_queue("a", pod(f"a{at}", whole=1, created_ms=at)) for at in range(2)))
    world.engine.plan(world.now_ms)  # ordered, and never carried out
    world.engine.stand_down(world.now_ms)
    world.engine.take_over(world.now_ms)
    world.now_ms += 20_000
    world.schedule_all()
    assert [said.name for said in world.said if isinstance(said, Expose)] == ["a1"]
