"""Costs by the residual value of nodes: how much the best use of what is left of a node shrinks.

All amounts are integers: values in 1/UNIT milli-GPU, summed over the scenarios, so that the same tables give the same
costs on every machine. The value of a node's rest in one scenario is the Lagrangian bound of a knapsack of devices with
CPU as its side constraint; see `scheduler.packing.tables`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import inner, kernel
from scheduler.kernels.arrays import CPU, MEMORY, NO_DEVICES, SHARE, Ask, NodeArrays, Scratch
from scheduler.kernels.classic import CPU_OF_GPU
from scheduler.kernels.holding import FULL
from scheduler.kernels.rest_tables import STEP_MILLI, UNIT
from scheduler.kernels.sharing import is_among, is_repeated, room_after

if TYPE_CHECKING:
    from scheduler.packing.tables import Tables

QUANTUM = 1 << 14
"""Costs are compared in steps of so many 1/UNIT of a milli-GPU."""
OFFSET = 1 << 50
"""Costs may be negative; this keeps them above 0."""
FAR = 1 << 62


@inner
def rest_value(
    lam: NDArray[np.int64],
    whole: NDArray[np.int64],
    phi: NDArray[np.int64],
    table: int,
    idle: int,
    cpu: int,
    sums: NDArray[np.int64],
    minus: int,
    plus: int,
    least: NDArray[np.int64],
) -> int:
    """The value of a rest, summed over scenarios: `idle` whole devices, `cpu` milli, and devices in part use.

    `sums` is int64[L, S], the values of the latter; the device at step `minus` of φ is taken from it, one at `plus` is
    added. `least` is int64[S], overwritten.
    """
    levels, scenarios = sums.shape
    known = min(max(idle, 0), whole.shape[1] - 1)
    for level in range(levels):
        by_cpu = lam[level] * max(cpu, 0)
        for s in range(scenarios):
            value = by_cpu + whole[table, known, level, s] + sums[level, s]
            value += phi[table, plus, level, s] - phi[table, minus, level, s]
            least[s] = value if level == 0 else min(least[s], value)
    total = 0
    for s in range(scenarios):
        total += least[s]
    return total


@inner
def block_value(
    q: NDArray[np.int64],
    devices: NDArray[np.int64],
    cpus: NDArray[np.int64],
    memories: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    model: int,
    idle: int,
    cpu: int,
    memory: int,
) -> int:
    """What the whole blocks are worth that the rest of a node still holds; see `scheduler.packing.blocks`."""
    total = 0
    for block in range(q.size):
        if devices[block] > idle or not allowed[model, block]:
            continue
        copies = idle // devices[block]
        if cpus[block] > 0:
            copies = min(copies, max(cpu, 0) // cpus[block])
        if memories[block] > 0:
            copies = min(copies, max(memory, 0) // memories[block])
        total += copies * q[block]
    return total


@inner
def replace(sums: NDArray[np.int64], phi: NDArray[np.int64], table: int, minus: int, plus: int) -> None:
    """Changes `sums` (see `rest_value`) for good: one device at step `minus` goes, one at `plus` comes."""
    for level in range(sums.shape[0]):
        for s in range(sums.shape[1]):
            sums[level, s] += phi[table, plus, level, s] - phi[table, minus, level, s]


@kernel
def rsv_costs(nodes: NodeArrays, ask: Ask, tables: Tables, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """Writes to `buffers.cost`, for each of `slots` (int64[n]) where `buffers.fits` holds, what the request costs.

    The loss of rest value and of whole blocks, a price for what stays free (best fit), and that of scarce models. A
    device that is only counted is worth a whole one. A model that is newer than the tables counts as none.

    Devices of a share are chosen one after the other, each with the least loss of value; of equals the one with the
    least room, then the lowest index. `buffers.rows` holds the choice on the last slot. One long function, since arrays
    are taken out of their tuples once and every step needs most of them.
    """
    lam, whole, phi, table_of = tables.lam, tables.whole, tables.phi, tables.table_of
    q, q_devices, q_cpu = tables.block_q, tables.block_devices, tables.block_cpu
    q_memory, q_allowed, scarcity = tables.block_memory, tables.block_allowed, tables.scarcity
    fits, cost, rows = buffers.fits, buffers.cost, buffers.rows
    free, total_mib, holders = nodes.free, nodes.device_total_mib, nodes.device_holders
    device_count, device_column, openable = nodes.device_count, nodes.device_column, nodes.openable
    room_milli, room_mib = nodes.device_room_milli, nodes.device_room_mib
    free_milli, free_mib, models = nodes.device_free_milli, nodes.device_free_mib, nodes.model
    offer = nodes.device_room_milli if ask.milli > 0 else nodes.device_room_mib
    need = ask.milli if ask.milli > 0 else ask.mib
    demand, scenarios = ask.demand, phi.shape[3]
    unit = scenarios * QUANTUM
    sums = np.zeros((lam.size, scenarios), np.int64)
    least = np.zeros(scenarios, np.int64)
    for index in range(slots.size):
        slot = slots[index]
        if not fits[slot]:
            continue
        model = models[slot] if models[slot] < table_of.size else 0
        table = table_of[model]
        cpu, memory, idle = free[slot, CPU], free[slot, MEMORY], openable[slot]
        sums[:] = 0
        room_in_all = 0
        for row in range(device_count[slot]):
            room = room_milli[slot, row]
            room_in_all += room
            if holders[slot, row] > 0 and room >= STEP_MILLI:
                replace(sums, phi, table, 0, room // STEP_MILLI)
        before = rest_value(lam, whole, phi, table, idle, cpu, sums, 0, 0, least)
        before += scenarios * block_value(q, q_devices, q_cpu, q_memory, q_allowed, model, idle, cpu, memory)
        cpu -= ask.cpu_milli
        memory -= ask.memory_bytes
        taken = 0
        counted = 0
        if demand == SHARE:
            may_open = idle
            for k in range(ask.devices):
                best, best_loss, best_room, best_after = -1, FAR, FAR, 0
                for row in range(device_count[slot]):
                    untouched = holders[slot, row] == 0
                    if offer[slot, row] < need or (untouched and may_open <= 0) or is_among(rows, k, row):
                        continue
                    if k == 0 and is_repeated(slot, row, room_milli, room_mib, free_milli, total_mib, holders):
                        continue
                    room = room_milli[slot, row]
                    after = room_after(
                        int(free_milli[slot, row]), free_mib[slot, row], total_mib[slot, row], ask.milli, ask.mib
                    )
                    minus = 0 if untouched else room // STEP_MILLI
                    left = idle - 1 if untouched else idle
                    loss = -rest_value(lam, whole, phi, table, left, cpu, sums, minus, after // STEP_MILLI, least)
                    loss -= scenarios * block_value(q, q_devices, q_cpu, q_memory, q_allowed, model, left, cpu, memory)
                    loss = (loss + unit // 2) // unit
                    if loss < best_loss or (loss == best_loss and room < best_room):
                        best, best_loss, best_room, best_after = row, loss, room, after
                rows[k] = best
                untouched = holders[slot, best] == 0
                taken += best_room - best_after
                idle -= 1 if untouched else 0
                may_open -= 1 if untouched else 0
                replace(sums, phi, table, 0 if untouched else best_room // STEP_MILLI, best_after // STEP_MILLI)
        elif demand != NO_DEVICES:
            taken = ask.devices * FULL
            if device_count[slot] > 0 and device_column[slot] == ask.device_column:
                idle -= ask.devices
            else:
                counted = taken
                room_in_all += max(free[slot, ask.device_column], 0) * FULL
        after_it = rest_value(lam, whole, phi, table, idle, cpu, sums, 0, 0, least)
        after_it += scenarios * block_value(q, q_devices, q_cpu, q_memory, q_allowed, model, idle, cpu, memory)
        price = (max(cpu, 0) + CPU_OF_GPU * max(room_in_all - taken, 0)) * tables.best_fit
        price += scarcity[model] * taken + counted * UNIT
        cost[slot] = (before - after_it + scenarios * price + unit // 2) // unit + OFFSET
