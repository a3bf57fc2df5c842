"""`autoscaling: visible`: pods that only room is missing for are shown to autoscalers, and no others.

An autoscaler asks no extender. It sees what kube-scheduler's own filters see: what pods request beside what nodes have.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from queues.amounts import UNLIMITED
from queues.spec import QueueSpec, Terms
from scheduler.pod import PodAffinityTerm, Toleration
from scheduler.reason import Code
from tests.engine.world import GPU, node, pod, share
from tests.replay.queued import QueuedWorld, devices, engine, exposed, in_queue, queue, released
from topology.node import Taint
from topology.selector import Requirement

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


@pytest.fixture
def world() -> QueuedWorld:
    return QueuedWorld(engine())


def visible(name: str, parent: str | None = None, **other: object) -> QueueSpec:
    return queue(name, parent, autoscaling_visible=True, **other)  # type: ignore[arg-type]


def many(world: QueuedWorld, label: str, count: int, *, whole: int = 1, fixed: bool = False, start: int = 0) -> None:
    for at in range(start, start + count):
        world.create(in_queue(label, pod(f"{label}{at:02}", whole=whole, created_ms=at), fixed=fixed))


def test_nothing_is_shown_of_a_queue_that_does_not_ask_for_it(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(queue("a"))
    many(world, "a", 3)
    world.schedule_all()
    assert exposed(world.said) == []


def test_what_lacks_room_is_shown_up_to_the_limit(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.set_queues(visible("a", limit=5))
    many(world, "a", 10)
    assert len(world.schedule_all()) == 2
    assert exposed(world.said) == ["a02", "a03", "a04"]
    gated = {facts.name for facts in world.pods.values() if facts.gates}
    assert gated == {f"a{at:02}" for at in range(5, 10)}
    for name in ("a02", "a03", "a04"):
        verdict = world.engine.filter(world.pods[f"uid-{name}"], ["n1"], world.now_ms)
        assert set(verdict.refused.values()) == {Code.INSUFFICIENT_WHOLE_GPUS}
        assert world.fits_in_tree(world.pods[f"uid-{name}"]) == []
    world.engine.validate()


def test_each_is_shown_once(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a", limit=3))
    many(world, "a", 5)
    world.schedule_all()
    for _ in range(5):
        world.now_ms += 10_000
        world.plan()
    assert exposed(world.said) == ["a01", "a02"]


@pytest.mark.parametrize("level", ["leaf", "mid", "top"])
def test_never_more_than_an_ancestor_admits_over_all_its_queues(world: QueuedWorld, level: str) -> None:
    limits = {"leaf": 3} if level == "leaf" else {"leaf": 9, level: 3}
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(
        queue("top", limit=limits.get("top")),
        queue("mid", "top", limit=limits.get("mid")),
        visible("leaf", "mid", limit=limits["leaf"]),
        visible("leaf2", "mid", limit=limits["leaf"]),
    )
    many(world, "leaf", 6)
    many(world, "leaf2", 6)
    world.schedule_all()
    world.plan()
    shown = exposed(world.said)
    held = 1
    expected = 3 - held if level != "leaf" else 6 - held
    assert len(shown) == expected, shown


def test_nothing_is_shown_of_what_quota_holds_back(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(visible("a", quota=2))
    many(world, "a", 6, fixed=True)
    assert len(world.schedule_all()) == 2
    world.plan()
    assert exposed(world.said) == []


def test_work_that_cannot_give_way_is_shown_up_to_its_quota(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a", quota=3))
    many(world, "a", 6, fixed=True)
    world.schedule_all()
    world.plan()
    assert exposed(world.said) == ["a01", "a02"]


def test_nothing_is_shown_of_a_cordoned_or_closed_queue(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a", cordoned=True))
    many(world, "a", 3)
    world.schedule_all()
    assert exposed(world.said) == []


def test_shares_are_never_shown(world: QueuedWorld) -> None:
    """No node's counters say that a share lacks room: an autoscaler would find that it fits."""
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a"))
    for at in range(4):
        world.create(in_queue("a", share(f"s{at}", "0.6", created_ms=at)))
    assert list(world.schedule_all()) == ["s0"]
    world.plan()
    assert exposed(world.said) == []
    assert world.engine.exposure.hidden == {"a"}


def test_shares_are_not_shown_although_cpu_is_missing_too(world: QueuedWorld) -> None:
    """What an autoscaler would buy for the CPU alone need not have a device."""
    world.add_nodes(node("n1", gpus=1, cpu_milli=1000))
    world.set_queues(visible("a"))
    world.create(*(in_queue("a", share(f"s{at}", "0.2", created_ms=at)) for at in range(3)))
    assert list(world.schedule_all()) == ["s0"]
    world.plan()
    assert world.fits_in_tree(world.pods["uid-s1"]) == []
    assert exposed(world.said) == []


def test_whole_devices_are_not_shown_where_shares_hide_the_shortage(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.set_queues(visible("a"), queue("shares"))
    world.create(*(in_queue("shares", share(f"s{at}", "0.6", created_ms=at)) for at in range(2)))
    world.schedule_all()
    many(world, "a", 2)
    assert world.schedule_all() == {}
    assert world.fits_in_tree(world.pods["uid-a00"]) == ["n1"], "by its counters the node is empty"
    assert exposed(world.said) == []
    assert world.engine.exposure.hidden == {"a"}
    world.create(pod("stranger", whole=2, scheduler="other", node_name="n1"))
    world.plan()
    assert exposed(world.said) == ["a00", "a01"], "now the counters say it, too"
    assert world.engine.exposure.hidden == frozenset()


def test_a_new_node_takes_those_that_were_shown_first(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a", limit=4))
    many(world, "a", 8)
    world.schedule_all()
    world.add_nodes(node("bought", gpus=2))
    assert set(world.schedule_all()) == {"a01", "a02"}
    world.plan()
    assert exposed(world.said) == ["a01", "a02", "a03"], "the limit bears no fifth"
    world.end("a00")
    world.schedule_all()
    world.plan()
    assert exposed(world.said) == ["a01", "a02", "a03", "a04"]
    world.engine.validate()


def test_an_exposed_pod_that_goes_makes_room_for_another_to_be_shown(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a", limit=2))
    many(world, "a", 4)
    world.schedule_all()
    assert exposed(world.said) == ["a01"]
    world.delete("uid-a01")
    world.plan()
    assert exposed(world.said) == ["a01", "a02"]


def test_a_release_for_show_that_failed_is_tried_again(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a", limit=2))
    many(world, "a", 2)
    world.schedule_all()
    (name,) = exposed(world.said)
    facts = in_queue("a", pod(name, whole=1, created_ms=1))
    world.create(facts)  # as if the patch had never come
    world.engine.released(facts.uid, False, world.now_ms)
    assert exposed(world.plan()) == [], "not at once"
    world.now_ms += 10_000
    assert exposed(world.plan()) == [name]


def test_when_the_queue_changes_its_mind_what_was_shown_gets_an_error(world: QueuedWorld) -> None:
    """Its gate cannot be put back; autoscalers ignore a pod that is in trouble."""
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a", limit=3))
    many(world, "a", 3)
    world.schedule_all()
    world.set_queues(visible("a", limit=1))
    world.plan()
    for name in ("a01", "a02"):
        verdict = world.engine.filter(world.pods[f"uid-{name}"], ["n1"], world.now_ms)
        assert verdict.error
        assert not verdict.refused


def test_what_lost_its_plan_without_a_gate_counts_as_shown_in_any_queue(world: QueuedWorld) -> None:
    """Autoscalers see it, whatever its queue says about them: the limit above both bears one more, not two."""
    world.add_nodes(node("n1", gpus=2))
    specs = [queue("top", limit=2), queue("plain", "top"), visible("shown", "top")]
    world.set_queues(*specs, queue("other"))
    world.create(in_queue("plain", pod("planned", whole=1, created_ms=1)))
    world.plan()
    world.set_queues(queue("top", limit=2), queue("plain", "top", cordoned=True), visible("shown", "top"))
    world.create(pod("stranger", whole=2, scheduler="other", node_name="n1"))
    world.set_queues(*specs)
    many(world, "shown", 3)
    world.plan()
    world.plan()
    assert not world.pods["uid-planned"].gates
    assert exposed(world.said) == ["shown00"]


def test_a_pod_that_rules_keep_from_every_node_is_shown(world: QueuedWorld) -> None:
    """An autoscaler may have a node group that it may use."""
    gpu_only = Taint("gpu", "yes", "NoSchedule")
    world.add_nodes(node("n1", gpus=4, taints=(gpu_only,)))
    world.set_queues(visible("a", limit=2))
    many(world, "a", 3)
    assert world.schedule_all() == {}
    world.plan()
    assert exposed(world.said) == ["a00", "a01"]
    tolerant = in_queue("a", pod("t", whole=1, created_ms=9, tolerations=(Toleration("gpu", "Equal", "yes"),)))
    world.create(tolerant)
    assert released(world.plan()) == ["t"]


def test_at_most_so_many_are_shown_at_once() -> None:
    world = QueuedWorld(engine(max_in_flight=3))
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a"))
    many(world, "a", 9)
    world.schedule_all()
    world.plan()
    assert len(exposed(world.said)) == 3


def test_shown_work_is_not_more_than_a_model_s_limit(world: QueuedWorld) -> None:
    """All there is are H100s of others; nodes bought for more than two of these pods would stay empty."""
    world.add_nodes(node("h", gpus=4, labels=H100))
    world.set_queues(visible("a", models={"H100": devices(UNLIMITED, 2)}), queue("b"))
    many(world, "b", 4)
    world.schedule_all()
    many(world, "a", 5)
    world.schedule_all()
    world.plan()
    assert exposed(world.said) == ["a00", "a01"]


def test_a_strict_queue_shows_its_first_only_as_far_as_it_would_start(world: QueuedWorld) -> None:
    """Those behind wait for the first, not for room."""
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(visible("a", strict_fifo=True), queue("b"))
    many(world, "b", 2)
    world.schedule_all()
    world.create(
        in_queue("a", pod("big", whole=3, created_ms=1)),
        in_queue("a", pod("small", whole=1, created_ms=2)),
    )
    assert world.schedule_all() == {}
    world.plan()
    assert exposed(world.said) == ["big"]
    assert world.fits_in_tree(world.pods["uid-small"]) == ["n1"]


def test_cpu_that_is_missing_is_shown_too(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=0, cpu_milli=2000))
    world.set_queues(visible("a", cpu=Terms(UNLIMITED, 4000)))
    for at in range(6):
        world.create(in_queue("a", pod(f"c{at}", created_ms=at)))
    assert len(world.schedule_all()) == 2
    world.plan()
    assert exposed(world.said) == ["c2", "c3"]


def test_once_plans_have_landed_no_node_takes_what_is_shown(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=2), node("n2", gpus=1), node("cpu", gpus=0))
    world.set_queues(visible("a"), queue("b"))
    many(world, "b", 1)
    many(world, "a", 6)
    world.schedule_all()
    world.plan()
    shown = exposed(world.said)
    assert shown == ["a02", "a03", "a04", "a05"]
    for name in shown:
        assert world.fits_in_tree(world.pods[f"uid-{name}"]) == []


def test_a_pod_that_is_like_no_other_is_shown_too(world: QueuedWorld) -> None:
    """Replicas of a service that keep apart: what autoscalers are for."""
    apart = PodAffinityTerm("kubernetes.io/hostname", (Requirement("app", "In", ("web",)),), ("default",))
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(visible("a", limit=2))
    for at in range(3):
        facts = pod(f"w{at}", whole=1, created_ms=at, labels={"app": "web"}, pod_anti_affinity=(apart,))
        world.create(in_queue("a", facts))
    assert list(world.schedule_all()) == ["w0"]
    world.now_ms += 5000
    world.plan()
    assert exposed(world.said) == ["w1"]


def test_an_unhealthy_device_is_no_room(world: QueuedWorld) -> None:
    broken = node("n1", gpus=2)
    world.add_nodes(replace(broken, allocatable={**broken.allocatable, GPU: 1}))
    world.set_queues(visible("a", limit=2))
    many(world, "a", 2)
    assert len(world.schedule_all()) == 1
    assert exposed(world.said) == ["a01"]
