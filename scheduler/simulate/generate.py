"""Scenarios made up from a description: nodes, a mix of jobs, how much of it, queues, and how often nodes fail.

Jobs come as a Poisson process and run for exponential or lognormal times around the mean of their shape. Everything
random follows from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from queues.amounts import UNLIMITED
from queues.spec import QueueSpec, Terms
from scheduler.object_index import ObjectIndex
from scheduler.simulate.making import POD_GROUP, JobShape, NodeShape, Template, group_of, job_of, nodes_of, template_of
from scheduler.simulate.scenario import Outage, Scenario, ScenarioError
from topology import vocabulary
from topology.node import NodeFacts

MOST_JOBS: Final = 1_000_000
MOST_SIGMA_PERCENT: Final = 300
"""Beyond, so few jobs are most of the work that the load is a matter of chance."""


class QueueShape(NamedTuple):
    """A queue: which part of the jobs is its, among other queues, and the devices that are guaranteed to it."""

    name: str
    part: int
    quota_milli: int = 0


class Failures(NamedTuple):
    """How long a node stays well, and how long it is gone then, on average."""

    between_ms: int
    repair_ms: int


@dataclass(frozen=True, slots=True)
class Description:
    """What is made up. `load_percent` is the GPU time that jobs ask for in `span_ms`, of what there is.

    `gang_percent` of the jobs that ask for several whole devices on one node come as gangs of pods of one device each.
    Times are lognormal with the standard deviation `sigma_percent` / 100 of their logarithm; None: exponential.
    """

    nodes: tuple[NodeShape, ...]
    jobs: tuple[JobShape, ...]
    load_percent: int
    span_ms: int
    queues: tuple[QueueShape, ...] = ()
    gang_percent: int = 0
    failures: Failures | None = None
    waits: bool = True
    sigma_percent: int | None = None

    def __post_init__(self) -> None:
        if not any(shape.count > 0 for shape in self.nodes):
            raise ScenarioError("there are no nodes")
        if any(min(shape.count, shape.gpus, shape.cpu_milli, shape.memory_bytes) < 0 for shape in self.nodes):
            raise ScenarioError("counts, GPUs, CPU and memory of nodes are 0 or more")
        if sum(shape.weight for shape in self.jobs) <= 0 or min(shape.weight for shape in self.jobs) < 0:
            raise ScenarioError("weights of jobs are 0 or more, and one of them is more")
        for shape in self.jobs:
            _check_shape(shape)
        if self.queues and min(queue.part for queue in self.queues) < 1:
            raise ScenarioError("the part of a queue is 1 or more")
        if self.load_percent < 1 or self.span_ms < 1:
            raise ScenarioError("load and span are more than 0")
        if not 0 <= self.gang_percent <= 100:
            raise ScenarioError(f"{self.gang_percent} percent of gangs: it is from 0 to 100")
        if self.sigma_percent is not None and not 0 <= self.sigma_percent <= MOST_SIGMA_PERCENT:
            raise ScenarioError(f"a spread of {self.sigma_percent} percent: it is from 0 to {MOST_SIGMA_PERCENT}")
        if self.failures is not None and min(self.failures) < 1:
            raise ScenarioError("the times between failures and of repairs are more than 0")


def _check_shape(shape: JobShape) -> None:
    """Raises ScenarioError for jobs that make no sense."""
    if shape.pods < 1 or shape.mean_ms < 1:
        raise ScenarioError("jobs have one pod or more, and run for 1 ms or more on average")
    if min(shape.devices, shape.cpu_milli, shape.memory_bytes) < 0:
        raise ScenarioError("devices, CPU and memory of jobs are 0 or more")
    if shape.devices and not 1 <= shape.milli <= 1000:
        raise ScenarioError(f"{shape.milli} milli of a device: it is from 1 to 1000; ask for more devices instead")


def generate(described: Description, seed: int, name: str = "generated") -> Scenario:
    """The scenario of a description and a seed. Raises ScenarioError where the description has no meaning."""
    rng = np.random.default_rng(seed)
    nodes = tuple(nodes_of(described.nodes))
    count = int(rng.poisson(_expected_jobs(described)))
    times = np.sort(rng.uniform(0, described.span_ms, count)).astype(np.int64)
    weights = np.array([shape.weight for shape in described.jobs], np.float64)
    shapes = rng.choice(len(described.jobs), count, p=weights / weights.sum())
    spans = _spans(described.sigma_percent, count, rng)
    split = rng.random(count) * 100 < described.gang_percent
    owners: Sequence[str] = [""] * count
    if described.queues:
        parts = np.array([queue.part for queue in described.queues], np.float64)
        names = [queue.name for queue in described.queues]
        owners = [names[at] for at in rng.choice(len(names), count, p=parts / parts.sum()).tolist()]
    whole = [(shape, template_of(shape)) for shape in described.jobs]
    parted = [_as_gang(shape) for shape in described.jobs]
    jobs = []
    for number, (at_ms, which, span, as_gang, queue) in enumerate(
        zip(times.tolist(), shapes.tolist(), spans.tolist(), split.tolist(), owners, strict=True)
    ):
        shape, template = (parted if as_gang else whole)[which]
        jobs.append(job_of(f"job-{number:06}", shape, template, at_ms, max(round(span * shape.mean_ms), 1), queue))
    gangs = [group_of(job) for job in jobs if len(job.pods) > 1]
    return Scenario(
        name,
        nodes,
        tuple(jobs),
        waits=described.waits,
        outages=tuple(_outages(described, nodes, rng)),
        queues=tuple(_queues(described.queues)),
        objects=ObjectIndex([(vocabulary.API_GROUP, POD_GROUP)], gangs),
        seed=seed,
    )


def _spans(sigma_percent: int | None, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """float64[count] with the mean 1."""
    if sigma_percent is None:
        return rng.exponential(1, count)
    sigma = sigma_percent / 100
    return rng.lognormal(-sigma * sigma / 2, sigma, count)


def _check_room(shape: JobShape, nodes: Sequence[NodeShape]) -> None:
    """Raises ScenarioError for jobs of which no node holds a pod."""
    if not any(
        node.count > 0
        and node.gpus >= shape.devices
        and node.cpu_milli >= shape.cpu_milli
        and node.memory_bytes >= shape.memory_bytes
        for node in nodes
    ):
        raise ScenarioError(
            f"no node holds a pod of {shape.devices} devices, {shape.cpu_milli} milli-CPU and {shape.memory_bytes} "
            "bytes: describe larger nodes, or a job of more and smaller pods"
        )


def _expected_jobs(described: Description) -> float:
    capacity_milli = 1000 * sum(shape.count * shape.gpus for shape in described.nodes)
    weight = sum(shape.weight for shape in described.jobs)
    work = sum(shape.weight * shape.gpu_milli * shape.mean_ms for shape in described.jobs)
    if not capacity_milli or not work:
        raise ScenarioError("load is GPU time: there have to be nodes with GPUs, and jobs that ask for some")
    for shape in described.jobs:
        _check_room(shape, described.nodes)
    count = described.load_percent / 100 * capacity_milli * described.span_ms * weight / work
    if count > MOST_JOBS:
        raise ScenarioError(f"about {count:,.0f} jobs would come, more than {MOST_JOBS:,}: make the span shorter")
    return count


def _as_gang(shape: JobShape) -> tuple[JobShape, Template]:
    """The same work as pods of one device each, where it is one pod with several whole devices."""
    if shape.pods > 1 or shape.devices < 2 or shape.milli < 1000:
        return shape, template_of(shape)
    parts = shape.devices
    split = shape._replace(
        pods=parts, devices=1, cpu_milli=shape.cpu_milli // parts, memory_bytes=shape.memory_bytes // parts
    )
    return split, template_of(split)


def _queues(shapes: Sequence[QueueShape]) -> Iterator[QueueSpec]:
    for shape in shapes:
        yield QueueSpec(shape.name, gpu=Terms(quota=shape.quota_milli, limit=UNLIMITED))


def _outages(described: Description, nodes: Sequence[NodeFacts], rng: np.random.Generator) -> Iterator[Outage]:
    if described.failures is None:
        return
    for facts in nodes:
        at_ms = 0
        while (at_ms := at_ms + max(round(rng.exponential(described.failures.between_ms)), 1)) < described.span_ms:
            end_ms = at_ms + max(round(rng.exponential(described.failures.repair_ms)), 1)
            yield Outage(facts.name, at_ms, end_ms)
            at_ms = end_ms
