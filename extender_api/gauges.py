"""Sums over the engine's state for the metrics; made every few seconds, never on the way of a request."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import prometheus_client

from extender_api import metrics
from extender_api.cluster.kube_actuator import KubeActuator
from extender_api.cluster.reflector import Reflector
from queues.amounts import UNLIMITED
from scheduler.engine import Engine
from scheduler.gang import Gang
from scheduler.record import Stage
from topology.virtual import NodeKind

QUEUE_RESOURCES: Final = ("cpu", "memory", "gpu")
"""In the order of `Amounts`."""


GANG_STATES: Final = ("waiting", "starting", "running", "broken")


class Gauges:
    """Brings the metrics that follow the state up to date."""

    def __init__(
        self, engine: Engine, reflectors: Callable[[], Iterable[Reflector[Any]]], actuator: KubeActuator
    ) -> None:
        """`reflectors` says what is followed now."""
        self._engine: Final = engine
        self._reflectors: Final = reflectors
        self._actuator: Final = actuator
        self._queues_seen: set[str] = set()
        self._counted: Counter[tuple[object, ...]] = Counter()

    def update(self) -> None:
        """Sets all of them."""
        self._nodes()
        self._devices()
        self._queues()
        self._watches()
        self._writes()
        records = self._engine.roster.records.values()
        metrics.pods_bound.set(sum(record.stage is Stage.BOUND for record in records))
        states = Counter(_state(gang) for gang in self._engine.gangs)
        for state in GANG_STATES:
            metrics.gangs.labels(state).set(states[state])
        metrics.ledger_differences.set(len(self._engine.adoption.differences))

    def _queues(self) -> None:
        accounts = self._engine.cluster.accounts
        accounts.divide()
        for gone in self._queues_seen - set(accounts.tree.queues):
            metrics.queue_amount.remove_by_labels({"queue": gone})
            metrics.queue_waiting.remove_by_labels({"queue": gone})
            metrics.queue_share_of_capacity.remove_by_labels({"queue": gone})
        self._queues_seen = set(accounts.tree.queues)
        for name, queue in accounts.tree.queues.items():
            standing = accounts.books[name]
            metrics.queue_waiting.labels(name).set(standing.waiting)
            for resource, held, total in zip(QUEUE_RESOURCES, standing.allocated, accounts.capacity, strict=True):
                metrics.queue_share_of_capacity.labels(name, resource).set(held / total if total else 0)
            for what, amounts in (
                ("allocated", standing.allocated),
                ("allocated_non_preemptible", standing.allocated_non_preemptible),
                ("requested", standing.requested),
                ("fair_share", standing.fair_share),
                ("quota", queue.spec.quota),
                ("limit", queue.spec.limit),
            ):
                for resource, value, unit in zip(QUEUE_RESOURCES, amounts, (1000, 1, 1000), strict=True):
                    shown = math.inf if value == UNLIMITED else value / unit
                    metrics.queue_amount.labels(name, resource, what).set(shown)

    def _nodes(self) -> None:
        inventories = self._engine.cluster.state.inventories
        kinds = Counter(inventory.kind for inventory in inventories if inventory is not None)
        for kind in NodeKind:
            metrics.nodes.labels(kind.value).set(kinds[kind])

    def _devices(self) -> None:
        nodes = self._engine.cluster.state.arrays
        rows = np.arange(nodes.device_total_mib.shape[1])[None, :] < nodes.device_count[:, None]
        broken = rows & ~nodes.device_healthy
        held = rows & ~broken & (nodes.device_holders > 0)
        shared = held & (nodes.device_sharers > 0)
        states = {
            "free": int((rows & ~broken & ~held).sum()),
            "shared": int(shared.sum()),
            "taken": int((held & ~shared).sum()),
            "unhealthy": int(broken.sum()),
        }
        total_milli, free_milli = int(rows.sum()) * 1000, int(nodes.device_free_milli[rows].sum())
        total_mib, free_mib = int(nodes.device_total_mib[rows].sum()), int(nodes.device_free_mib[rows].sum())
        metrics.set_devices(
            states,
            milli={"total": total_milli, "taken": total_milli - free_milli},
            memory_mib={"total": total_mib, "taken": total_mib - free_mib},
        )

    def _watches(self) -> None:
        now_s = time.monotonic()
        for reflector in self._reflectors():
            stats, kind = reflector.stats, reflector.kind
            metrics.watch_lag_seconds.labels(kind).set(stats.lag_s(now_s))
            self._count(metrics.watch_relists, stats.relists, kind)
            self._count(metrics.watch_events, stats.events, kind)
            self._count(metrics.watch_failures, stats.failures, kind)
            self._count(metrics.watch_trouble, stats.unreadable, kind, "unreadable")
            self._count(metrics.watch_trouble, stats.not_taken, kind, "not_taken")

    def _writes(self) -> None:
        notices = self._actuator.notices
        metrics.orders_waiting.set(len(self._actuator.lanes))
        metrics.notices_waiting.set(len(notices))
        self._count(metrics.notices_lost, notices.dropped, "dropped")
        self._count(metrics.notices_lost, notices.failed, "failed")

    def _count(self, counter: prometheus_client.Counter, total: int, *labels: str) -> None:
        """Brings a counter to a total that is kept elsewhere; one that began anew began at nothing."""
        key = (counter, *labels)
        known = self._counted[key]
        counter.labels(*labels).inc(total - known if total >= known else total)
        self._counted[key] = total


def _state(gang: Gang) -> str:
    if gang.broken_since_ms is not None:
        return "broken"
    if gang.forward:
        return "running"
    return "starting" if any(record.has_place for record in gang.members.values()) else "waiting"
