"""Whatever is simulated: no device and no node holds too much, and nobody is turned away for whom there is room."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.allocation import Allocation
from scheduler.packing.named import NAMES, policy_named
from scheduler.pod import PodFacts
from scheduler.request import Request
from scheduler.simulate.result import Result
from scheduler.simulate.run import Simulation
from scheduler.simulate.scenario import Scenario
from tests.simulate.naive import NaiveCluster
from tests.simulate.strategies import scenarios
from topology.node import NodeFacts

SETTINGS = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Watched:
    """A simulation of which every change is followed in a naive cluster, as it happens."""

    def __init__(self, given: Scenario, policy: str) -> None:
        self.simulation = Simulation(given, policy_named(policy), policy)
        self.naive = NaiveCluster()
        self.placed: dict[str, str] = {}
        for facts in given.nodes:
            self.naive.add(facts)
        self._follow()

    def _follow(self) -> None:
        cluster = self.simulation._site.cluster
        book, release, set_node, remove_node = cluster.book, cluster.release, cluster.set_node, cluster.remove_node

        def follow_book(pod: PodFacts, request: Request, allocation: Allocation, deadline_ms: int | None) -> None:
            book(pod, request, allocation, deadline_ms)
            devices = [(share.index, share.milli) for share in allocation.devices]
            self.naive.take(pod, allocation.node, devices)
            self.placed[pod.uid] = allocation.node

        def follow_release(uid: str) -> object:
            entry = release(uid)
            if entry is not None:
                self.naive.give(uid)
            return entry

        def follow_set_node(facts: NodeFacts) -> bool:
            self.naive.add(facts)
            return set_node(facts)

        def follow_remove_node(name: str) -> None:
            remove_node(name)
            del self.naive.nodes[name]

        cluster.book = follow_book  # type: ignore[method-assign]
        cluster.release = follow_release  # type: ignore[method-assign,assignment]
        cluster.set_node = follow_set_node  # type: ignore[method-assign]
        cluster.remove_node = follow_remove_node  # type: ignore[method-assign]

    def run(self) -> Result:
        result = self.simulation.run()
        self.simulation._site.cluster.validate()
        running = sum(share.milli for entry in self.entries() for share in entry)
        assert result.allocated_gpu_milli == running
        return result

    def entries(self) -> list[tuple]:  # type: ignore[type-arg]
        return [entry.devices for entry in self.simulation._site.cluster.ledger.entries.values()]


def after(watched: Watched, name: str, check: Callable[[], None]) -> None:
    """Calls `check` after every call of a method of the simulation."""
    method = getattr(watched.simulation, name)

    def checked(*arguments: object) -> None:
        method(*arguments)
        check()

    setattr(watched.simulation, name, checked)


@pytest.mark.parametrize("policy", NAMES)
@SETTINGS
@given(data=st.data())
def test_jobs_that_are_lost(policy: str, data: st.DataObject) -> None:
    """A job of one pod is lost exactly when no node has room for it."""
    scenario = data.draw(scenarios(waits=False))
    watched = Watched(scenario, policy)
    site = watched.simulation._site
    arrive = site.arrive

    def checked(job: object, now_ms: int) -> bool:
        (pod,) = job.pods  # type: ignore[attr-defined]
        fits = watched.naive.fits(pod)
        assert arrive(job, now_ms) is fits  # type: ignore[arg-type]
        return fits

    site.arrive = checked  # type: ignore[method-assign]
    result = watched.run()
    for one in result.jobs:
        assert one.lost or one.started_ms == one.arrival_ms
        if one.duration_ms is not None and not one.lost:
            assert one.ended_ms == one.arrival_ms + one.duration_ms


@pytest.mark.parametrize("policy", ["binpack", "rsv"])
@SETTINGS
@given(data=st.data())
def test_jobs_of_several_pods_are_placed_whole_or_lost_whole(policy: str, data: st.DataObject) -> None:
    scenario = data.draw(scenarios(waits=False, most_pods=3))
    watched = Watched(scenario, policy)
    result = watched.run()
    alive = {one.name for one in result.jobs if not one.lost and one.ended_ms is None}
    for job in scenario.jobs:
        held = [pod.uid in watched.naive.held for pod in job.pods]
        assert held == [job.name in alive] * len(held)


@pytest.mark.parametrize("policy", NAMES)
@SETTINGS
@given(data=st.data())
def test_jobs_that_wait(policy: str, data: st.DataObject) -> None:
    """After every decision there is no room for any pod that waits; and everyone who can start does in the end."""
    scenario = data.draw(scenarios(waits=True, most_pods=2))
    watched = Watched(scenario, policy)

    def nobody_waits_for_nothing() -> None:
        site = watched.simulation._site
        for running in site._jobs.values():  # type: ignore[attr-defined]
            for uid, pod in running.pods.items():
                assert uid in running.nodes or not watched.naive.fits(pod), uid

    after(watched, "_settle", nobody_waits_for_nothing)
    result = watched.run()
    for one in result.jobs:
        assert not one.lost
        if one.ended_ms is not None:
            assert one.started_ms is not None
            assert one.duration_ms is not None
            assert one.ended_ms - one.started_ms >= one.duration_ms
            assert one.restarts or one.ended_ms == one.started_ms + one.duration_ms
        elif one.started_ms is not None and one.duration_ms is not None:
            assert one.restarts, "a job that runs ends, unless a failure stops it"


@pytest.mark.parametrize("policy", ["bestfit", "fgd"])
@SETTINGS
@given(data=st.data())
def test_a_run_is_the_same_again(policy: str, data: st.DataObject) -> None:
    scenario = data.draw(scenarios(waits=data.draw(st.booleans()), most_pods=2))
    one, other = (Simulation(scenario, policy_named(policy), policy).run() for _ in range(2))
    assert one.to_dict(jobs=True) == other.to_dict(jobs=True)
