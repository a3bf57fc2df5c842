"""What comes out of planning without a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from queues.amounts import Amounts
from queues.tree import Finding
from scheduler.allocation import DeviceShare
from scheduler.now_and_later import When
from scheduler.pod import PodFacts
from scheduler.reason import Reason


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod goes, with its devices; `after-release` when it needs what somebody is still about to give back."""

    pod: PodFacts
    node: str
    devices: tuple[DeviceShare, ...]
    when: When


@dataclass(frozen=True, slots=True)
class Pending:
    """Pods of one workload that have to wait, and why."""

    workload: str
    pods: tuple[PodFacts, ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running pod that has to go, and the workload for which."""

    pod: PodFacts
    action: Literal["stale"]
    beneficiary: str


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A queue after the round: what it is entitled to, holds, and wants in all. The fair share is that of the round."""

    name: str
    fair_share: Amounts
    allocated: Amounts
    requested: Amounts


@dataclass(slots=True)
class PlanAnswer:
    """The round's outcome, in the order in which it was decided."""

    placements: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    queues: list[QueueShare] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    warnings: list[str] = field(default_factory=list)
