"""Gangs that need fewer pods than they have, and gangs of which some end before others, worked out by hand."""

from __future__ import annotations

from typing import Any

from scheduler.object_index import ObjectIndex
from scheduler.simulate.result import Result
from scheduler.simulate.scenario import Job, Outage, Scenario
from tests.engine.gang_world import KINDS, group, members
from tests.simulate.builders import job, node, outcome, outcomes, pod, scenario, simulate


def elastic(gpus: int, *more: Job, minimum: int = 2, **other: Any) -> Scenario:
    """Four pods of one device each, of which two are enough, on a node with so many devices."""
    wide = Job("wide", tuple(members("wide", 4)), 0, 100)
    return scenario([node("n1", gpus)], wide, *more, objects=ObjectIndex(KINDS, [group("wide", minimum)]), **other)


def most(result: Result) -> int:
    return max(sample.allocated_gpu_milli for sample in result.samples)


def test_it_starts_with_as_many_as_it_needs() -> None:
    """Room for three: it starts with them, ends with them, and what comes after it gets its place."""
    result = simulate(elastic(3, job("behind", 10, 50, whole=1)))
    assert outcomes(result) == {"wide": (0, 100), "behind": (100, 150)}
    assert most(result) == 3000
    assert result.places == ["n1"] * 3 + ["n1"]
    assert result.allocated_gpu_milli == 0


def test_one_pod_may_be_enough() -> None:
    assert outcomes(elastic(1, minimum=1)) == {"wide": (0, 100)}


def test_it_takes_all_of_its_pods_where_there_is_room() -> None:
    result = simulate(elastic(5))
    assert outcomes(result) == {"wide": (0, 100)}
    assert most(result) == 4000


def test_it_waits_for_what_it_needs() -> None:
    result = simulate(elastic(3, job("long", 0, 300, pod("long", whole=1, priority=1)), minimum=3))
    assert outcomes(result) == {"wide": (300, 400), "long": (0, 300)}


def test_it_grows_while_it_runs_and_runs_no_longer_for_it() -> None:
    """A device is free again at 40: a third pod takes it, and all of them end at 100."""
    given = elastic(3, job("first", 0, 40, pod("first", whole=1, priority=1)))
    result = simulate(given)
    assert outcomes(result) == {"wide": (0, 100), "first": (0, 40)}
    assert result.gpu_milli_ms == 3000 * 100


def test_one_that_runs_is_not_said_to_wait() -> None:
    wide = Job("wide", tuple(members("wide", 4)), 0, None)
    result = simulate(scenario([node("n1", 2)], wide, objects=ObjectIndex(KINDS, [group("wide", 2)])))
    assert outcome(result, "wide").reason == ""
    assert outcome(result, "wide").started_ms == 0


def test_a_failure_begins_it_anew() -> None:
    result = simulate(elastic(2, outages=(Outage("n1", 60, 80),)))
    assert outcomes(result) == {"wide": (0, 180)}
    assert outcome(result, "wide").restarts == 1


def test_pods_that_are_no_gang_are_all_needed() -> None:
    pair = job("pair", 0, 100, pod("p1", whole=1), pod("p2", whole=1))
    assert outcomes(scenario([node("n1", 1)], pair)) == {"pair": (None, None)}
