"""Small scenarios, written down briefly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.packing.named import policy_named
from scheduler.pod import PodFacts
from scheduler.simulate.result import JobOutcome, Result
from scheduler.simulate.run import Simulation
from scheduler.simulate.scenario import Job, Scenario
from tests.engine.world import node, pod, share
from topology.node import NodeFacts

__all__ = ["job", "node", "outcomes", "pod", "scenario", "share", "simulate"]


def job(name: str, at_ms: int, runs_ms: int | None, *pods: PodFacts, **ask: Any) -> Job:
    """A job of the given pods, or of one that asks for `ask`."""
    return Job(name, pods or (pod(name, **ask),), at_ms, runs_ms)


def scenario(nodes: Sequence[NodeFacts], *jobs: Job, waits: bool = True, **other: Any) -> Scenario:
    """A scenario of these nodes and jobs; its jobs wait unless said otherwise."""
    return Scenario("test", tuple(nodes), jobs, waits=waits, **other)


def simulate(given: Scenario, policy: str = "binpack", **options: Any) -> Result:
    """One run."""
    return Simulation(given, policy_named(policy), policy, **options).run()


def outcomes(given: Scenario | Result) -> dict[str, tuple[int | None, int | None]]:
    """Job → when it started and ended."""
    result = given if isinstance(given, Result) else simulate(given)
    return {one.name: (one.started_ms, one.ended_ms) for one in result.jobs}


def outcome(result: Result, name: str) -> JobOutcome:
    """What became of one job."""
    return next(one for one in result.jobs if one.name == name)
