"""Tables and values of RSV once more, as docs/packing.md writes them: one pod class, one model, one room at a time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from scheduler.kernels.rest_tables import UNIT
from scheduler.packing.hardware import Model
from scheduler.packing.mix import PodClass
from scheduler.packing.rests import MOST_CPU_MILLI
from scheduler.packing.tables import Tables

Item = tuple[int, int]
"""Width and value."""


def milli_on(one: PodClass, model: Model) -> int | None:
    """Of each device there; None where it may not or cannot go."""
    if one.models is not None and model.key not in one.models:
        return None
    if not one.whole and not model.takes_shares:
        return None
    if not one.share_mib:
        return one.milli
    return -(-one.share_mib * 1000 // model.card_mib) if one.share_mib <= model.card_mib else None


def items(chosen: Sequence[PodClass], model: Model, price: int, kappa: int, most: int) -> tuple[set[Item], set[Item]]:
    """Shares by steps of 10 milli, and what takes whole devices."""
    shares, whole = set(), set()
    for one in chosen:
        milli = milli_on(one, model)
        cpu = one.cpu_milli if one.whole else one.cpu_milli // one.devices
        if milli is None or cpu > MOST_CPU_MILLI:
            continue
        if one.whole and one.devices <= most:
            whole.add((one.devices, one.devices * 1000 * UNIT + (kappa - price) * cpu))
        elif not one.whole:
            shares.add((-(-milli // 10), milli * UNIT + (kappa - price) * cpu))
    return shares, whole


def fillings(of: set[Item], most: int) -> list[int]:
    """For each room up to `most` the greatest value of any multiset of items that fits."""

    @cache
    def best(room: int) -> int:
        return max([0, *(value + best(room - width) for width, value in of if width <= room)])

    return [best(room) for room in range(most + 1)]


def value(tables: Tables, model: int, cpu: int, untouched: int, rooms: Sequence[int]) -> Fraction:
    """V of a node's rest in milli-GPU; `rooms` are the milli-GPU free on devices in part use."""
    table, scenarios = int(tables.table_of[model]), tables.phi.shape[3]
    total = 0
    for s in range(scenarios):
        total += min(
            int(price) * cpu
            + int(tables.whole[table, untouched, at, s])
            + sum(int(tables.phi[table, room // 10, at, s]) for room in rooms)
            for at, price in enumerate(tables.lam)
        )
    return Fraction(total, scenarios * UNIT)


def block_value(tables: Tables, model: int, cpu: int, memory: int, untouched: int) -> Fraction:
    """B of a node in milli-GPU."""
    total = 0
    for b in range(len(tables.block_q)):
        if tables.block_allowed[model, b]:
            count = untouched // int(tables.block_devices[b])
            if tables.block_cpu[b]:
                count = min(count, cpu // int(tables.block_cpu[b]))
            if tables.block_memory[b]:
                count = min(count, memory // int(tables.block_memory[b]))
            total += count * int(tables.block_q[b])
    return Fraction(total, UNIT)
