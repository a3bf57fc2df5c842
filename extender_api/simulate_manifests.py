"""A scenario of Kubernetes objects: the objects of a plan, with times.

A pod comes at its creationTimestamp, counted from the earliest, and runs as long as its annotation for the expected
run time says. Every pod is a job of its own; gangs and queues are what they are live.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from extender_api.plan_objects import read_objects
from scheduler.expectation import declared_ms, misunderstandings
from scheduler.object_index import ObjectIndex
from scheduler.pod import PodFacts
from scheduler.simulate.scenario import Job, Outage, Scenario, ScenarioError
from topology import duration, vocabulary
from topology.inventory import InventorySettings
from topology.node import NodeFacts


def read(documents: Sequence[Any], inventory: InventorySettings) -> Scenario:
    """The scenario of the objects. Raises ScenarioError with one line for each thing that is wrong."""
    found = read_objects(list(documents), vocabulary.DEFAULT_SCHEDULER_NAME)
    ours = [pod for pod in found.pods if pod.scheduler_name == vocabulary.DEFAULT_SCHEDULER_NAME]
    problems = [*found.problems, *(text for pod in ours for text in misunderstandings(pod).values())]
    if problems:
        raise ScenarioError("\n".join(problems))
    if not ours:
        raise ScenarioError(
            f"no pod has schedulerName {vocabulary.DEFAULT_SCHEDULER_NAME}: there is nothing to simulate"
        )
    first_ms = min(pod.created_ms for pod in ours)
    jobs = sorted((_job(pod, first_ms) for pod in ours), key=lambda job: (job.arrival_ms, job.name))
    return Scenario(
        "manifests",
        tuple(found.nodes),
        tuple(jobs),
        waits=True,
        outages=tuple(outage for node in found.nodes for outage in _outages(node)),
        queues=tuple(found.queues),
        topologies=tuple(found.topologies),
        objects=ObjectIndex({(item.group, item.kind) for item in found.objects}, found.objects),
        inventory=inventory,
    )


def _job(pod: PodFacts, first_ms: int) -> Job:
    """The pod as it was created: nothing of what became of it since."""
    at_ms = pod.created_ms - first_ms
    fresh = replace(
        pod, created_ms=at_ms, node_name=None, nominated_node=None, phase="Pending", started_ms=None, deleted_ms=None
    )
    return Job(pod.key, (fresh,), at_ms, declared_ms(pod))


def _outages(node: NodeFacts) -> Iterator[Outage]:
    text = node.annotations.get(vocabulary.SIMULATED_OUTAGE, "")
    for part in filter(None, (part.strip() for part in text.split(","))):
        begin, dash, end = part.partition("-")
        try:
            begin_ms, end_ms = duration.parse_ms(begin), duration.parse_ms(end) if end.strip() else None
        except duration.DurationError as err:
            raise ScenarioError(f"node {node.name}: {vocabulary.SIMULATED_OUTAGE} {part!r}: {err}") from None
        if not dash or (end_ms is not None and end_ms <= begin_ms):
            raise ScenarioError(
                f"node {node.name}: {vocabulary.SIMULATED_OUTAGE} {part!r}: write it as 2h-3h30m or 10h-"
            )
        yield Outage(node.name, begin_ms, end_ms)
