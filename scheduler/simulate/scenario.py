"""What is simulated: a cluster, the jobs that come to it, and what breaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from queues.spec import QueueSpec
from scheduler.object_facts import Objects
from scheduler.object_index import NO_OBJECTS
from scheduler.packing.mix import Mix
from scheduler.pod import PodFacts
from topology.inventory import InventorySettings
from topology.node import NodeFacts
from topology.topology import Topology


class ScenarioError(ValueError):
    """A scenario that contradicts itself; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Job:
    """Pods that come together and end together. `duration_ms` counts from when all of them run, or of a gang as many as
    it needs; None: for ever.

    Who belongs together (gangs) and whose they are (queues) is said by the pods themselves, as in a cluster.
    """

    name: str
    pods: tuple[PodFacts, ...]
    arrival_ms: int
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """A node is gone from `begin_ms` to `end_ms` (None: for ever)."""

    node: str
    begin_ms: int
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, and jobs in the order of their arrival. Raises ScenarioError where it contradicts itself.

    `waits`: pods that find no place wait in their queues, as live ones do; else they are lost at once, as the
    experiments of the literature have it. `mix` is the demand where it is known beforehand; else policies that learn it
    learn it from what comes. Results count arrivals from `counted_from_ms` on. `namespaces` are labels by name;
    `residents` are pods of other schedulers, which stand on nodes all the time.
    """

    name: str
    nodes: tuple[NodeFacts, ...]
    jobs: tuple[Job, ...]
    waits: bool = False
    outages: tuple[Outage, ...] = ()
    queues: tuple[QueueSpec, ...] = ()
    topologies: tuple[Topology, ...] = ()
    objects: Objects = NO_OBJECTS
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    residents: tuple[PodFacts, ...] = ()
    mix: Mix | None = None
    inventory: InventorySettings = field(default_factory=lambda: InventorySettings(shares_by_default=True))
    counted_from_ms: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        _refuse_doubles("nodes", (node.name for node in self.nodes))
        _refuse_doubles("jobs", (job.name for job in self.jobs))
        ours = (pod for job in self.jobs for pod in job.pods)
        _refuse_doubles("pods with the uid", (pod.uid for pods in (ours, self.residents) for pod in pods))
        for job in self.jobs:
            _check_job(job)
        if self.queues and not self.waits:
            raise ScenarioError("there are queues, but jobs that find no place are lost: let them wait")
        known = {node.name for node in self.nodes}
        last: dict[str, Outage] = {}
        for outage in sorted(self.outages, key=lambda outage: outage.begin_ms):
            if outage.node not in known:
                raise ScenarioError(f"an outage of {outage.node}, which is none of the nodes")
            before = last.get(outage.node)
            if before is not None and (before.end_ms is None or outage.begin_ms < before.end_ms):
                raise ScenarioError(f"{outage.node} fails at {outage.begin_ms} ms while it is gone: join the outages")
            if outage.begin_ms < 0 or (outage.end_ms is not None and outage.end_ms <= outage.begin_ms):
                raise ScenarioError(f"an outage of {outage.node} from {outage.begin_ms} to {outage.end_ms} ms")
            last[outage.node] = outage


def _refuse_doubles(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ScenarioError(f"there are two {what} {name}: give each its own name")
        seen.add(name)


def _check_job(job: Job) -> None:
    if not job.pods:
        raise ScenarioError(f"job {job.name} has no pods")
    if job.arrival_ms < 0 or (job.duration_ms is not None and job.duration_ms < 0):
        raise ScenarioError(f"job {job.name} comes at {job.arrival_ms} ms for {job.duration_ms} ms: no times before 0")
