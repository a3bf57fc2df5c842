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
from scheduler.kernels.holding import FULL
from scheduler.kernels.rest_tables import STEP_MILLI, UNIT
from scheduler.kernels.sharing import is_among, is_counted, is_repeated, offers, room_after, room_in_all

if TYPE_CHECKING:
    from scheduler.packing.tables import Tables

QUANTUM = 1 << 14
"""Costs are compared in steps of so many 1/UNIT of a milli-GPU."""
OFFSET = 1 << 50
"""Costs may be negative; this keeps them above 0."""
CPU_OF_GPU = 16
"""Milli-CPU that best fit takes for as much as a milli-GPU; as in `scheduler.packing.tables`."""
FAR = 1 << 62


@inner
def model_in(nodes: NodeArrays, tables: Tables, slot: int) -> int:
    """The model of a node; one that is newer than the tables counts as none until they are made anew."""
    model = nodes.model[slot]
    return model if model < tables.table_of.size else 0


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
def block_value(tables: Tables, model: int, idle: int, cpu: int, memory: int) -> int:
    """What the whole blocks are worth that the rest of a node still holds."""
    total = 0
    for block in range(tables.block_q.size):
        count = tables.block_devices[block]
        if count > idle or not tables.block_allowed[model, block]:
            continue
        copies = idle // count
        if tables.block_cpu[block] > 0:
            copies = min(copies, max(cpu, 0) // tables.block_cpu[block])
        if tables.block_memory[block] > 0:
            copies = min(copies, max(memory, 0) // tables.block_memory[block])
        total += copies * tables.block_q[block]
    return total


@inner
def share_loss(
    nodes: NodeArrays,
    ask: Ask,
    tables: Tables,
    slot: int,
    idle: int,
    sums: NDArray[np.int64],
    least: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> tuple[int, int]:
    """Chooses devices for a share on a slot where it fits: one after the other, each with the least loss of value.

    Of equal losses the device with the least room, then the lowest index. Writes them to `rows` and changes `sums`
    (see `rest_value`). Returns the idle devices that are left, and the milli that is taken.
    """
    lam, whole, phi = tables.lam, tables.whole, tables.phi
    model = model_in(nodes, tables, slot)
    table = tables.table_of[model]
    cpu = nodes.free[slot, CPU] - ask.cpu_milli
    memory = nodes.free[slot, MEMORY] - ask.memory_bytes
    unit = phi.shape[3] * QUANTUM
    may_open = nodes.openable[slot]
    taken = 0
    for k in range(ask.devices):
        best, best_loss, best_room, best_after = -1, FAR, FAR, 0
        for row in range(nodes.device_count[slot]):
            if not offers(nodes, ask, slot, row, may_open) or is_among(rows, k, row):
                continue
            if k == 0 and is_repeated(nodes, slot, row):
                continue
            room, after = nodes.device_room_milli[slot, row], room_after(nodes, ask, slot, row)
            untouched = nodes.device_holders[slot, row] == 0
            minus = 0 if untouched else room // STEP_MILLI
            left = idle - 1 if untouched else idle
            loss = -rest_value(lam, whole, phi, table, left, cpu, sums, minus, after // STEP_MILLI, least)
            loss -= phi.shape[3] * block_value(tables, model, left, cpu, memory)
            loss = (loss + unit // 2) // unit
            if loss < best_loss or (loss == best_loss and room < best_room):
                best, best_loss, best_room, best_after = row, loss, room, after
        rows[k] = best
        untouched = nodes.device_holders[slot, best] == 0
        taken += best_room - best_after
        idle -= 1 if untouched else 0
        may_open -= 1 if untouched else 0
        for level in range(sums.shape[0]):
            for s in range(sums.shape[1]):
                sums[level, s] += phi[table, best_after // STEP_MILLI, level, s]
                if not untouched:
                    sums[level, s] -= phi[table, best_room // STEP_MILLI, level, s]
    return idle, taken


@inner
def add_up(nodes: NodeArrays, tables: Tables, slot: int, sums: NDArray[np.int64]) -> None:
    """Writes to `sums` (int64[L, S]) the values of the slot's devices in part use."""
    phi = tables.phi
    table = tables.table_of[model_in(nodes, tables, slot)]
    sums[:] = 0
    for row in range(nodes.device_count[slot]):
        room = nodes.device_room_milli[slot, row]
        if nodes.device_holders[slot, row] > 0 and room >= STEP_MILLI:
            for level in range(sums.shape[0]):
                for s in range(sums.shape[1]):
                    sums[level, s] += phi[table, room // STEP_MILLI, level, s]


@kernel
def rsv_costs(nodes: NodeArrays, ask: Ask, tables: Tables, slots: NDArray[np.int64], buffers: Scratch) -> None:
    """Writes to `buffers.cost` what the request costs on each of `slots` (int64[n]) where it fits.

    The loss of rest value and of whole blocks, a price for what stays free (best fit), and the scarcity price of the
    model. A device that is only counted is worth a whole one.
    """
    lam, whole, phi = tables.lam, tables.whole, tables.phi
    scenarios = phi.shape[3]
    sums = np.zeros((lam.size, scenarios), np.int64)
    least = np.zeros(scenarios, np.int64)
    rows = np.zeros(max(nodes.device_room_milli.shape[1], ask.devices), np.int64)
    unit = scenarios * QUANTUM
    for index in range(slots.size):
        slot = slots[index]
        if not buffers.fits[slot] or nodes.virtual[slot]:
            continue
        model = model_in(nodes, tables, slot)
        table = tables.table_of[model]
        cpu, memory, idle = nodes.free[slot, CPU], nodes.free[slot, MEMORY], nodes.openable[slot]
        cpu_after, memory_after = cpu - ask.cpu_milli, memory - ask.memory_bytes
        add_up(nodes, tables, slot, sums)
        room = room_in_all(nodes, ask, slot)
        before = rest_value(lam, whole, phi, table, idle, cpu, sums, 0, 0, least)
        before += scenarios * block_value(tables, model, idle, cpu, memory)
        taken = 0
        counted = 0
        if ask.demand == SHARE:
            idle, taken = share_loss(nodes, ask, tables, slot, idle, sums, least, rows)
        elif ask.demand != NO_DEVICES:
            taken = ask.devices * FULL
            if is_counted(nodes, ask, slot):
                counted = taken
            else:
                idle -= ask.devices
        after = rest_value(lam, whole, phi, table, idle, cpu_after, sums, 0, 0, least)
        after += scenarios * block_value(tables, model, idle, cpu_after, memory_after)
        price = (max(cpu_after, 0) + CPU_OF_GPU * max(room - taken, 0)) * tables.best_fit
        price += tables.scarcity[model] * taken + counted * UNIT
        buffers.cost[slot] = (before - after + scenarios * price + unit // 2) // unit + OFFSET


@kernel
def rsv_rows(nodes: NodeArrays, ask: Ask, tables: Tables, slot: int, rows: NDArray[np.int64]) -> None:
    """Writes to the first of `rows` the devices of a share on a slot where it fits."""
    sums = np.zeros((tables.lam.size, tables.phi.shape[3]), np.int64)
    least = np.zeros(tables.phi.shape[3], np.int64)
    add_up(nodes, tables, slot, sums)
    share_loss(nodes, ask, tables, slot, nodes.openable[slot], sums, least, rows)
