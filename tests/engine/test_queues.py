"""Queues in the live engine: limits, quotas, borrowing, whose turn it is, strict queues, GPU models."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from queues.amounts import UNLIMITED
from queues.spec import QueueSpec, Terms
from scheduler.reason import Code
from tests.engine.world import node, pod, share
from tests.replay.queued import QueuedWorld, devices, engine, in_queue, queue, released
from topology.node import NodeFacts

PRODUCT = "nvidia.com/gpu.product"
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
H100_PCIE = {PRODUCT: "NVIDIA-H100-PCIE", "nvidia.com/gpu.memory": "81559"}
A100 = {PRODUCT: "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81251"}


@pytest.fixture
def world() -> QueuedWorld:
    return QueuedWorld(engine())


def wants(world: QueuedWorld, label: str, count: int, *, whole: int = 1, prefix: str = "", **other: object) -> None:
    """Creates `count` pods of a queue, in the order of their numbers."""
    start = len(world.pods)
    for at in range(count):
        facts = pod(f"{prefix or label}-{at:02}", whole=whole, created_ms=start + at, **other)  # type: ignore[arg-type]
        world.create(in_queue(label, facts))


# -- limits and quotas ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leaf", "mid", "top", "blocker"), [(2, 5, 5, "leaf"), (5, 2, 5, "mid"), (5, 5, 2, "top")], ids=lambda at: str(at)
)
def test_a_limit_holds_at_the_leaf_and_at_every_ancestor(
    world: QueuedWorld, leaf: int, mid: int, top: int, blocker: str
) -> None:
    world.add_nodes(node("n1", gpus=8))
    world.set_queues(queue("top", limit=top), queue("mid", "top", limit=mid), queue("leaf", "mid", limit=leaf))
    wants(world, "leaf", 4)
    assert len(world.schedule_all()) == 2
    reason = world.reason("leaf-02")
    assert reason.code is Code.OVER_LIMIT
    assert reason.numbers == {
        "queue": blocker, "resource": "gpu_milli", "asked": 1000, "allocated": 2000, "bound": 2000,
    }  # fmt: skip
    world.end("leaf-00")
    assert list(world.schedule_all()) == ["leaf-02"]
    world.engine.validate()


def test_two_leaves_share_the_limit_of_their_parent(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=8))
    world.set_queues(queue("top", limit=3), queue("a", "top", limit=8), queue("b", "top", limit=8))
    wants(world, "a", 5)
    wants(world, "b", 5)
    assert len(world.schedule_all()) == 3
    assert len(world.running("a")) + len(world.running("b")) == 3
    assert world.running("a")
    assert world.running("b")


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_limits_of_cpu_and_memory(world: QueuedWorld, resource: str) -> None:
    world.add_nodes(node("n1"))
    limit = {"cpu": 2500, "memory": 5 << 29}[resource]
    terms: dict[str, Any] = {resource: Terms(UNLIMITED, limit)}
    world.set_queues(queue("a", **terms))
    wants(world, "a", 3, whole=0)
    assert len(world.schedule_all()) == 2
    reason = world.reason("a-02")
    assert reason.code is Code.OVER_LIMIT
    assert reason.numbers["bound"] == limit
    assert str(reason.numbers["resource"]).startswith(resource)


def test_what_is_not_asked_for_is_not_looked_at(world: QueuedWorld) -> None:
    world.add_nodes(node("n1"))
    world.set_queues(queue("a", limit=0))
    world.create(in_queue("a", pod("cpu-only")), in_queue("a", pod("device", whole=1)))
    assert list(world.schedule_all()) == ["cpu-only"]


def test_a_share_counts_as_its_part_and_several_devices_count_each(world: QueuedWorld) -> None:
    """2 × 0.6 is 1.2 devices (KAI issue 1369 let it pass a quota of 1)."""
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(queue("a", limit=1))
    world.create(in_queue("a", share("twice", "0.6", devices=2)), in_queue("a", share("once", "0.6")))
    assert list(world.schedule_all()) == ["once"]
    assert world.reason("twice").numbers["asked"] == 1200
    world.create(in_queue("a", share("rest", "0.4")), in_queue("a", share("more", "0.1", created_ms=9)))
    assert list(world.schedule_all()) == ["rest"]


@pytest.mark.parametrize("how", ["class", "label"])
@pytest.mark.parametrize("level", ["leaf", "mid", "top"])
def test_non_preemptible_work_stays_within_quota_at_every_ancestor(world: QueuedWorld, how: str, level: str) -> None:
    quotas = {"leaf": 4, "mid": 4, "top": 4} | {level: 2}
    world.add_nodes(node("n1", gpus=8))
    world.set_queues(
        queue("top", quota=quotas["top"]),
        queue("mid", "top", quota=quotas["mid"]),
        queue("leaf", "mid", quota=quotas["leaf"]),
    )
    for at in range(4):
        facts = pod(f"p{at}", whole=1, created_ms=at)
        if how == "class":
            facts = replace(facts, priority=125, priority_class="tangram-inference")
        world.create(in_queue("leaf", facts, fixed=how == "label"))
    assert list(world.schedule_all()) == ["p0", "p1"]
    reason = world.reason("p2")
    assert reason.code is Code.NON_PREEMPTIBLE_OVER_QUOTA
    assert (reason.numbers["queue"], reason.numbers["bound"]) == (level, 2000)
    world.create(in_queue("leaf", pod("gives-way", whole=1, created_ms=9)))
    assert list(world.schedule_all()) == ["gives-way"], "beyond the quota runs what can be asked to give way"
    world.end("gives-way")
    assert world.schedule_all() == {}, "what is freed beyond the quota is nothing for work that cannot give way"
    world.end("p0")
    assert list(world.schedule_all()) == ["p2"]
    world.engine.validate()


def test_the_label_decides_before_the_class(world: QueuedWorld) -> None:
    world.add_nodes(node("n1"))
    world.set_queues(queue("a"))
    serving = replace(pod("serving", whole=1), priority=125, priority_class="tangram-inference")
    world.create(in_queue("a", serving))
    assert world.schedule_all() == {}
    world.relabel("serving", preemptibility="preemptible")
    assert list(world.schedule_all()) == ["serving"]


def test_a_class_of_others_says_nothing_about_giving_way(world: QueuedWorld) -> None:
    world.add_nodes(node("n1"))
    world.set_queues(queue("a"))
    world.create(in_queue("a", replace(pod("x", whole=1), priority=125, priority_class="somebody-s")))
    assert list(world.schedule_all()) == ["x"]


def test_work_that_gives_way_does_not_use_up_the_quota_of_work_that_cannot(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(queue("a", quota=2))
    wants(world, "a", 3)
    world.schedule_all()
    world.create(in_queue("a", pod("fixed", whole=1, created_ms=50), fixed=True))
    assert list(world.schedule_all()) == ["fixed"]


# -- borrowing, shares, turns --------------------------------------------------------------------------------------


def test_an_idle_queue_s_quota_is_lent(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=8))
    world.set_queues(queue("a", quota=2), queue("b", quota=6))
    wants(world, "a", 10)
    assert len(world.schedule_all()) == 8


def test_what_frees_goes_to_the_queue_below_its_share(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=8))
    world.set_queues(queue("a", quota=2), queue("b", quota=6))
    wants(world, "a", 20)
    world.schedule_all()
    wants(world, "b", 20)
    assert world.schedule_all() == {}, "nobody is evicted"
    for ended in range(8):
        world.end(f"a-{ended:02}")
        world.schedule_all()
        assert len(world.running()) == 8
    assert (len(world.running("a")), len(world.running("b"))) == (2, 6)
    world.engine.validate()


@pytest.mark.parametrize("gpus", [3, 7, 12, 16])
def test_turns_follow_fair_shares_from_the_first_start_on(gpus: int) -> None:
    """After each start every queue holds what it is entitled to of what is given out so far, within a device."""
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=gpus))
    weights = {"a": 1, "b": 2, "c": 1}
    world.set_queues(*(queue(name, weight=weight) for name, weight in weights.items()))
    for name in weights:
        wants(world, name, gpus)
    order = [name[0] for name in released(world.plan())]
    assert len(order) == gpus
    given: Counter[str] = Counter()
    for count, name in enumerate(order, 1):
        given[name] += 1
        assert all(abs(given[name] - count * weights[name] / 4) <= 1 for name in weights), order[:count]


def test_turns_in_two_levels(world: QueuedWorld) -> None:
    """Example 3 of the reference with whole devices: 12, of which D1 gets 8 (a 7 or 8, b its one), D2 4 (c 3, d 1)."""
    world.add_nodes(node("n1", gpus=12))
    world.set_queues(
        queue("d1", quota=6), queue("a", "d1", quota=2), queue("b", "d1"),
        queue("d2", quota=2), queue("c", "d2"), queue("d", "d2", quota=2),
    )  # fmt: skip
    for name, count in {"a": 8, "b": 1, "c": 5, "d": 1}.items():
        wants(world, name, count)
    world.schedule_all()
    held = {name: len(world.running(name)) for name in "abcd"}
    assert held == {"a": 7, "b": 1, "c": 3, "d": 1}


def test_priority_of_queues_splits_what_quotas_leave(world: QueuedWorld) -> None:
    """Example 2 of the reference: 16 devices, quota 2 each; X 6 (its limit), Y 3 (its wish), Z 7."""
    world.add_nodes(node("n1", gpus=16))
    world.set_queues(queue("x", quota=2, limit=6, priority=200), queue("y", quota=2, weight=3), queue("z", quota=2))
    for name, count in {"x": 12, "y": 3, "z": 20}.items():
        wants(world, name, count)
    world.schedule_all()
    assert {name: len(world.running(name)) for name in "xyz"} == {"x": 6, "y": 3, "z": 7}


def test_weight_zero_takes_what_nobody_else_wants(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(queue("a", weight=0), queue("b", weight=1))
    wants(world, "a", 6)
    wants(world, "b", 3)
    world.schedule_all()
    assert (len(world.running("a")), len(world.running("b"))) == (1, 3)


def test_priority_and_age_order_work_inside_a_queue(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(queue("a"), queue("b"))
    world.create(
        in_queue("a", pod("young", whole=1, created_ms=2)),
        in_queue("a", pod("old", whole=1, created_ms=1)),
        in_queue("a", pod("high", whole=1, created_ms=3, priority=5)),
    )
    started = []
    for _ in range(3):
        (name,) = world.schedule_all()
        started.append(name)
        world.end(name)
    assert started == ["high", "old", "young"]


def test_a_pod_s_priority_means_nothing_between_queues(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.set_queues(queue("a"), queue("b"))
    for at in range(2):
        world.create(in_queue("a", pod(f"a{at}", whole=1, priority=1_000_000, created_ms=at)))
        world.create(in_queue("b", pod(f"b{at}", whole=1, priority=0, created_ms=10 + at)))
    assert set(world.schedule_all()) == {"a0", "b0"}


def test_more_rounds_than_one_keep_to_the_shares(world: QueuedWorld) -> None:
    """A round places a bounded number; the next goes on where it stopped."""
    world = QueuedWorld(engine(round_limit=5))
    world.add_nodes(*(node(f"n{at}", gpus=8) for at in range(4)))
    world.set_queues(queue("a", weight=3), queue("b", weight=1))
    wants(world, "a", 40)
    wants(world, "b", 40)
    world.schedule_all()
    assert (len(world.running("a")), len(world.running("b"))) == (24, 8)


# -- head of line ----------------------------------------------------------------------------------------------------


def test_neither_room_nor_quota_of_the_first_blocks_the_second(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(queue("a", limit=3), queue("b"))
    world.create(
        in_queue("a", pod("too-big-for-the-limit", whole=4, created_ms=1)),
        in_queue("a", pod("small", whole=2, created_ms=2)),
        in_queue("b", pod("too-big-for-any-node", whole=8, created_ms=3)),
        in_queue("b", pod("one", whole=1, created_ms=4)),
    )
    assert set(world.schedule_all()) == {"small", "one"}
    assert world.reason("too-big-for-the-limit").code is Code.OVER_LIMIT
    assert world.reason("too-big-for-any-node").code is Code.INSUFFICIENT_WHOLE_GPUS


def strict(name: str, **other: object) -> QueueSpec:
    return queue(name, strict_fifo=True, **other)  # type: ignore[arg-type]


def test_a_strict_queue_waits_for_room_for_its_first(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(strict("a"), queue("b"))
    world.create(in_queue("b", pod("running", whole=2)))
    world.schedule_all()
    world.create(in_queue("a", pod("big", whole=3, created_ms=1)), in_queue("a", pod("small", whole=1, created_ms=2)))
    assert world.schedule_all() == {}
    reason = world.reason("small")
    assert reason.code is Code.BEHIND_STRICT_HEAD
    world.end("running")
    assert set(world.schedule_all()) == {"big", "small"}
    world.engine.validate()


def test_a_strict_queue_holds_up_no_other(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(strict("a"), queue("b"))
    world.create(in_queue("b", pod("running", whole=2)))
    world.schedule_all()
    world.create(in_queue("a", pod("big", whole=3)), in_queue("b", pod("small", whole=1, created_ms=2)))
    assert list(world.schedule_all()) == ["small"]


def test_the_first_of_a_strict_queue_leaves_and_the_next_is_first(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(strict("a"), queue("b"))
    world.create(in_queue("b", pod("running", whole=2)))
    world.schedule_all()
    world.create(in_queue("a", pod("big", whole=3, created_ms=1)), in_queue("a", pod("small", whole=1, created_ms=2)))
    assert world.schedule_all() == {}
    world.delete("uid-big")
    assert list(world.schedule_all()) == ["small"]


def test_strictness_taken_away_lets_the_second_start(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(strict("a"))
    world.create(in_queue("a", pod("running", whole=2)))
    world.schedule_all()
    world.create(in_queue("a", pod("big", whole=3, created_ms=1)), in_queue("a", pod("small", whole=1, created_ms=2)))
    assert world.schedule_all() == {}
    world.set_queues(queue("a"))
    assert list(world.schedule_all()) == ["small"]


def test_a_higher_priority_overtakes_the_first_of_a_strict_queue(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(strict("a"))
    world.create(in_queue("a", pod("running", whole=2)))
    world.schedule_all()
    world.create(in_queue("a", pod("big", whole=3, created_ms=1)))
    assert world.schedule_all() == {}
    world.create(in_queue("a", pod("urgent", whole=1, created_ms=5, priority=7)))
    assert list(world.schedule_all()) == ["urgent"]


def test_the_first_of_a_strict_queue_waits_for_quota_and_others_for_the_same(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=8))
    world.set_queues(strict("a", limit=4))
    world.create(in_queue("a", pod("running", whole=2)))
    world.schedule_all()
    world.create(
        in_queue("a", pod("three", whole=3, created_ms=1)),
        in_queue("a", pod("one", whole=1, created_ms=2)),
        in_queue("a", pod("cpu-only", created_ms=3)),
    )
    assert list(world.schedule_all()) == ["cpu-only"], "it wants nothing of what the first waits for"
    assert world.reason("one").code is Code.BEHIND_STRICT_HEAD
    assert world.reason("three").code is Code.OVER_LIMIT
    world.end("running")
    assert set(world.schedule_all()) == {"three", "one"}


def test_the_first_of_a_strict_queue_comes_to_wait_for_quota_instead_of_room(world: QueuedWorld) -> None:
    """More important work used the quota up meanwhile: the first keeps nothing but quota from those behind."""
    here, there = {"zone": "here"}, {"zone": "there"}
    world.add_nodes(node("n1", gpus=1, labels=here), node("n2", gpus=1, labels=there))
    world.set_queues(strict("a", limit=1), queue("b"))
    world.create(in_queue("b", pod("holds", whole=1, node_selector=here)))
    world.schedule_all()
    world.create(
        in_queue("a", pod("first", whole=1, created_ms=1, node_selector=here)),
        in_queue("a", pod("cpu-only", created_ms=2, node_selector=here)),
    )
    assert world.schedule_all() == {}
    assert world.reason("cpu-only").nodes[Code.BEHIND_STRICT_HEAD] == 1
    urgent = in_queue("a", pod("urgent", whole=1, created_ms=3, priority=9, node_selector=there, gated=False))
    world.pods[urgent.uid] = urgent  # kube-scheduler is quicker than the watch
    assert world.schedule(urgent.uid, ["n2"]) == "n2"
    assert world.schedule_all() == {"cpu-only": "n1"}
    assert world.reason("first").code is Code.OVER_LIMIT


def test_strict_order_is_kept_while_the_queue_fills(world: QueuedWorld) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.set_queues(strict("a"))
    sizes = [1, 2, 1, 1, 2, 1]
    for at, size in enumerate(sizes):
        world.create(in_queue("a", pod(f"p{at}", whole=size, created_ms=at)))
    started: list[str] = []
    for _ in range(20):
        now = sorted(world.schedule_all())
        started += now
        world.engine.validate()
        if world.running():
            world.end(min(world.running()))
    assert started == [f"p{at}" for at in range(len(sizes))]


# -- cordoned --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["leaf", "top"])
def test_a_cordoned_queue_takes_no_new_work_and_keeps_what_runs(world: QueuedWorld, where: str) -> None:
    def specs(cordoned: bool) -> list[QueueSpec]:
        return [queue("top", cordoned=cordoned and where == "top"), queue("leaf", "top", cordoned=cordoned)]

    world.add_nodes(node("n1"))
    world.set_queues(*specs(cordoned=False))
    world.create(in_queue("leaf", pod("before", whole=1)))
    world.schedule_all()
    world.set_queues(*specs(cordoned=True))
    world.create(in_queue("leaf", pod("after", whole=1)))
    assert world.schedule_all() == {}
    reason = world.reason("after")
    assert reason.code is Code.QUEUE_CORDONED
    assert world.running() == {"before"}
    world.set_queues(*specs(cordoned=False))
    assert list(world.schedule_all()) == ["after"]
    world.engine.validate()


# -- GPU models ------------------------------------------------------------------------------------------------------


def only(labels: dict[str, str]) -> dict[str, str]:
    """A node selector for one product."""
    return {PRODUCT: labels[PRODUCT]}


@pytest.mark.parametrize("key", ["H100", "H100-80GB", "H100-80GB-HBM3"])
def test_a_limit_per_model_by_the_whole_key_or_its_leading_parts(world: QueuedWorld, key: str) -> None:
    world.add_nodes(node("h", gpus=4, labels=H100))
    world.set_queues(queue("a", models={key: Terms(UNLIMITED, 2000)}))
    wants(world, "a", 4)
    assert len(world.schedule_all()) == 2
    reason = world.reason("a-02")
    assert reason.code is Code.OVER_LIMIT
    assert (reason.numbers["model"], reason.numbers["bound"], reason.numbers["allocated"]) == (key, 2000, 2000)


@pytest.mark.parametrize("key", ["H10", "H100-PCIE", "80GB", "H200"])
def test_a_key_that_is_not_the_leading_parts_is_another_model(world: QueuedWorld, key: str) -> None:
    world.add_nodes(node("h", gpus=4, labels=H100))
    world.set_queues(queue("a", models={key: Terms(UNLIMITED, 0)}))
    wants(world, "a", 4)
    assert len(world.schedule_all()) == 4


def test_beyond_a_model_s_limit_work_goes_to_other_models(world: QueuedWorld) -> None:
    world.add_nodes(node("h", gpus=4, labels=H100), node("a", gpus=2, labels=A100))
    world.set_queues(queue("q", models={"H100": Terms(UNLIMITED, 1000)}))
    wants(world, "q", 5)
    placed = world.schedule_all()
    assert Counter(placed.values()) == {"h": 1, "a": 2}
    reason = world.reason("q-04")
    assert reason.nodes[Code.MODEL_OVER_LIMIT] == 1
    assert reason.nodes[Code.INSUFFICIENT_WHOLE_GPUS] == 1
    world.end(next(name for name, where in placed.items() if where == "h"))
    assert list(world.schedule_all().values()) == ["h"]
    world.engine.validate()


def test_one_key_covers_all_variants_of_a_model_together(world: QueuedWorld) -> None:
    world.add_nodes(node("sxm", gpus=4, labels=H100), node("pcie", gpus=4, labels=H100_PCIE))
    world.set_queues(queue("a", models={"H100": devices(UNLIMITED, 3)}))
    wants(world, "a", 6)
    assert len(world.schedule_all()) == 3


def test_a_model_s_limit_at_an_ancestor(world: QueuedWorld) -> None:
    """Parent 3, children 2 each: together 3."""
    world.add_nodes(node("h", gpus=8, labels=H100))
    limits = {"H100": devices(UNLIMITED, 2)}
    world.set_queues(
        queue("top", models={"H100": devices(UNLIMITED, 3)}),
        queue("a", "top", models=limits),
        queue("b", "top", models=limits),
    )
    wants(world, "a", 4)
    wants(world, "b", 4)
    world.schedule_all()
    assert sorted((len(world.running("a")), len(world.running("b")))) == [1, 2]


def test_a_model_s_quota_bounds_work_that_cannot_give_way(world: QueuedWorld) -> None:
    world.add_nodes(node("h", gpus=4, labels=H100))
    world.set_queues(queue("a", quota=4, models={"H100": devices(1)}))
    for at in range(2):
        world.create(in_queue("a", pod(f"fixed{at}", whole=1, created_ms=at), fixed=True))
    assert list(world.schedule_all()) == ["fixed0"]
    reason = world.reason("fixed1")
    assert reason.code is Code.NON_PREEMPTIBLE_OVER_QUOTA
    assert reason.numbers["model"] == "H100"
    wants(world, "a", 2)
    assert len(world.schedule_all()) == 2, "other work may go on"


def test_shares_are_charged_to_the_model_where_they_land(world: QueuedWorld) -> None:
    world.add_nodes(node("h", gpus=2, labels=H100), node("a", gpus=1, labels=A100))
    world.set_queues(queue("q", models={"H100": devices(UNLIMITED, 0.5)}))
    for at in range(5):
        world.create(in_queue("q", share(f"s{at}", "0.5", created_ms=at)))
    assert Counter(world.schedule_all().values()) == {"h": 1, "a": 2}


def test_a_new_node_of_an_allowed_model_ends_the_wait(world: QueuedWorld) -> None:
    """All nodes were of a model whose limit is reached: no queue changes when one of another model joins."""
    world.add_nodes(node("h", gpus=4, labels=H100))
    world.set_queues(queue("a", models={"H100": devices(UNLIMITED, 1)}))
    wants(world, "a", 3)
    assert len(world.schedule_all()) == 1
    world.add_nodes(node("a", gpus=1, labels=A100))
    assert list(world.schedule_all().values()) == ["a"]
    world.add_nodes(node("other", gpus=1, labels={PRODUCT: "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"}))
    assert list(world.schedule_all().values()) == ["other"]


def test_a_node_that_turns_out_to_be_of_another_model(world: QueuedWorld) -> None:
    """gpu-feature-discovery corrects a label: what stands there is charged anew."""
    world.add_nodes(node("n", gpus=4, labels=A100))
    world.set_queues(queue("a", models={"H100": devices(UNLIMITED, 2)}))
    wants(world, "a", 2)
    world.schedule_all()
    world.add_nodes(node("n", gpus=4, labels=H100))
    world.create(in_queue("a", pod("late", whole=1, created_ms=99)))
    assert world.schedule_all() == {}
    assert world.reason("late").numbers["allocated"] == 2000
    world.engine.validate()


# -- strict queues: S3 of the reference is in tests/replay ---------------------------------------------------------


def test_the_first_of_a_strict_queue_claims_only_nodes_that_its_queue_lets_it_use(world: QueuedWorld) -> None:
    """It asks for two devices, and the queue may have one H100: it waits for A100s only."""
    world.add_nodes(node("h", gpus=4, labels=H100), node("a", gpus=2, labels=A100))
    world.set_queues(strict("q", models={"H100": devices(UNLIMITED, 1)}), queue("other"))
    world.create(in_queue("other", pod("running", whole=1, node_selector=only(A100))))
    world.schedule_all()
    world.create(
        in_queue("q", pod("two", whole=2, created_ms=1)),
        in_queue("q", pod("one", whole=1, created_ms=2, node_selector=only(H100))),
    )
    assert world.schedule_all() == {"one": "h"}


# -- memory of devices -------------------------------------------------------------------------------------------------


def card(name: str, mib: int, gpus: int = 1) -> NodeFacts:
    return node(name, gpus=gpus, mib=mib)


def memory(name: str, mib: int, **other: object) -> object:
    return pod(name, annotations={"gpu-memory": str(mib)}, **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(("mib", "milli"), [(80_000, 250), (40_000, 500), (20_000, 1000)])
def test_an_amount_of_memory_counts_by_the_card_of_its_node(world: QueuedWorld, mib: int, milli: int) -> None:
    world.add_nodes(card("n", mib, gpus=4))
    world.set_queues(queue("a", limit=1))
    for at in range(5):
        world.create(in_queue("a", pod(f"m{at}", annotations={"gpu-memory": "20000"}, created_ms=at)))
    assert len(world.schedule_all()) == 1000 // milli
    held = world.engine.cluster.accounts.books["a"].allocated.gpu_milli
    assert held == 1000


def test_memory_goes_where_it_counts_little_enough(world: QueuedWorld) -> None:
    """On the small card it would be a whole device, and half a device is what the queue may have."""
    world.add_nodes(card("small", 20_000), card("large", 80_000))
    world.set_queues(queue("a", limit=0.5))
    for at in range(3):
        world.create(in_queue("a", pod(f"m{at}", annotations={"gpu-memory": "20000"}, created_ms=at)))
    placed = world.schedule_all()
    assert list(placed.values()) == ["large", "large"]
    assert world.engine.cluster.accounts.books["a"].allocated.gpu_milli == 500
    world.engine.validate()


def test_a_larger_card_that_joins_makes_a_wish_small_enough(world: QueuedWorld) -> None:
    world.add_nodes(card("small", 20_000))
    world.set_queues(queue("a", limit=0.5))
    world.create(in_queue("a", pod("m", annotations={"gpu-memory": "20000"})))
    assert world.schedule_all() == {}
    assert world.reason("m").code is Code.OVER_LIMIT
    world.add_nodes(card("large", 80_000))
    assert world.schedule_all() == {"m": "large"}
