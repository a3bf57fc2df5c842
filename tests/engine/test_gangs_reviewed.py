"""Gangs that end, restart and disagree with themselves: what a critical reading of the engine found."""

from __future__ import annotations

import pytest

from scheduler.instruction import BindWait
from scheduler.object_facts import ObjectFacts
from scheduler.pod import Owner
from scheduler.reason import Code
from tests.engine.gang_world import RACK, GangWorld, group, member, members
from tests.engine.world import node
from tests.replay.queued import in_queue, queue, released
from topology import vocabulary


@pytest.fixture
def world() -> GangWorld:
    """Four nodes with two devices, two in each rack."""
    made = GangWorld()
    made.add_nodes(*(node(f"n{at}", gpus=2, labels={RACK: f"r{at // 2}"}) for at in range(4)))
    return made


def started(world: GangWorld, count: int = 3) -> None:
    """A gang `g` all of whose members run."""
    world.set_group(group("g", count))
    world.create(*members("g", count))
    world.run()
    assert len(world.bound("g")) == count


# -- gangs that follow one of the same name ----------------------------------------------------------------------------


def test_pods_that_follow_an_ending_gang_come_together_anew(world: GangWorld) -> None:
    started(world)
    for at in range(3):
        world.change(f"uid-g-{at}", deleted_ms=world.now_ms)
    world.create(*members("g", 3, first=3))
    world.plan()
    assert isinstance(world.start_bind("uid-g-3"), BindWait), "two of three are not at bind"


def test_a_replacement_follows_those_that_still_run(world: GangWorld) -> None:
    started(world)
    world.change("uid-g-0", deleted_ms=world.now_ms)
    world.create(*members("g", 1, first=3))
    world.run()
    assert "g-3" in world.bound("g")


# -- members that ended ------------------------------------------------------------------------------------------------


def test_who_has_ended_is_not_missed_after_a_restart(world: GangWorld) -> None:
    started(world)
    for _ in range(2):  # shown again, when its Job lets go of it
        world.change("uid-g-0", phase="Succeeded")
    world.restart()
    world.plan()
    world.change("uid-g-0", labels={**world.pods["uid-g-0"].labels, "seen": "again"})
    world.later(61_000)
    world.later(61_000)
    assert world.evicted() == []
    world.end_badly("g-1")
    world.later(10)
    world.later(61_000)
    assert world.evicted() == ["g-2"], "of three one has ended and one is lost"


def test_the_last_pod_of_a_job_starts_after_a_restart(world: GangWorld) -> None:
    job = Owner("Job", "j", "uid-j", "batch/v1")
    world.set_group(group("g", 3))
    world.create(*members("g", 3, owner=job))
    world.run()
    for at in range(2):
        world.change(f"uid-g-{at}", phase="Succeeded")
    world.end_badly("g-2")
    world.create(*members("g", 1, first=3, owner=job))
    world.restart()
    world.run()
    assert "g-3" in world.bound("g")


def test_what_an_earlier_job_left_does_not_count_after_a_restart(world: GangWorld) -> None:
    world.set_group(group("g", 3))
    world.create(*members("g", 3, owner=Owner("Job", "j", "uid-j", "batch/v1")))
    world.run()
    for at in range(3):
        world.change(f"uid-g-{at}", phase="Succeeded")
    world.create(*members("g", 2, first=3, owner=Owner("Job", "k", "uid-k", "batch/v1")))
    world.restart()
    assert released(world.plan()) == []
    assert world.reason("g-3").code is Code.GANG_INCOMPLETE


def test_a_member_that_is_deleted_by_force_is_lost(world: GangWorld) -> None:
    started(world)
    del world.pods["uid-g-0"]
    world.engine.remove_pod("uid-g-0", world.now_ms)
    world.later(10)
    world.later(61_000)
    assert sorted(world.evicted()) == ["g-1", "g-2"]


# -- one gang, one queue -----------------------------------------------------------------------------------------------


def two_queues(world: GangWorld) -> None:
    """`large` has room for all, `small` for one device."""
    world.set_queues(queue("large", quota=8, limit=8), queue("small", quota=1, limit=1))
    world.set_group(group("g", 3))


def held(world: GangWorld) -> dict[str, int]:
    """Devices by queue."""
    books = world.engine.cluster.accounts.books
    return {name: books[name].allocated.gpu_milli // 1000 for name in ("large", "small")}


def test_the_oldest_member_comes_last(world: GangWorld) -> None:
    two_queues(world)
    world.create(*(in_queue("small", member("g", at, created_ms=2000 + at)) for at in range(2)))
    world.create(in_queue("large", member("g", 2, created_ms=1000)))
    assert {record.queue for record in world.engine.roster.records.values()} == {"large"}
    world.run()
    assert held(world) == {"large": 3, "small": 0}


def test_members_with_owners_in_different_queues(world: GangWorld) -> None:
    two_queues(world)
    for at, name in enumerate(("large", "small", "small")):
        labels = {vocabulary.QUEUE.key: name}
        job = ObjectFacts("batch/v1", "Job", "default", f"j{at}", f"uid-j{at}", labels=labels)
        world.objects.add(job)
        world.create(member("g", at, created_ms=1000 + at, owner=Owner("Job", f"j{at}", f"uid-j{at}", "batch/v1")))
    world.run()
    assert held(world) == {"large": 3, "small": 0}
    world.engine.validate()


@pytest.mark.parametrize("first", ["g-0", "g-2"])
def test_a_running_gang_is_in_the_same_queue_after_a_restart(world: GangWorld, first: str) -> None:
    two_queues(world)
    order = {"g-0": (0, 1, 2), "g-2": (2, 1, 0)}[first]
    for age, at in enumerate(order):
        world.create(in_queue("small" if age else "large", member("g", at, created_ms=1000 + age)))
    world.run()
    assert held(world) == {"large": 3, "small": 0}
    world.restart()
    assert held(world) == {"large": 3, "small": 0}
    world.engine.validate()


# -- pods that wait and are told why -----------------------------------------------------------------------------------


def test_a_surplus_group_that_lacks_pods_says_so(world: GangWorld) -> None:
    groups = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}]
    world.set_group(group("g", None, minSubGroup=1, subGroups=groups))
    world.create(member("g", 0, subgroup="a"))
    world.plan()
    world.schedule("uid-g-0")
    world.create(member("g", 1, subgroup="b"))
    for _ in range(5):
        world.later(1000)
    assert world.told() == {"g-1": Code.GANG_INCOMPLETE}
    numbers = world.reason("g-1").numbers
    assert (numbers["subgroup"], numbers["present"], numbers["needed"]) == ("b", 1, 2)
    world.create(member("g", 2, subgroup="b"))
    assert sorted(released(world.plan())) == ["g-1", "g-2"]
