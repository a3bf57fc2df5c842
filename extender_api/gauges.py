"""Sums over the engine's state for the metrics; made every few seconds, never on the way of a request."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import numpy as np

from extender_api import metrics
from extender_api.cluster.sources import Sources
from scheduler.engine import Engine
from scheduler.record import Stage
from topology.virtual import NodeKind


class Gauges:
    """Brings the metrics that follow the state up to date."""

    def __init__(self, engine: Engine, sources: Sources) -> None:
        self._engine: Final = engine
        self._sources: Final = sources
        self._relists: Counter[str] = Counter()
        self._events: Counter[str] = Counter()

    def update(self) -> None:
        """Sets all of them."""
        self._nodes()
        self._devices()
        self._watches()
        records = self._engine.roster.records.values()
        metrics.pods_bound.set(sum(record.stage is Stage.BOUND for record in records))
        metrics.ledger_differences.set(len(self._engine.adoption.differences))

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
        for kind, reflector in self._sources.reflectors.items():
            stats = reflector.stats
            metrics.watch_lag_seconds.labels(kind).set(stats.lag_s(now_s))
            metrics.watch_relists.labels(kind).inc(stats.relists - self._relists[kind])
            metrics.watch_events.labels(kind).inc(stats.events - self._events[kind])
            self._relists[kind], self._events[kind] = stats.relists, stats.events
