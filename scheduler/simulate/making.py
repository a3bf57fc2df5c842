"""Nodes, pods and jobs made of a few figures, for scenarios that nobody wrote as Kubernetes objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.object_facts import ObjectFacts
from scheduler.pod import Container, PodFacts
from scheduler.simulate.scenario import Job
from topology import vocabulary
from topology.node import NodeFacts

DEVICE: Final = "nvidia.com/gpu"
NAMESPACE: Final = "simulated"
POD_GROUP: Final = "PodGroup"
PODS_PER_NODE: Final = 250


@dataclass(frozen=True, slots=True)
class NodeShape:
    """So many nodes that are alike. `card_mib` is the memory of each of their devices."""

    count: int
    gpus: int
    cpu_milli: int
    memory_bytes: int
    product: str = "SIMULATED"
    card_mib: int = 81_920


class JobShape(NamedTuple):
    """Jobs that ask for the same, and how often they come among others: `pods` pods, each of `devices` devices with
    `milli` of each (0 devices: none), CPU and memory. Jobs of several pods are gangs. Mean run time is `mean_ms`.
    """

    weight: int
    pods: int
    devices: int
    milli: int
    cpu_milli: int
    memory_bytes: int
    mean_ms: int

    @property
    def gpu_milli(self) -> int:
        """What a job asks for."""
        return self.pods * self.devices * self.milli


def nodes_of(shapes: Sequence[NodeShape]) -> Iterator[NodeFacts]:
    """The nodes, one after the other by name."""
    number = 0
    for shape in shapes:
        amounts = {"cpu": shape.cpu_milli, "memory": shape.memory_bytes, "pods": PODS_PER_NODE}
        labels = {}
        if shape.gpus:
            amounts[DEVICE] = shape.gpus
            labels = {f"{DEVICE}.product": shape.product, f"{DEVICE}.memory": str(shape.card_mib)}
        for _ in range(shape.count):
            facts = NodeFacts(f"node-{number:05}", labels=labels, capacity=amounts, allocatable=amounts)
            number += 1
            yield facts


class Template(NamedTuple):
    """What pods of a shape share."""

    containers: tuple[Container, ...]
    annotations: dict[str, str]


def template_of(shape: JobShape) -> Template:
    """What a pod of the shape is read from."""
    requests = {"cpu": shape.cpu_milli, "memory": shape.memory_bytes}
    limits: dict[str, int] = {}
    annotations: dict[str, str] = {}
    if shape.devices and shape.milli == 1000:
        requests[DEVICE] = limits[DEVICE] = shape.devices
    elif shape.devices:
        annotations[vocabulary.GPU_FRACTION.key] = f"0.{shape.milli:03}"
        if shape.devices > 1:
            annotations[vocabulary.GPU_FRACTION_NUM_DEVICES.key] = str(shape.devices)
    return Template((Container("main", requests, limits),), annotations)


def job_of(name: str, shape: JobShape, template: Template, at_ms: int, runs_ms: int, queue: str) -> Job:
    """A job of pods of one shape; those of several are a gang, whose group is `group_of`."""
    labels = {vocabulary.QUEUE.key: queue} if queue else {}
    if shape.pods > 1:
        labels[vocabulary.POD_GROUP.key] = name
    pods = tuple(
        PodFacts(
            f"{name}-{number}",
            NAMESPACE,
            f"{name}-{number}",
            labels=labels,
            annotations=template.annotations,
            created_ms=at_ms,
            scheduler_name=vocabulary.DEFAULT_SCHEDULER_NAME,
            containers=template.containers,
        )
        for number in range(shape.pods)
    )
    return Job(name, pods, at_ms, runs_ms)


def group_of(job: Job) -> ObjectFacts:
    """The PodGroup of a gang: all of its pods or none."""
    return ObjectFacts(
        f"{vocabulary.API_GROUP}/v1alpha1",
        POD_GROUP,
        NAMESPACE,
        job.name,
        uid=f"group-{job.name}",
        spec={"minMember": len(job.pods)},
    )
