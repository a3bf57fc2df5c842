"""Which queue a pod is in, whether its namespace may use it, and what happens when one of them changes."""

from __future__ import annotations

import pytest

from queues.spec import Access, Source
from scheduler.claim import ClaimRules
from scheduler.instruction import Tell
from scheduler.reason import Code
from scheduler.record import Stage
from tests.engine.world import node, pod
from tests.replay.queued import QueuedWorld, engine, exposed, in_queue, queue
from topology import vocabulary
from topology.selector import Requirement

DEFAULT = vocabulary.DEFAULT_QUEUE.key
TEAM_A = Access(selector=(Requirement("team", "In", ("a",)),))


@pytest.fixture
def world() -> QueuedWorld:
    found = QueuedWorld(engine())
    found.add_nodes(node("n1", gpus=8))
    return found


def namespace(world: QueuedWorld, name: str, **labels: str) -> None:
    """A namespace with these labels; `default_queue` stands for the long key."""
    written = {DEFAULT if key == "default_queue" else key: value for key, value in labels.items()}
    world.engine.set_namespace(name, written, world.now_ms)


def test_without_any_queue_a_name_does_not_matter(world: QueuedWorld) -> None:
    world.create(in_queue("whatever", pod("a", whole=1)), pod("b", whole=1))
    assert set(world.schedule_all()) == {"a", "b"}


def test_namespaces_by_name(world: QueuedWorld) -> None:
    world.set_queues(queue("a", access=Access(frozenset({"blue", "red"}))))
    world.create(
        in_queue("a", pod("in-blue", whole=1), namespace="blue"),
        in_queue("a", pod("in-green", whole=1), namespace="green"),
    )
    assert list(world.schedule_all()) == ["in-blue"]
    reason = world.reason("in-green")
    assert reason.code is Code.QUEUE_NOT_ALLOWED
    assert reason.numbers == {"queue": "a", "namespace": "green"}
    assert world.engine.roster.records["uid-in-green"].stage is Stage.UNQUEUED
    assert world.engine.cluster.accounts.books["a"].waiting == 0, "it is no demand of a queue that it may not use"
    (tell,) = [said for said in world.said if isinstance(said, Tell)]
    assert (tell.name, tell.reason.code, tell.gated) == ("in-green", Code.QUEUE_NOT_ALLOWED, True)


def test_namespaces_by_labels_which_may_change(world: QueuedWorld) -> None:
    world.set_queues(queue("a", access=TEAM_A))
    namespace(world, "blue", team="a")
    world.create(
        in_queue("a", pod("in-blue", whole=1), namespace="blue"),
        in_queue("a", pod("in-green", whole=1), namespace="green"),
    )
    assert list(world.schedule_all()) == ["in-blue"], "a namespace of which nothing is known has no labels"
    namespace(world, "green", team="b")
    assert world.schedule_all() == {}
    namespace(world, "green", team="a")
    assert list(world.schedule_all()) == ["in-green"]
    world.engine.validate()


def test_names_and_labels_add_up(world: QueuedWorld) -> None:
    world.set_queues(queue("a", access=Access(frozenset({"red"}), TEAM_A.selector)))
    namespace(world, "blue", team="a")
    namespace(world, "red", team="b")
    for name in ("blue", "red", "green"):
        world.create(in_queue("a", pod(f"in-{name}", whole=1), namespace=name))
    assert set(world.schedule_all()) == {"in-blue", "in-red"}


def test_an_empty_selector_is_for_all_and_so_is_nothing(world: QueuedWorld) -> None:
    world.set_queues(queue("all", access=Access(selector=())), queue("open"))
    for name in ("all", "open"):
        world.create(in_queue(name, pod(f"in-{name}", whole=1), namespace="anything"))
    assert set(world.schedule_all()) == {"in-all", "in-open"}


def test_who_may_use_a_queue_is_inherited_and_the_lower_decides(world: QueuedWorld) -> None:
    world.set_queues(
        queue("top", access=Access(frozenset({"blue"}))),
        queue("silent", "top"),
        queue("other", "top", access=Access(frozenset({"red"}))),
    )
    for name in ("silent", "other"):
        for space in ("blue", "red"):
            world.create(in_queue(name, pod(f"{name}-{space}", whole=1), namespace=space))
    assert set(world.schedule_all()) == {"silent-blue", "other-red"}


def test_when_the_list_shrinks_running_work_stays_and_new_work_waits(world: QueuedWorld) -> None:
    world.set_queues(queue("a", access=Access(frozenset({"blue", "red"}))))
    world.create(in_queue("a", pod("runs", whole=1), namespace="red"))
    world.schedule_all()
    world.set_queues(queue("a", access=Access(frozenset({"blue"}))))
    world.create(in_queue("a", pod("late", whole=1), namespace="red"))
    assert world.schedule_all() == {}
    assert world.reason("late").code is Code.QUEUE_NOT_ALLOWED
    assert world.running() == {"runs"}
    assert world.engine.cluster.accounts.books["a"].allocated.gpu_milli == 1000, "it still counts where it runs"


def test_a_plan_is_given_back_when_its_namespace_may_no_longer_use_the_queue(world: QueuedWorld) -> None:
    world.set_queues(queue("a", access=TEAM_A))
    namespace(world, "blue", team="a")
    world.create(in_queue("a", pod("p", whole=1), namespace="blue"))
    world.plan()
    namespace(world, "blue", team="b")
    assert world.engine.cluster.ledger.entries == {}
    assert world.engine.filter(world.pods["uid-p"], ["n1"], world.now_ms).error
    assert world.reason("p").code is Code.QUEUE_NOT_ALLOWED
    namespace(world, "blue", team="a")
    world.plan()
    assert world.schedule("uid-p") == "n1"
    world.engine.validate()


# -- which queue -----------------------------------------------------------------------------------------------------


def test_an_unknown_queue_waits_and_starts_when_it_appears(world: QueuedWorld) -> None:
    world.set_queues(queue("a"))
    world.create(in_queue("b", pod("p", whole=1)))
    assert world.schedule_all() == {}
    reason = world.reason("p")
    assert (reason.code, reason.numbers) == (Code.QUEUE_DOES_NOT_EXIST, {"queue": "b"})
    assert world.told() == {"p": "QUEUE_DOES_NOT_EXIST"}
    world.set_queues(queue("a"), queue("b"))
    assert list(world.schedule_all()) == ["p"]
    world.engine.validate()


def test_a_queue_with_queues_below_it_takes_no_work(world: QueuedWorld) -> None:
    world.set_queues(queue("top"), queue("leaf", "top"))
    world.create(in_queue("top", pod("p", whole=1)))
    assert world.schedule_all() == {}
    assert world.reason("p").code is Code.QUEUE_NOT_A_LEAF
    world.set_queues(queue("top"))
    assert list(world.schedule_all()) == ["p"]


@pytest.mark.parametrize("parents", [{"a": "gone"}, {"a": "b", "b": "a"}, {"a": "a"}], ids=["missing", "cycle", "self"])
def test_a_queue_without_a_way_up_and_the_rest_of_the_tree(world: QueuedWorld, parents: dict[str, str]) -> None:
    world.set_queues(*(queue(name, parent) for name, parent in parents.items()), queue("below", "a"), queue("fine"))
    world.create(*(in_queue(name, pod(f"in-{name}", whole=1)) for name in ("below", "fine")))
    assert list(world.schedule_all()) == ["in-fine"]
    assert world.reason("in-below").code is Code.QUEUE_BROKEN
    world.set_queues(*(queue(name) for name in parents), queue("below", "a"), queue("fine"))
    assert list(world.schedule_all()) == ["in-below"]


def test_of_two_definitions_ours_counts(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=8, source=Source.KAI), queue("a", limit=2))
    for at in range(4):
        world.create(in_queue("a", pod(f"p{at}", whole=1, created_ms=at)))
    assert len(world.schedule_all()) == 2


def test_no_label_and_no_default(world: QueuedWorld) -> None:
    world.set_queues(queue("a"))
    world.create(pod("p", whole=1))
    assert world.schedule_all() == {}
    reason = world.reason("p")
    assert (reason.code, reason.numbers) == (Code.NO_QUEUE, {"namespace": "default"})
    world.relabel("p", queue="a")
    assert list(world.schedule_all()) == ["p"]


def test_the_default_queue_of_a_namespace(world: QueuedWorld) -> None:
    world.set_queues(queue("a"), queue("b", limit=0))
    namespace(world, "default", default_queue="a")
    world.create(pod("p", whole=1), in_queue("b", pod("named", whole=1)))
    assert list(world.schedule_all()) == ["p"], "a label on the pod counts before the namespace's"
    books = world.engine.cluster.accounts.books
    assert books["a"].allocated.gpu_milli == 1000
    assert world.reason("named").code is Code.OVER_LIMIT


def test_the_default_queue_of_the_cluster_comes_last() -> None:
    world = QueuedWorld(engine(ClaimRules(default_queue="c")))
    world.add_nodes(node("n1", gpus=8))
    world.set_queues(queue("a"), queue("b"), queue("c"))
    namespace(world, "blue", default_queue="b")
    world.create(
        pod("none", whole=1),
        in_queue("a", pod("named", whole=1), namespace="blue"),
    )
    world.create(in_queue("", pod("of-blue", whole=1), namespace="blue"))
    assert set(world.schedule_all()) == {"none", "named", "of-blue"}
    books = world.engine.cluster.accounts.books
    assert {name: books[name].allocated.gpu_milli for name in "abc"} == dict.fromkeys("abc", 1000)


def test_a_default_queue_does_not_open_a_closed_queue(world: QueuedWorld) -> None:
    world.set_queues(queue("a", access=Access(frozenset({"blue"}))))
    namespace(world, "default", default_queue="a")
    world.create(pod("p", whole=1))
    assert world.schedule_all() == {}
    assert world.reason("p").code is Code.QUEUE_NOT_ALLOWED


def test_a_default_that_comes_later_and_changes(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=0), queue("b"))
    world.create(pod("p", whole=1))
    assert world.schedule_all() == {}
    namespace(world, "default", default_queue="a")
    assert world.schedule_all() == {}
    assert world.reason("p").code is Code.OVER_LIMIT
    namespace(world, "default", default_queue="b")
    assert list(world.schedule_all()) == ["p"]
    world.engine.validate()


@pytest.mark.parametrize("known_first", [True, False])
def test_running_work_counts_in_the_default_queue_whenever_that_is_known(world: QueuedWorld, known_first: bool) -> None:
    """The order in which news come at a start makes no difference for what a queue is said to hold."""
    world.set_queues(queue("a", limit=1))
    if known_first:
        namespace(world, "default", default_queue="a")
    world.create(pod("runs", whole=1, node_name="n1"))
    namespace(world, "default", default_queue="a")
    assert world.engine.cluster.accounts.books["a"].allocated.gpu_milli == 1000
    world.create(pod("waits", whole=1))
    assert world.schedule_all() == {}


def test_an_annotation_is_no_label_and_says_so(world: QueuedWorld) -> None:
    world.set_queues(queue("a"))
    namespace(world, "default", default_queue="a")
    world.create(pod("p", whole=1, annotations={vocabulary.QUEUE.key: "b"}))
    said = world.plan()
    assert any(getattr(item, "problem", "") == "QUEUE_ANNOTATION" for item in said)


def test_kai_s_spelling_of_the_label(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=1), queue("b"))
    for at in range(2):
        world.create(pod(f"p{at}", whole=1, created_ms=at, labels={"kai.scheduler/queue": "a"}))
    assert list(world.schedule_all()) == ["p0"]


def test_other_schedulers_pods_are_in_no_queue(world: QueuedWorld) -> None:
    world.set_queues(queue("a", limit=2))
    world.create(in_queue("a", pod("stranger", whole=4, scheduler="other", node_name="n1")))
    assert world.engine.cluster.accounts.books["a"].allocated.gpu_milli == 0
    assert world.engine.cluster.accounts.capacity.gpu_milli == 4000
    for at in range(3):
        world.create(in_queue("a", pod(f"p{at}", whole=1, created_ms=at)))
    assert len(world.schedule_all()) == 2


def test_a_pod_without_a_queue_is_exposed_to_nobody() -> None:
    world = QueuedWorld(engine())
    world.set_queues(queue("a", autoscaling_visible=True))
    world.create(pod("p", whole=1), in_queue("b", pod("q", whole=1)))
    assert exposed(world.plan()) == []
