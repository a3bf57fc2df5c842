"""Sums over the engine's state for the metrics; made every few seconds, never on the way of a request."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np

from extender_api import metrics
from extender_api.cluster.sources import Sources
from scheduler.engine import Engine
from scheduler.record import Stage


def update(engine: Engine, sources: Sources) -> None:
    """Sets all gauges that follow the state."""
    _nodes(engine)
    _devices(engine)
    metrics.pods_bound.set(sum(record.stage is Stage.BOUND for record in engine.roster.records.values()))
    metrics.ledger_differences.set(len(engine.adoption.differences))
    for kind, reflector in sources.reflectors.items():
        metrics.watch_lag_seconds.labels(kind).set(reflector.stats.lag_s(time.monotonic()))


def _nodes(engine: Engine) -> None:
    kinds = Counter(inventory.kind.value for inventory in engine.cluster.state.inventories if inventory is not None)
    for kind, count in kinds.items():
        metrics.nodes.labels(kind).set(count)


def _devices(engine: Engine) -> None:
    nodes = engine.cluster.state.arrays
    rows = np.arange(nodes.device_total_mib.shape[1])[None, :] < nodes.device_count[:, None]
    held = rows & (nodes.device_holders > 0)
    whole = held & (nodes.device_free_milli <= 0) & (nodes.device_holders == 1)
    broken = rows & ~nodes.device_healthy
    states = {
        "free": int((rows & ~held & ~broken).sum()),
        "shared": int((held & ~whole).sum()),
        "taken": int(whole.sum()),
        "unhealthy": int(broken.sum()),
    }
    total_milli = int(rows.sum()) * 1000
    free_milli = int(nodes.device_free_milli[rows].sum())
    total_mib, free_mib = int(nodes.device_total_mib[rows].sum()), int(nodes.device_free_mib[rows].sum())
    metrics.set_devices(
        states,
        milli={"total": total_milli, "taken": total_milli - free_milli},
        memory_mib={"total": total_mib, "taken": total_mib - free_mib},
    )
