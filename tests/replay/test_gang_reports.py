"""What users of other schedulers reported about gangs, replayed with gangs; see `test_user_reports`."""

from __future__ import annotations

import pytest

from extender_api import text
from scheduler.instruction import Tell
from tests.engine.gang_world import GangWorld, group, members
from tests.engine.world import node, pod
from tests.replay.queued import in_queue, queue


@pytest.fixture
def world() -> GangWorld:
    made = GangWorld()
    made.add_nodes(node("n1", gpus=8), node("n2", gpus=8))
    return made


@pytest.mark.parametrize("moment", range(8))
def test_s22_a_restart_at_any_point(world: GangWorld, moment: int) -> None:
    """Kueue #1654, #15148, #14811, Volcano #2264. Two gangs of 10 want 16 devices; everything is forgotten at some
    moment → one runs whole, the other waits whole, and what is used is what is bound.
    """
    world.set_queues(queue("team", limit=16))
    for at, name in enumerate(("first", "second")):
        world.set_group(group(name, 10, queue="team"))
        world.create(*members(name, 10, created_ms=at))
    steps = 0
    for _ in range(4):
        for act in (world.plan, world.at_bind, world.land_all, world.wake):
            act()
            if steps == moment:
                world.restart()
            steps += 1
            world.check()
    world.run()
    assert sorted((len(world.bound("first")), len(world.bound("second")))) == [0, 10]
    assert world.engine.cluster.accounts.books["team"].allocated.gpu_milli == 10_000
    assert world.engine.in_flight == 0


def test_s23_one_sentence_for_a_gang(world: GangWorld) -> None:
    """Volcano #3834, #4311, #1094, Kueue #10852. A queue uses 4 of its 8, a gang of 6 comes → one sentence with what
    all six ask together, and each of them is told once.
    """
    world.set_queues(queue("team", limit=8))
    world.create(in_queue("team", pod("runs", whole=4)))
    world.run()
    world.set_group(group("six", 6, queue="team"))
    world.create(*members("six", 6, created_ms=1))
    for _ in range(200):
        world.create(pod("stranger", node_name="n2", scheduler="other"))
        world.delete("uid-stranger")
        world.later(1000)
    tells = [said for said in world.said if isinstance(said, Tell)]
    assert sorted(said.name for said in tells) == [f"six-{at}" for at in range(6)]
    assert {text.sentence(said.reason) for said in tells} == {
        "queue team would exceed its GPU limit: 6 GPUs asked, 4 GPUs of 8 GPUs in use"
    }
    world.end("runs")
    world.run()
    assert len(world.bound("six")) == 6


def test_s20_a_gang_whose_first_bind_always_fails(world: GangWorld) -> None:
    """KAI #2074, #848. It keeps nothing between its tries, and others start."""
    world.set_group(group("bad", 8))
    world.create(*members("bad", 8, created_ms=0, priority=5, whole=2))
    for at in range(10):
        world.plan()
        world.at_bind()
        for uid in sorted(world.flying):
            world.land(uid, "elsewhere")
        world.wake()
        assert world.booked("bad") == set()
        world.create(pod(f"other-{at}", whole=1, created_ms=at + 1))
        world.run(1)
        assert f"other-{at}" in world.running()
        for uid in sorted(world.pods):
            world.show(uid)
        world.end(f"other-{at}")
        world.now_ms += 500
