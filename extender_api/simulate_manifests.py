"""A scenario of Kubernetes objects: the objects of a plan, with times.

A pod comes at its creationTimestamp, counted from the earliest, and runs as long as its annotation for simulations
says, else that for the expected run time. Every pod is a job of its own; gangs and queues are what they are live. Pods
of other schedulers stand on their nodes all the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from extender_api.plan_objects import read_objects
from scheduler.expectation import declared_ms, misunderstandings
from scheduler.object_facts import ObjectFacts
from scheduler.object_index import ObjectIndex
from scheduler.pod import PodFacts
from scheduler.simulate.scenario import Job, Outage, Scenario, ScenarioError
from topology import duration, vocabulary
from topology.inventory import InventorySettings
from topology.node import NodeFacts

OUR_MARKS: Final = (vocabulary.ALLOCATION, vocabulary.GPU_UUIDS, vocabulary.TOPOLOGY_DOMAIN, vocabulary.RANK)
"""What was written on pods when they were bound."""
GROUP_MARKS: Final = (*vocabulary.STALE_SINCE.spellings, *vocabulary.LAST_START.spellings)
"""What an earlier scheduler noted about groups, in times that are not those of the simulation."""


def read(documents: Sequence[Any], inventory: InventorySettings) -> Scenario:
    """The scenario of the objects. Raises ScenarioError with one line for each thing that is wrong."""
    found = read_objects(list(documents), vocabulary.DEFAULT_SCHEDULER_NAME)
    ours = [pod for pod in found.pods if pod.scheduler_name == vocabulary.DEFAULT_SCHEDULER_NAME]
    problems = list(found.problems)
    for pod in ours:
        problems += [f"pod {pod.key}: {text}" for text in misunderstandings(pod).values()]
    first_ms = min((pod.created_ms for pod in ours if pod.created_ms), default=0)
    jobs = [_job(pod, first_ms, problems) for pod in ours]
    outages = [outage for node in found.nodes for outage in _outages(node, problems)]
    if problems:
        raise ScenarioError("\n".join(problems))
    if not ours:
        raise ScenarioError(
            f"no pod has schedulerName {vocabulary.DEFAULT_SCHEDULER_NAME}: there is nothing to simulate"
        )
    return Scenario(
        "manifests",
        tuple(found.nodes),
        tuple(sorted(jobs, key=lambda job: (job.arrival_ms, job.name))),
        waits=True,
        outages=tuple(outages),
        queues=tuple(found.queues),
        topologies=tuple(found.topologies),
        objects=ObjectIndex({(item.group, item.kind) for item in found.objects}, map(_object, found.objects)),
        namespaces=found.namespaces,
        residents=tuple(pod for pod in found.pods if _is_resident(pod)),
        inventory=inventory,
    )


def _is_resident(pod: PodFacts) -> bool:
    others = pod.scheduler_name != vocabulary.DEFAULT_SCHEDULER_NAME
    return others and pod.node_name is not None and not pod.finished


def _object(facts: ObjectFacts) -> ObjectFacts:
    """The object as it was created."""
    notes = {key: text for key, text in facts.annotations.items() if key not in GROUP_MARKS}
    return replace(facts, annotations=notes, status={})


def _job(pod: PodFacts, first_ms: int, problems: list[str]) -> Job:
    """The pod as it was created, at the beginning when nobody says when: nothing of what became of it since."""
    at_ms = max(pod.created_ms - first_ms, 0)
    fresh = replace(
        pod,
        annotations={key: text for key, text in pod.annotations.items() if key not in OUR_MARKS},
        created_ms=at_ms,
        node_name=None,
        nominated_node=None,
        phase="Pending",
        started_ms=None,
        deleted_ms=None,
    )
    return Job(pod.key, (fresh,), at_ms, _runs_ms(pod, problems))


def _runs_ms(pod: PodFacts, problems: list[str]) -> int | None:
    written = pod.annotations.get(vocabulary.SIMULATED_DURATION)
    if written is None:
        return declared_ms(pod)
    try:
        return duration.parse_ms(written)
    except duration.DurationError as err:
        problems.append(f"pod {pod.key}: {vocabulary.SIMULATED_DURATION}: {err}")
        return None


def _outages(node: NodeFacts, problems: list[str]) -> Iterator[Outage]:
    text = node.annotations.get(vocabulary.SIMULATED_OUTAGE, "")
    for part in filter(None, (part.strip() for part in text.split(","))):
        where = f"node {node.name}: {vocabulary.SIMULATED_OUTAGE} {part!r}"
        begin, dash, end = part.partition("-")
        try:
            begin_ms, end_ms = duration.parse_ms(begin), duration.parse_ms(end) if end.strip() else None
        except duration.DurationError as err:
            problems.append(f"{where}: {err}")
            continue
        if not dash or (end_ms is not None and end_ms <= begin_ms):
            problems.append(f"{where}: write it as 2h-3h30m or 10h-")
            continue
        yield Outage(node.name, begin_ms, end_ms)
