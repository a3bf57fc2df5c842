"""What an administrator says about one queue, whatever kind of object says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from queues.amounts import UNLIMITED, Amounts
from topology.selector import Requirement

DEFAULT_PRIORITY: Final = 100
ONE_WEIGHT: Final = 1000


class Source(StrEnum):
    """Where a queue was read. Of two with the same name the earlier in this order wins."""

    TANGRAM = "tangram"
    FILE = "file"
    KAI = "kai"
    IMPLICIT = "implicit"
    """Nobody defined any queue: there is one, unlimited in everything."""


@dataclass(frozen=True, slots=True)
class Terms:
    """One resource of one queue, in the unit of `Amounts`: quota and limit may be UNLIMITED.

    `weight_milli` is the claim on what all quotas leave, in thousandths; 0 takes none of it.
    """

    quota: int = 0
    limit: int = UNLIMITED
    weight_milli: int = ONE_WEIGHT


UNLIMITED_TERMS: Final = Terms(quota=UNLIMITED)


@dataclass(frozen=True, slots=True)
class Access:
    """The namespaces that may use a queue: those named, and those whose labels match. Both empty: all.

    `selector` None selects nothing, an empty tuple every namespace.
    """

    namespaces: frozenset[str] = frozenset()
    selector: tuple[Requirement, ...] | None = None

    @property
    def open(self) -> bool:
        """Nothing is said, so that the parent decides."""
        return not self.namespaces and self.selector is None


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue. One that says nothing of CPU or memory is about devices alone.

    `models` holds quota and limit per GPU model, in thousandths of devices, by normalised key. `priority` orders
    leftovers and turns between siblings. `starving_after_ms` None is what the settings say. Times are milliseconds;
    `created_ms` is epoch milliseconds.
    """

    name: str
    parent: str | None = None
    uid: str = ""
    created_ms: int = 0
    priority: int = DEFAULT_PRIORITY
    cpu: Terms = UNLIMITED_TERMS
    memory: Terms = UNLIMITED_TERMS
    gpu: Terms = Terms()
    models: Mapping[str, Terms] = field(default_factory=dict)
    preempt_min_runtime_ms: int | None = None
    reclaim_min_runtime_ms: int | None = None
    access: Access = Access()
    topology: str | None = None
    pools: tuple[str, ...] = ()
    cordoned: bool = False
    strict_fifo: bool = False
    autoscaling_visible: bool = False
    starving_after_ms: int | None = None
    source: Source = Source.TANGRAM

    @property
    def terms(self) -> tuple[Terms, Terms, Terms]:
        """In the order of `Amounts`."""
        return (self.cpu, self.memory, self.gpu)

    @property
    def quota(self) -> Amounts:
        """The guaranteed share; parts may be UNLIMITED."""
        return Amounts(self.cpu.quota, self.memory.quota, self.gpu.quota)

    @property
    def limit(self) -> Amounts:
        """What the queue never exceeds; parts may be UNLIMITED."""
        return Amounts(self.cpu.limit, self.memory.limit, self.gpu.limit)

    @property
    def age_order(self) -> tuple[int, str, str]:
        """Older queues first, then by uid and name: total and stable."""
        return (self.created_ms, self.uid, self.name)


IMPLICIT: Final = QueueSpec(
    "default", cpu=UNLIMITED_TERMS, memory=UNLIMITED_TERMS, gpu=UNLIMITED_TERMS, source=Source.IMPLICIT
)
