"""Gangs that end, restart and disagree with themselves: what a critical reading of the engine found."""

from __future__ import annotations

import pytest

from scheduler.instruction import BindWait
from tests.engine.gang_world import RACK, GangWorld, group, members
from tests.engine.world import node


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
