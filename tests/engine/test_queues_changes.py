"""What changes under way: labels of pods, queues that go or shrink while pods wait, are planned or run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from queues.spec import Access
from scheduler.instruction import BindOrder, BindRefusal
from scheduler.reason import Code
from scheduler.record import Stage
from tests.engine.world import node, pod, share
from tests.replay.queued import QueuedWorld, engine, in_queue, queue, released


@pytest.fixture
def world() -> QueuedWorld:
    found = QueuedWorld(engine())
    found.add_nodes(node("n1", gpus=4), node("n2", gpus=4))
    return found


def held(world: QueuedWorld, name: str) -> int:
    """Devices that a queue holds by the engine's books."""
    return world.engine.cluster.accounts.books[name].allocated.gpu_milli // 1000


def many(world: QueuedWorld, label: str, count: int, **other: object) -> None:
    for at in range(count):
        world.create(in_queue(label, pod(f"{label}{at}", whole=1, created_ms=at, **other)))  # type: ignore[arg-type]


# -- the label of a pod --------------------------------------------------------------------------------


def test_the_label_of_a_waiting_pod_changes(world: QueuedWorld) -> None:
    world.set_queues(queue("full", limit=0), queue("free"))
    world.create(in_queue("full", pod("p", whole=1)))
    assert world.schedule_all() == {}
    books = world.engine.cluster.accounts.books
    assert (books["full"].waiting, books["free"].waiting) == (1, 0)
    world.relabel("p", queue="free")
    assert (books["full"].waiting, books["free"].waiting) == (0, 1)
    assert list(world.schedule_all()) == ["p"]
    assert (held(world, "full"), held(world, "free")) == (0, 1)
    world.engine.validate()


@pytest.mark.parametrize(
    ("label", "code"), [("gone", Code.QUEUE_DOES_NOT_EXIST), (None, Code.NO_QUEUE), ("closed", Code.QUEUE_NOT_ALLOWED)]
)
def test_a_waiting_pod_moves_where_it_may_not_be(world: QueuedWorld, label: str | None, code: Code) -> None:
    world.set_queues(queue("full", limit=0), queue("closed", access=Access(frozenset({"other"}))))
    world.create(in_queue("full", pod("p", whole=1)))
    world.plan()
    world.relabel("p", queue=label)
    assert world.schedule_all() == {}
    assert world.reason("p").code is code
    assert world.engine.cluster.accounts.books["full"].waiting == 0
    world.engine.validate()


def test_the_label_of_a_planned_pod_changes(world: QueuedWorld) -> None:
    world.set_queues(queue("a"), queue("b", limit=1))
    world.create(in_queue("b", pod("runs", whole=1)))
    world.schedule_all()
    world.create(in_queue("a", pod("p", whole=1)))
    world.plan()
    assert held(world, "a") == 1
    world.relabel("p", queue="b")
    assert (held(world, "a"), held(world, "b")) == (0, 1), "its plan is given back"
    verdict = world.engine.filter(world.pods["uid-p"], ["n1", "n2"], world.now_ms)
    assert verdict.error, "autoscalers must not buy nodes for what a queue holds back"
    world.plan()
    assert world.reason("p").code is Code.OVER_LIMIT
    world.end("runs")
    world.plan()
    assert world.schedule("uid-p") is not None
    assert held(world, "b") == 1
    world.engine.validate()


def test_the_label_of_a_planned_pod_changes_to_a_queue_with_room(world: QueuedWorld) -> None:
    world.set_queues(queue("a"), queue("b"))
    world.create(in_queue("a", pod("p", whole=1)))
    world.plan()
    world.relabel("p", queue="b")
    assert list(world.schedule_all()) == ["p"]
    assert (held(world, "a"), held(world, "b")) == (0, 1)
    world.engine.validate()


def test_work_that_stops_giving_way_counts_as_such(world: QueuedWorld) -> None:
    world.set_queues(queue("a", quota=1))
    many(world, "a", 3)
    world.plan()
    for name in ("a0", "a1"):
        world.relabel(name, preemptibility="non-preemptible")
    world.plan()
    books = world.engine.cluster.accounts.books
    assert books["a"].allocated_non_preemptible.gpu_milli == 1000
    assert held(world, "a") == 2
    world.engine.validate()


def test_a_running_pod_counts_where_it_started(world: QueuedWorld) -> None:
    """Labels are no way around limits. (A restart knows labels alone; that they do not change is a policy's part.)"""
    world.set_queues(queue("a", limit=1), queue("b", limit=1))
    world.create(in_queue("a", pod("p", whole=1)))
    world.schedule_all()
    world.relabel("p", queue=None)
    world.create(in_queue("a", pod("q", whole=1, created_ms=1)))
    assert world.schedule_all() == {}
    world.relabel("p", queue="b")
    assert [held(world, name) for name in "ab"] == [1, 0]
    assert world.schedule_all() == {}
    world.end("p")
    assert list(world.schedule_all()) == ["q"]
    world.engine.validate()


# -- queues that go --------------------------------------------------------------------------------


def test_a_queue_goes_while_pods_wait_and_comes_back(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=1), queue("b"))
    many(world, "a", 3)
    assert list(world.schedule_all()) == ["a0"]
    world.set_queues(queue("b"))
    assert world.schedule_all() == {}
    assert {world.reason(name).code for name in ("a1", "a2")} == {Code.QUEUE_DOES_NOT_EXIST}
    assert world.engine.cluster.accounts.capacity.gpu_milli == 7000, "what runs there is still held"
    world.set_queues(queue("a", limit=2), queue("b"))
    assert held(world, "a") == 1
    assert list(world.schedule_all()) == ["a1"]
    world.engine.validate()


def test_all_queues_go_and_nothing_is_held_back(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=0))
    many(world, "a", 3)
    assert world.schedule_all() == {}
    world.set_queues()
    assert len(world.schedule_all()) == 3
    world.engine.validate()


def test_the_first_queue_comes_while_pods_run_and_wait(world: QueuedWorld) -> None:
    many(world, "a", 9)
    assert len(world.schedule_all()) == 8
    world.set_queues(queue("a", limit=4))
    assert held(world, "a") == 8
    world.end("a0", "a1", "a2", "a3")
    assert world.schedule_all() == {}, "the queue still holds its limit"
    world.end("a4")
    assert list(world.schedule_all()) == ["a8"]


def test_a_plan_is_given_back_when_its_queue_goes(world: QueuedWorld) -> None:
    world.set_queues(queue("a"), queue("b"))
    world.create(in_queue("a", pod("p", whole=1)))
    world.plan()
    world.set_queues(queue("b"))
    assert world.engine.cluster.ledger.entries == {}
    assert world.engine.filter(world.pods["uid-p"], ["n1"], world.now_ms).error
    assert world.reason("p").code is Code.QUEUE_DOES_NOT_EXIST
    world.engine.validate()


def test_work_that_runs_in_a_queue_that_gets_children_still_counts_there(world: QueuedWorld) -> None:
    """The limit of the parent is a limit of what its subtree holds, and the running pods are of its subtree."""
    world.set_queues(queue("team", limit=4))
    many(world, "team", 4)
    world.schedule_all()
    world.set_queues(queue("team", limit=4), queue("child", "team"))
    many(world, "child", 4)
    assert world.schedule_all() == {}
    world.end("team0")
    assert list(world.schedule_all()) == ["child0"]
    world.engine.validate()


# -- limits that shrink --------------------------------------------------------------------------------


def test_a_limit_lowered_while_pods_are_planned_gives_bookings_back(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=4))
    many(world, "a", 4)
    assert len(released(world.plan())) == 4
    world.set_queues(queue("a", limit=2))
    assert held(world, "a") == 2
    assert world.engine.in_flight == 2
    answers = {
        name: world.engine.filter(world.pods[f"uid-{name}"], ["n1", "n2"], world.now_ms)
        for name in ("a0", "a1", "a2", "a3")
    }
    assert sum(bool(answer.nodes) for answer in answers.values()) == 2
    assert sum(bool(answer.error) for answer in answers.values()) == 2
    for name, answer in answers.items():
        if answer.error:
            order = world.engine.binding.start(f"uid-{name}", "default", name, "n1", world.now_ms)
            assert isinstance(order, BindRefusal)
    world.schedule_all()
    assert len(world.running("a")) == 2
    world.engine.validate()


def test_a_limit_lowered_below_what_runs_evicts_nobody_and_starts_nobody(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=4))
    many(world, "a", 6)
    world.schedule_all()
    world.set_queues(queue("a", limit=1))
    assert len(world.running("a")) == 4
    for ended in range(3):
        world.end(f"a{ended}")
        assert world.schedule_all() == {}
    world.end("a3")
    assert len(world.schedule_all()) == 1
    world.engine.validate()


def test_a_bind_on_its_way_is_let_go_when_the_limit_is_lowered(world: QueuedWorld) -> None:
    """Nobody can call it back: it counts, over the limit, until the pod ends."""
    world.set_queues(queue("a", limit=1))
    many(world, "a", 1)
    world.plan()
    world.filter("uid-a0")
    order = world.engine.binding.start("uid-a0", "default", "a0", "n1", world.now_ms)
    assert isinstance(order, BindOrder)
    world.set_queues(queue("a", limit=0))
    assert held(world, "a") == 1
    world.write_binding(order)
    world.engine.binding.finish("uid-a0", True, world.now_ms)
    world.show("uid-a0")
    assert world.running() == {"a0"}
    world.engine.validate()


def test_a_quota_lowered_gives_back_plans_of_work_that_cannot_give_way(world: QueuedWorld) -> None:
    world.set_queues(queue("a", quota=2))
    world.create(*(in_queue("a", pod(f"fixed{at}", whole=1, created_ms=at), fixed=True) for at in range(2)))
    world.create(in_queue("a", pod("other", whole=1, created_ms=5)))
    assert len(released(world.plan())) == 3
    world.set_queues(queue("a", quota=1))
    assert held(world, "a") == 2
    assert "uid-other" in world.engine.cluster.ledger.entries
    world.engine.validate()


def test_a_queue_cordoned_while_pods_are_planned(world: QueuedWorld) -> None:
    world.set_queues(queue("a"))
    many(world, "a", 2)
    world.plan()
    world.set_queues(queue("a", cordoned=True))
    assert world.engine.in_flight == 0
    assert world.engine.filter(world.pods["uid-a0"], ["n1"], world.now_ms).error
    world.set_queues(queue("a"))
    assert len(world.schedule_all()) == 2


def test_a_limit_raised_starts_what_waited(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=1))
    many(world, "a", 3)
    world.schedule_all()
    world.set_queues(queue("a", limit=2))
    assert list(world.schedule_all()) == ["a1"]


def test_the_same_queues_told_again_disturb_no_plan(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=3))
    many(world, "a", 4)
    world.plan()
    before = dict(world.engine.cluster.ledger.entries)
    world.set_queues(queue("a", limit=3))
    assert world.engine.cluster.ledger.entries == before
    assert world.plan() == []


# -- pods that were never gated --------------------------------------------------------------------------------


def ungated(world: QueuedWorld, label: str, name: str, **other: object) -> None:
    facts = in_queue(label, pod(name, whole=1, gated=False, **other))  # type: ignore[arg-type]
    world.pods[facts.uid] = facts


def test_never_gated_pods_keep_to_limits(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=2))
    for at in range(3):
        ungated(world, "a", f"p{at}", created_ms=at)
    assert world.schedule("uid-p0") is not None
    assert world.schedule("uid-p1") is not None
    verdict = world.engine.filter(world.pods["uid-p2"], ["n1", "n2"], world.now_ms)
    assert verdict.error
    assert not verdict.nodes
    assert not verdict.refused, "a refusal by nodes would call for new nodes"
    world.end("p0")
    assert world.schedule("uid-p2") is not None
    world.engine.validate()


def test_never_gated_pods_keep_to_quotas_access_and_existence(world: QueuedWorld) -> None:
    world.set_queues(queue("a"), queue("closed", access=Access(frozenset({"other"}))), queue("stop", cordoned=True))
    facts = [
        in_queue("a", pod("fixed", whole=1, gated=False), fixed=True),
        in_queue("closed", pod("shut-out", whole=1, gated=False)),
        in_queue("gone", pod("lost", whole=1, gated=False)),
        in_queue("stop", pod("late", whole=1, gated=False)),
        pod("nameless", whole=1, gated=False),
    ]
    for one in facts:
        world.pods[one.uid] = one
        verdict = world.engine.filter(one, ["n1", "n2"], world.now_ms)
        assert verdict.error, one.name
        assert not verdict.nodes
        world.show(one.uid)
    world.plan()
    assert world.engine.cluster.ledger.entries == {}
    assert {one.name: world.reason(one.name).code for one in facts} == {
        "fixed": Code.NON_PREEMPTIBLE_OVER_QUOTA,
        "shut-out": Code.QUEUE_NOT_ALLOWED,
        "lost": Code.QUEUE_DOES_NOT_EXIST,
        "late": Code.QUEUE_CORDONED,
        "nameless": Code.NO_QUEUE,
    }


def test_a_never_gated_pod_that_its_queue_holds_back_is_let_in_later(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=0))
    ungated(world, "a", "p")
    assert world.engine.filter(world.pods["uid-p"], ["n1"], world.now_ms).error
    world.show("uid-p")
    world.set_queues(queue("a", limit=1))
    world.now_ms += 60_000
    world.plan()
    assert world.engine.roster.records["uid-p"].stage in (Stage.PLANNED, Stage.RELEASED)
    assert world.schedule("uid-p") is not None


def test_a_restart_between_filter_and_bind_keeps_to_the_queue(world: QueuedWorld) -> None:
    """The booking is lost; another pod of the queue took what was left before the bind comes."""
    world.set_queues(queue("a", limit=1))
    world.create(in_queue("a", pod("p", whole=1)))
    world.plan()
    world.filter("uid-p")
    again = QueuedWorld(engine(), pods=world.pods)
    again.add_nodes(*world.nodes.values())
    again.set_queues(queue("a", limit=1))
    again.show("uid-p")
    thief = in_queue("a", pod("thief", whole=1, node_name="n2"))
    again.create(thief)
    refusal = again.engine.binding.start("uid-p", "default", "p", "n1", again.now_ms)
    assert isinstance(refusal, BindRefusal)
    again.delete("uid-thief")
    assert again.bind("uid-p", "n1")
    again.engine.validate()


def test_a_share_counts_once_through_plan_filter_and_bind(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=1))
    world.create(in_queue("a", share("s", "0.6")))
    accounts = world.engine.cluster.accounts

    def books() -> tuple[int, int]:
        return accounts.books["a"].allocated.gpu_milli, accounts.books["a"].requested.gpu_milli

    assert books() == (0, 600)
    world.plan()
    assert books() == (600, 600)
    world.filter("uid-s")
    assert books() == (600, 600)
    world.bind("uid-s", world.engine.cluster.ledger.entries["uid-s"].node)
    assert books() == (600, 600)
    world.show("uid-s")
    world.create(replace(world.pods["uid-s"], phase="Running"))
    assert books() == (600, 600)
    world.end("s")
    assert books() == (0, 0)


def test_what_ends_in_a_strict_queue_lets_nobody_pass_its_first() -> None:
    """A pod of the queue ends, which gives back quota, and the first still lacks room: no leave for the next."""
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(queue("a", strict_fifo=True), queue("b"))
    world.create(in_queue("b", pod("other", whole=2)), in_queue("a", pod("cpu-only")))
    world.schedule_all()
    world.create(in_queue("a", pod("big", whole=3, created_ms=3)), in_queue("a", pod("small", whole=1, created_ms=4)))
    assert world.schedule_all() == {}
    world.end("cpu-only")
    assert world.schedule_all() == {}
    assert world.reason("small").code is Code.BEHIND_STRICT_HEAD
    world.engine.validate()
