"""What users of other schedulers reported, replayed: S1 to S24 of a collection of reports, those that need no eviction.

Each test says the input and the right outcome; the issue numbers are of the projects KAI-Scheduler, Kueue, Volcano and
HAMi. Where a report is about a gang, single pods stand for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from extender_api import text
from queues.spec import QueueSpec, Terms
from scheduler.explanation import explain
from scheduler.instruction import BindOrder, Tell
from scheduler.reason import Code
from scheduler.remedy import Change
from tests.engine.world import node, pod, share
from tests.replay.clock import MINUTE, Clock
from tests.replay.queued import QueuedWorld, engine, in_queue, queue, released

PRODUCT = "nvidia.com/gpu.product"
A100 = {PRODUCT: "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81251"}
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


def only(labels: dict[str, str]) -> dict[str, str]:
    """A node selector for one product."""
    return {PRODUCT: labels[PRODUCT]}


@pytest.mark.parametrize("declared", [True, False], ids=["with run times", "without run times"])
def test_s1_large_work_behind_a_stream_of_small_work(declared: bool) -> None:
    """KAI #1969, Kueue #534. 2 nodes × 8; eight jobs of 2 end at minutes 1 … 8; at 0 comes a job of 2 × 8, then each
    minute one of 2 that runs 10 minutes → the large one starts at 8, only jobs that end by then pass it.
    """
    world = Clock(engine(starving_after_ms=1000))
    world.add_nodes(node("n1", gpus=8), node("n2", gpus=8))
    world.set_queues(queue("team"))
    for at in range(8):
        world.submit(f"first-{at}", 2, at + 1, label="team", declared=declared)
    world.step()
    for at in range(2):
        world.submit(f"large-{at}", 8, 60, label="team", declared=declared)
    for minute in range(10):
        world.submit(f"ten-minutes-{minute}", 2, 10, label="team", declared=declared)
        world.submit(f"twenty-seconds-{minute}", 2, 1 / 3, label="team", declared=declared)
        for _ in range(6):
            world.step()
    assert max(world.started("large-0"), world.started("large-1")) <= 8
    passed = {name for name in world.started_ms if "ten-minutes" in name}
    assert passed == set()
    short = {name for name in world.started_ms if "twenty-seconds" in name}
    assert bool(short) == declared, "of which it is known that they end in time"


def test_s2_the_idle_part_of_a_guarantee_is_lent() -> None:
    """Kueue #4809, first half. A strict queue is guaranteed 200m; 100m run, 200m wait; work of a queue without any
    quota asks for 100m → it runs on what is idle.
    """
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=0, cpu_milli=200))
    world.set_queues(queue("guaranteed", cpu=Terms(200), strict_fifo=True), queue("best-effort", cpu=Terms(0)))
    world.create(in_queue("guaranteed", pod("g1", cpu_milli=100)))
    assert list(world.schedule_all()) == ["g1"]
    world.create(in_queue("guaranteed", pod("g2", cpu_milli=200, created_ms=1)))
    assert world.schedule_all() == {}
    world.create(in_queue("best-effort", pod("be1", cpu_milli=100, created_ms=2)))
    assert list(world.schedule_all()) == ["be1"]


def test_s3_strict_the_second_wants_other_nodes_than_the_first() -> None:
    """Kueue #8309. In a strict queue the first wants full A100s, the second free H100s → the second starts, the first
    keeps its place.
    """
    world = QueuedWorld(engine())
    world.add_nodes(node("a", gpus=4, labels=A100), node("h", gpus=4, labels=H100))
    world.set_queues(queue("strict", strict_fifo=True), queue("other"))
    world.create(in_queue("other", pod("holds", whole=2, node_selector=only(A100))))
    world.schedule_all()
    world.create(
        in_queue("strict", pod("first", whole=4, created_ms=1, node_selector=only(A100))),
        in_queue("strict", pod("second", whole=4, created_ms=2, node_selector=only(H100))),
        in_queue("strict", pod("third", whole=1, created_ms=3, node_selector=only(A100))),
    )
    assert world.schedule_all() == {"second": "h"}
    assert world.reason("third").nodes[Code.BEHIND_STRICT_HEAD] == 1
    world.end("holds")
    assert world.schedule_all() == {"first": "a"}


NEVER = {
    "more than its limit": pod("first", whole=7),
    "more than any node has": pod("first", whole=5),
    "a label that no node has": pod("first", whole=1, node_selector={"zone": "nowhere"}),
    "shares of more devices than any node has": share("first", "0.1", devices=5),
    "more memory than any card has": pod("first", annotations={"gpu-memory": "40001"}),
}


@pytest.mark.parametrize("wish", NEVER)
def test_s3_strict_the_first_can_never_start(wish: str) -> None:
    """Kueue #6970, #6929. The first is inadmissible, the second, of the same priority, is not → the second starts."""
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=4))
    world.set_queues(queue("strict", strict_fifo=True, limit=6))
    world.create(in_queue("strict", NEVER[wish]), in_queue("strict", pod("second", whole=4, created_ms=1)))
    assert list(world.schedule_all()) == ["second"]


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "all different"])
def test_s4_the_thousandth_fits(alike: bool) -> None:
    """Kueue #9715, #2270. 10,000 wait, the first 999 for a class of nodes that is full, no. 1,000 for a free one, and
    something happens every second → no. 1,000 starts within one cycle.
    """
    world = QueuedWorld(engine())
    world.add_nodes(node("a", gpus=8, labels=A100), node("h", gpus=1, labels=H100))
    world.set_queues(queue("team"))
    world.create(in_queue("team", pod("holds", whole=8, node_selector=only(A100))))
    world.schedule_all()
    for at in range(10_000):
        free, cpu_milli = at == 999, 1000 if alike else 1000 + at % 1000
        facts = pod(f"p{at}", whole=1, created_ms=at, cpu_milli=cpu_milli, node_selector=only(H100 if free else A100))
        world.create(in_queue("team", facts))
    stranger = pod("stranger", node_name="a", scheduler="other")
    planned: list[str] = []
    more = True
    while more:  # one cycle: rounds without a pause in between
        world.create(stranger)
        world.delete(stranger.uid)
        said, more = world.engine.plan(world.now_ms)
        planned += released(said)
    assert planned == ["p999"]


def test_s5_all_that_fits_in_one_cycle() -> None:
    """Kueue #14477. About 1,300 nodes, 536 waiting, quota free for 100 → all 100 in one cycle of less than 2.4 s."""
    world = QueuedWorld(engine())
    world.add_nodes(*(node(f"n{at:04}", gpus=8) for at in range(1300)))
    world.set_queues(queue("org", limit=100), queue("team", "org"), queue("idle", "org"))
    for at in range(536):
        world.create(in_queue("team", pod(f"p{at:03}", whole=1, created_ms=at)))
    world.engine.cluster.place_on(world.engine.roster.records["uid-p000"].request, "n0000")  # type: ignore[arg-type]
    began = time.perf_counter()
    said = world.plan()
    took_s = time.perf_counter() - began
    assert released(said) == [f"p{at:03}" for at in range(100)]
    assert took_s < 2.4


def test_s6_a_bound_on_the_wait_of_large_work() -> None:
    """Kueue #754, KAI #1970. One job of 8, endless jobs of 1 in the same queue and of the same priority → its wait is
    bounded, and the bound is shown.
    """
    world = Clock(engine(starving_after_ms=5 * MINUTE))
    world.add_nodes(node("n1", gpus=8))
    world.set_queues(queue("team"))
    for at in range(8):
        world.submit(f"first-{at}", 1, 1 + at / 2, label="team")
    world.step()
    large = world.submit("large", 8, 30, label="team")
    shown: list[float] = []
    count = 0
    while "uid-large" not in world.started_ms and world.minute < 60:
        for _ in range(2):
            world.submit(f"small-{count}", 1, 4, label="team")
            count += 1
        world.step()
        record = world.engine.roster.records[large.uid]
        found = explain(world.engine, record, world.now_ms)
        if found is not None and found.reserved_node is not None:
            assert found.start is not None
            assert found.start.high_ms is not None
            shown.append(world.minute + found.start.high_ms / MINUTE)
    assert world.started("large") <= 5 + 4 + 0.5, "the age, and the longest job that ran then"
    assert shown, "the bound is shown"
    assert world.started("large") <= shown[0] + 0.5, "and kept"
    assert count > 50


def test_s14_no_node_can_yield_so_much() -> None:
    """Kueue #5243, first half. 4 nodes × 8, on each 6 devices with work of high and 2 of low priority; a pod of high
    priority asks for 8 → it waits, and is told why; the next of 1 is not held up by it.
    """
    world = QueuedWorld(engine())
    world.add_nodes(*(node(f"n{at}", gpus=8) for at in range(4)))
    world.set_queues(queue("team"))
    for at in range(32):
        low = at % 4 == 3
        world.create(in_queue("team", pod(f"{'low' if low else 'high'}-{at:02}", whole=1, priority=0 if low else 10)))
    assert len(world.schedule_all()) == 32
    world.create(in_queue("team", pod("large", whole=8, priority=10, created_ms=1)))
    assert world.schedule_all() == {}
    found = explain(world.engine, world.engine.roster.records["uid-large"], world.now_ms)
    assert found is not None
    assert found.reason is not None
    assert found.reason.nodes == {Code.INSUFFICIENT_WHOLE_GPUS: 4}
    assert found.reason.numbers["need"] == 8
    (remedy,) = found.remedies
    assert remedy.change is Change.DEVICES_FREE_ON_NODE
    assert (remedy.numbers["missing"], remedy.numbers["held_by"]) == (8, "team 8")
    world.create(in_queue("team", pod("next", whole=1, priority=10, created_ms=2)))
    world.end("low-03")
    assert list(world.schedule_all()) == ["next"]


def test_s18_priority_of_a_queue_does_not_reach_what_runs_within_quota() -> None:
    """KAI #2065, first half. 12 devices, queues A (priority 90) and B (80), quota 8 each; a job of 8 of B runs, one
    of 8 of A arrives → it waits.
    """
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=12))
    world.set_queues(queue("a", quota=8, priority=90), queue("b", quota=8, priority=80))
    world.create(in_queue("b", pod("b1", whole=8)))
    world.schedule_all()
    world.create(in_queue("a", pod("a1", whole=8, created_ms=1)))
    assert world.schedule_all() == {}
    assert world.reason("a1").code is Code.INSUFFICIENT_WHOLE_GPUS
    assert world.running() == {"b1"}
    world.end("b1")
    world.create(in_queue("b", pod("b2", whole=8)))
    assert list(world.schedule_all()) == ["a1"], "of what is free it gets the first part"


def test_s20_a_pod_whose_bind_always_fails() -> None:
    """KAI #2074, #848. It wins every cycle → it backs off, and others start."""
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=1))
    world.set_queues(queue("a"), queue("b"))
    world.create(in_queue("a", pod("bad", whole=1, priority=100)))
    world.create(in_queue("a", pod("same-queue", whole=1, created_ms=5)), in_queue("b", pod("other", whole=1)))
    attempts: list[int] = []
    began_ms = world.now_ms
    while {"uid-same-queue", "uid-other"} & {uid for uid, facts in world.pods.items() if facts.node_name is None}:
        world.plan()
        for uid, facts in sorted(world.pods.items()):
            if facts.node_name is not None or facts.gates:
                continue
            if uid != "uid-bad":
                if world.schedule(uid) is not None:
                    world.end(facts.name)
                continue
            nodes = world.engine.filter(facts, world.fits_in_tree(facts), world.now_ms).nodes
            if nodes:
                order = world.engine.binding.start(uid, "default", "bad", nodes[0], world.now_ms)
                if isinstance(order, BindOrder):
                    attempts.append(world.now_ms)
                    world.engine.binding.finish(uid, False, world.now_ms)
        world.now_ms += 1000
        assert world.now_ms - began_ms < 10 * MINUTE
    assert len(attempts) >= 5
    world.engine.validate()


@pytest.mark.parametrize("moment", range(24))
def test_s22_a_restart_at_any_point(moment: int) -> None:
    """Kueue #1654, #15148, #14811, Volcano #2264. → What is used is what lives and is bound, and open plans; nothing is
    let in twice; plans of pods that went are freed.
    """
    names = [f"p{at}" for at in range(6)]
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=8))
    specs = [queue("org", limit=3), queue("team", "org")]
    world.set_queues(*specs)
    orders: dict[str, BindOrder] = {}

    def create() -> None:
        world.create(*(in_queue("team", pod(name, whole=1, created_ms=at)) for at, name in enumerate(names)))

    def filter_(name: str) -> None:
        if f"uid-{name}" in world.pods and not world.pods[f"uid-{name}"].gates:
            world.engine.filter(world.pods[f"uid-{name}"], ["n1"], world.now_ms)

    def start(name: str) -> None:
        facts = world.pods.get(f"uid-{name}")
        if facts is not None and not facts.gates and facts.node_name is None:
            order = world.engine.binding.start(facts.uid, "default", name, "n1", world.now_ms)
            if isinstance(order, BindOrder):
                orders[name] = order
                world.write_binding(order)

    def finish(name: str) -> None:
        if name in orders:
            world.engine.binding.finish(f"uid-{name}", True, world.now_ms)
            world.show(f"uid-{name}")

    def tick() -> None:
        world.now_ms += 120_000
        world.plan()

    script: list[Callable[[], object]] = [create, world.plan]
    for name in ("p0", "p1", "p2"):
        script += [partial(filter_, name), partial(start, name), partial(finish, name)]
    script += [world.plan, lambda: world.delete("uid-p1"), world.plan, lambda: world.delete("uid-p3"), tick]
    script += [world.schedule_all, lambda: world.end("p0"), world.schedule_all, tick, world.schedule_all]
    assert len(script) > 20
    for at, step in enumerate(script):
        if at == moment:
            world = _restarted(world, specs)
        step() if at > 1 else [create, world.plan][at]()
        _never_over(world, 3)
        world.engine.validate()
    for _ in range(6):
        tick()
        world.schedule_all()
        _never_over(world, 3)
    assert world.running() == {"p2", "p4", "p5"}
    assert world.engine.in_flight == 0
    assert world.engine.cluster.accounts.books["org"].allocated.gpu_milli == 3000


def _restarted(world: QueuedWorld, specs: Sequence[QueueSpec]) -> QueuedWorld:
    """The same truth, and an engine that has forgotten everything."""
    world.engine = engine()
    for facts in world.nodes.values():
        world.engine.cluster.set_node(facts)
    world.set_queues(*specs)
    for uid in sorted(world.pods):
        world.show(uid)
    return world


def _never_over(world: QueuedWorld, most: int) -> None:
    bound = {uid for uid, facts in world.pods.items() if facts.node_name is not None}
    assert len(bound) <= most
    assert len(set(world.engine.cluster.ledger.entries) | bound) <= most


def test_s23_one_sentence_that_says_all() -> None:
    """Volcano #3834, #4311, #1094, Kueue #10852. A queue uses 4 of its 8, a job of 6 comes → one sentence with what is
    asked, used and allowed, what would let it start, and not tens of thousands of equal events.
    """
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=8), node("n2", gpus=8))
    world.set_queues(queue("team", limit=8), queue("other"))
    world.create(in_queue("team", pod("runs", whole=4)))
    world.schedule_all()
    world.create(in_queue("team", pod("six", whole=6, created_ms=1)))
    tells: list[Tell] = []
    for _ in range(2000):
        world.create(pod("stranger", node_name="n2", scheduler="other"))
        world.delete("uid-stranger")
        tells += [said for said in world.plan() if isinstance(said, Tell)]
        world.now_ms += 1000
    (tell,) = tells
    assert text.sentence(tell.reason) == "queue team would exceed its GPU limit: 6 GPUs asked, 4 GPUs of 8 GPUs in use"
    found = explain(world.engine, world.engine.roster.records["uid-six"], world.now_ms)
    assert found is not None
    (level,) = found.levels
    assert (level.asked.gpu_milli, level.allocated.gpu_milli, level.limit.gpu_milli) == (6000, 4000, 8000)
    assert [(remedy.change, remedy.numbers.get("amount", remedy.numbers.get("by"))) for remedy in found.remedies] == [
        (Change.WORK_OF_QUEUE_ENDS, 2000),
        (Change.RAISE_LIMIT, 2000),
    ]
    world.set_queues(queue("team", limit=16), queue("other"))
    world.create(in_queue("other", pod("here", whole=3)), in_queue("other", pod("there", whole=5)))
    world.schedule_all()
    world.delete("uid-six")
    world.create(in_queue("team", pod("six-again", whole=6, created_ms=3)))
    assert world.schedule_all() == {}
    again = explain(world.engine, world.engine.roster.records["uid-six-again"], world.now_ms)
    assert again is not None
    assert again.reason is not None
    assert again.reason.code is Code.INSUFFICIENT_WHOLE_GPUS
    assert (again.reason.numbers["need"], again.reason.numbers["free"]) == (6, 3), (
        "the largest that is free in one piece"
    )
    (remedy,) = again.remedies
    assert remedy.change is Change.DEVICES_FREE_ON_NODE
    assert remedy.numbers["missing"] == 3


def test_s24_every_card_of_a_pod_counts() -> None:
    """HAMi #893, #1393. A limit of 4,000 MiB, a pod with 2 cards × 3,000 → it counts 6,000 and does not start; when
    what ran is gone nothing is in use.
    """
    world = QueuedWorld(engine())
    world.add_nodes(node("n1", gpus=4, mib=40_000))
    world.set_queues(queue("team", limit=0.1))
    two = pod("two", annotations={"gpu-memory": "3000", "gpu-fraction-num-devices": "2"})
    world.create(in_queue("team", two))
    assert world.schedule_all() == {}
    assert world.reason("two").numbers["asked"] == 150
    world.delete("uid-two")
    world.create(in_queue("team", pod("one", annotations={"gpu-memory": "3000"})))
    assert list(world.schedule_all()) == ["one"]
    books = world.engine.cluster.accounts.books
    assert books["team"].allocated.gpu_milli == 75
    world.create(replace(world.pods["uid-one"], deleted_ms=world.now_ms))
    assert books["team"].allocated.gpu_milli == 75, "while it ends it still holds the memory"
    world.delete("uid-one")
    assert (books["team"].allocated.gpu_milli, books["team"].requested.gpu_milli) == (0, 0)
