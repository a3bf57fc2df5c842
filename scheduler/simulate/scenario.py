"""What is simulated: a cluster, the jobs that come to it, and what breaks."""

from __future__ import annotations

from dataclasses import dataclass, field

from queues.spec import QueueSpec
from scheduler.object_facts import Objects
from scheduler.object_index import NO_OBJECTS
from scheduler.packing.mix import Mix
from scheduler.pod import PodFacts
from topology.inventory import InventorySettings
from topology.node import NodeFacts
from topology.topology import Topology


@dataclass(frozen=True, slots=True)
class Job:
    """Pods that come together and run as long. `duration_ms` counts from when all of them run; None: for ever.

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
    """A cluster, and jobs in the order of their arrival.

    `waits`: pods that find no place wait in their queues, as live ones do; else they are lost at once, as the
    experiments of the literature have it. `mix` is the demand where it is known beforehand; else policies that learn it
    learn it from what comes. Results count arrivals from `counted_from_ms` on.
    """

    name: str
    nodes: tuple[NodeFacts, ...]
    jobs: tuple[Job, ...]
    waits: bool = False
    outages: tuple[Outage, ...] = ()
    queues: tuple[QueueSpec, ...] = ()
    topologies: tuple[Topology, ...] = ()
    objects: Objects = NO_OBJECTS
    mix: Mix | None = None
    inventory: InventorySettings = field(default_factory=lambda: InventorySettings(shares_by_default=True))
    counted_from_ms: int = 0
    seed: int = 0
