"""What a result says, counted again: who ran held its place from its start to its end, and there was room for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.simulate.result import Place, Result
from scheduler.simulate.scenario import Outage, Scenario
from tests.simulate.builders import job, node, outcome, pod, scenario, share, simulate
from tests.simulate.naive import NaiveCluster
from tests.simulate.strategies import scenarios

SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
POLICIES = ("binpack", "spread", "bestfit", "fgd", "rsv")


def happened(given: Scenario, result: Result) -> Iterator[tuple[int, int, str, tuple[Place, ...]]]:
    """Time, what (0: an end, 1: a node is back, 2: it is gone, 3: a start), whose, and places."""
    for one in result.jobs:
        for number, run in enumerate(one.runs):
            if run.ended_ms != run.started_ms:  # what takes no time holds nothing that could be counted
                yield run.started_ms, 3, f"{one.name}/{number}", run.places
                if run.ended_ms is not None:
                    yield run.ended_ms, 0, f"{one.name}/{number}", run.places
    for outage in given.outages:
        yield outage.begin_ms, 2, outage.node, ()
        if outage.end_ms is not None:
            yield outage.end_ms, 1, outage.node, ()


def count_again(given: Scenario, result: Result) -> None:
    """Fails where anything holds too much, or is on a node that is not there."""
    cluster, facts = NaiveCluster(), {one.name: one for one in given.nodes}
    pods = {one.name: one for job in given.jobs for one in job.pods}
    for one in given.nodes:
        cluster.add(one)
    for _, what, whose, places in sorted(happened(given, result)):
        if what == 1:
            cluster.add(facts[whose])
        elif what == 2:
            del cluster.nodes[whose]
            assert not any(held[0] == whose for held in cluster.held.values()), "a job runs on a node that is gone"
        for place in places:
            if what == 0:
                cluster.give(pods[place.pod].uid)
            else:
                devices = [(share.index, share.milli) for share in place.devices]
                cluster.take(pods[place.pod], place.node, devices)


def check_times(given: Scenario, result: Result) -> None:
    """A job ran as long as it takes, but for runs that were stopped; each stop is a restart."""
    for one, asked in zip(result.jobs, given.jobs, strict=True):
        assert [len(run.places) for run in one.runs] == [len(asked.pods)] * len(one.runs)
        assert one.started_ms == (one.runs[0].started_ms if one.runs else None)
        if one.ended_ms is not None:
            assert one.runs[-1].ended_ms == one.ended_ms == one.runs[-1].started_ms + (asked.duration_ms or 0)
        stopped = [run for run in one.runs if run.ended_ms is not None][: None if one.ended_ms is None else -1]
        assert len(stopped) <= one.restarts
        for run in stopped:
            assert asked.duration_ms is None or (run.ended_ms or 0) - run.started_ms <= asked.duration_ms


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_nothing_is_given_twice(policy: str, waits: bool, data: st.DataObject) -> None:
    given = data.draw(scenarios(waits=waits, most_pods=3))
    result = simulate(given, policy)
    count_again(given, result)
    check_times(given, result)


def standing(given: Scenario, result: Result, number: int) -> NaiveCluster:
    """The cluster as the job of that number found it, in the order of arrival; jobs have one pod and take some time."""
    cluster, at_ms = NaiveCluster(), given.jobs[number].arrival_ms
    for facts in given.nodes:
        gone = [one for one in given.outages if one.node == facts.name and one.begin_ms <= at_ms]
        if all(one.end_ms is not None and one.end_ms <= at_ms for one in gone):
            cluster.add(facts)
    for one, asked in list(zip(result.jobs, given.jobs, strict=True))[:number]:
        for run in one.runs:
            if run.ended_ms is None or run.ended_ms > at_ms:
                (place,) = run.places
                cluster.take(asked.pods[0], place.node, [(share.index, share.milli) for share in place.devices])
    return cluster


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_nobody_is_turned_away_for_whom_there_is_room(policy: str, data: st.DataObject) -> None:
    """Of jobs of one pod that are lost where they find no place, and nobody else."""
    drawn = data.draw(scenarios(waits=False))
    lasting = (replace(one, duration_ms=None if one.duration_ms is None else one.duration_ms + 1) for one in drawn.jobs)
    given = replace(drawn, jobs=tuple(lasting))
    result = simulate(given, policy)
    for number, one in enumerate(result.jobs):
        assert bool(one.runs) == standing(given, result, number).fits(given.jobs[number].pods[0]), one.name


def test_the_runs_of_a_job_that_was_stopped() -> None:
    nodes = [node("n1", 1), node("n2", 1)]
    given = scenario(nodes, job("j", 0, 100, share("j", "0.25")), outages=(Outage("n1", 30),))
    runs = outcome(simulate(given), "j").runs
    assert [(run.started_ms, run.ended_ms, run.places[0].node) for run in runs] == [(0, 30, "n1"), (30, 130, "n2")]
    assert [(one.index, one.milli) for one in runs[0].places[0].devices] == [(0, 250)]


def test_places_in_the_document() -> None:
    given = scenario([node("n1", 2)], job("j", 0, None, pod("p", whole=2)), job("never", 0, 1, whole=3))
    ran, never = simulate(given).to_dict(jobs=True)["jobs"]
    devices = sorted(device["index"] for device in ran["places"][0]["devices"])
    assert (ran["places"][0]["pod"], ran["places"][0]["node"], devices) == ("p", "n1", [0, 1])
    assert never["places"] == []
