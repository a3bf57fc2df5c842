"""Compiles every kernel before the first question comes."""

from __future__ import annotations

import time

import numpy as np

from scheduler.kernels import (
    _jit,
    arrays,
    classic,
    copies,
    devices,
    diagnose,
    feasible,
    fgd,
    holding,
    rest_tables,
    rsv,
    score,
    sharing,
)
from scheduler.packing.fgd_mix import fgd_tasks
from scheduler.packing.hardware import NOTHING
from scheduler.packing.mix import Mix
from scheduler.packing.settings import BALANCED
from scheduler.packing.tables import build


def warm() -> float:
    """Calls each kernel once with the types that live calls have. Returns the seconds it took.

    Several seconds the first time on a machine, a fraction of one when the cache of compiled kernels is there.
    """
    began = time.perf_counter()
    nodes = arrays.blank(1, arrays.FIRST_EXTENDED, 1)
    buffers = arrays.scratch(1, 1)
    rules = arrays.Rules(0, 0, 0)
    ask = arrays.Ask(np.zeros(1, np.int64), np.ones(1, np.int64), arrays.SHARE, 1, 500, 0, -1, arrays.CPU, 0, 0)
    slots, cost = np.zeros(1, np.int64), np.zeros(1, np.int64)
    feasible.holds(nodes, ask, slots, buffers.fits)
    devices.choose_share(nodes, ask, 0, slots, buffers)
    copies.count_copies(nodes, ask, np.ones(1, np.bool_), np.zeros(1, np.int64))
    holding.hold(nodes, 0, np.zeros((1, 3), np.int64), 1)
    score.share_costs(nodes, 0, slots, buffers)
    score.plain_costs(nodes, ask, rules, slots, buffers.fits, buffers.cost)
    score.settle(nodes.virtual, nodes.accelerated, nodes.pool, True, slots, buffers.fits, buffers.cost, cost)
    score.cheapest(cost, np.ones(1, np.bool_), nodes.rank)
    diagnose.unsuited(nodes, ask, buffers, 1)
    diagnose.short_of_resources(nodes, ask, buffers, 1)
    diagnose.short_of_devices(nodes, ask, buffers, 1)
    diagnose.best_share(nodes, ask, buffers, 1)
    items, worth = np.zeros((1, 1), np.int64), np.zeros((1, 1, 1), np.int64)
    room = np.zeros((1, rest_tables.STEPS + 1, 1, 1), np.int64)
    rest_tables.fill_shares(items, items, worth, room)
    rest_tables.fill_whole(items, items, worth, room, np.zeros((1, 2, 1, 1), np.int64))
    rsv.rsv_costs(nodes, ask, build(Mix((), ()), NOTHING, BALANCED), slots, buffers)
    tasks = fgd_tasks(Mix((), ()), NOTHING)
    fgd.fgd_costs(nodes, ask, tasks, slots, buffers)
    fgd.fragmentation_in_all(nodes, tasks, 1)
    sharing.weigh(nodes, ask, slots, buffers)
    classic.bestfit_costs(nodes, ask, slots, buffers)
    classic.dotprod_costs(nodes, ask, slots, buffers)
    classic.gpu_packing_costs(nodes, ask, slots, buffers)
    classic.gpu_clustering_costs(nodes, ask, slots, buffers)
    return time.perf_counter() - began


def specialisations() -> dict[str, int]:
    """Kernel → for how many argument types it has been compiled. More than one means that a caller strayed.

    Without JIT all are 0.
    """
    return {name: len(getattr(function, "signatures", ())) for name, function in _jit.KERNELS.items()}
