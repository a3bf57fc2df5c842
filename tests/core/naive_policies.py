"""The policies of the literature on plain nodes, score by score; a cost is 100 less the score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from scheduler.request import Demand, Request
from tests.naive import Node, by_rows


class Task(NamedTuple):
    """A task of FGD, on nodes of the only model there is."""

    cpu: int
    milli: int
    devices: int
    popularity: float


def rooms(node: Node) -> list[int]:
    """Free milli of each device, by compute and by memory; 0 on an unhealthy one."""
    return [_room(node.free_milli(row), node.free_mib(row), row, node) for row in range(len(node.devices))]


def _room(milli: int, mib: int, row: int, node: Node) -> int:
    device = node.devices[row]
    if not device.healthy:
        return 0
    if device.memory_mib:
        milli = min(milli, ((mib + 1) * 1000 - 1) // device.memory_mib)
    return max(milli, 0)


def room_after(node: Node, request: Request, row: int) -> int:
    """The same of one device after a part of the share."""
    total = node.devices[row].memory_mib
    mib = request.share_memory_mib or request.share_milli * total // 1000
    return _room(node.free_milli(row) - request.share_milli, node.free_mib(row) - mib, row, node)


def suits(node: Node, request: Request, row: int) -> bool:
    """Whether a device has room for a part of the share."""
    device = node.devices[row]
    if not device.healthy:
        return False
    if request.share_milli:
        return rooms(node)[row] >= request.share_milli
    return device.memory_mib > 0 and max(node.free_mib(row), 0) >= request.share_memory_mib


def tightest(node: Node, request: Request) -> list[int]:
    """The devices with least room that suffice, no more untouched ones than may be opened."""
    chosen: list[int] = []
    may_open = node.may_open()
    for _ in range(request.device_count):
        able = [
            row
            for row in range(len(node.devices))
            if row not in chosen and suits(node, request, row) and (may_open > 0 or node.holders(row))
        ]
        row = min(able, key=lambda row: (rooms(node)[row], row))
        chosen.append(row)
        may_open -= not node.holders(row)
    return chosen


def counted(node: Node, request: Request) -> bool:
    """Whether whole devices are asked for that the node only counts."""
    return request.demand is Demand.WHOLE and not by_rows(node, request)


def free_in_all(node: Node, request: Request) -> int:
    """Free milli of all devices, counted ones as whole."""
    return sum(rooms(node)) + (1000 * max(node.free(request.device_resource), 0) if counted(node, request) else 0)


def taken_in_all(node: Node, request: Request) -> int:
    """What the request takes."""
    if request.demand is Demand.SHARE:
        return sum(rooms(node)[row] - room_after(node, request, row) for row in tightest(node, request))
    return 1000 * request.device_count if request.demand is Demand.WHOLE else 0


def dotprod(node: Node, request: Request) -> int:
    """By the product of free and asked."""
    product = max(node.free("cpu"), 0) / 128000 * (request.cpu_milli / 128000)
    product += free_in_all(node, request) / 8000 * (taken_in_all(node, request) / 8000)
    return max(100 - int(100 * (1 - product / 2)), 0)


def bestfit(node: Node, request: Request) -> int:
    """By what stays free."""
    cpu = node.free("cpu") - request.cpu_milli
    milli = free_in_all(node, request) - taken_in_all(node, request)
    return max(100 - int(100 * (1 - (0.5 * cpu / 128000 + 0.5 * milli / 8000))), 0)


def gpu_packing(node: Node, request: Request) -> int:
    """Devices in use, then nodes in use, then small nodes."""
    if request.demand is Demand.NONE:
        return 100
    count, idle = len(node.devices), len(node.untouched())
    if counted(node, request):
        count, idle = node.total(request.device_resource), node.free(request.device_resource)
    opened, before = request.device_count, 0
    if request.demand is Demand.SHARE:
        rows = tightest(node, request)
        opened, before = sum(not node.holders(row) for row in rows), sum(rooms(node)[row] for row in rows)
    if idle >= count:
        return max(100 - max(33 - count, count), 0)
    if opened:
        return 100 - max(50 - opened, 33)
    return 100 - max(100 - before * 100 // 1000 // 10, 50)


def gpu_clustering(node: Node, request: Request) -> int:
    """Nodes with pods of the same kind, then untouched ones."""
    if request.demand is Demand.NONE:
        return 100
    kinds = {_kind(held) for held, _ in node.held if held.demand is not Demand.NONE}
    score = 25 * max(8000 - free_in_all(node, request), 0) // 8000
    if _kind(request) in kinds:
        score += 75 if len(kinds) == 1 else 50
    elif not kinds:
        score += 25
    return max(100 - score, 0)


def _kind(request: Request) -> object:
    return "share" if request.demand is Demand.SHARE else min(request.device_count, 9)


def fragmentation(free: Sequence[int], cpu: int, tasks: Sequence[Task]) -> float:
    """The free devices that a task cannot use, in the mean over tasks: six sums, added in one order.

    No task is kept away by the model, so the last of them stays 0.
    """
    sums = [0.0] * 6
    for task in tasks:
        suffices = cpu >= task.cpu
        fitting = [room for room in free if room >= task.milli]
        if not task.devices:
            sums[3 if suffices else 4] += task.popularity * sum(free)
        elif len(fitting) < task.devices:
            sums[1 if suffices else 0] += task.popularity * sum(free)
        elif suffices:
            sums[1] += task.popularity * sum(room for room in free if room < task.milli)
        else:
            sums[2] += task.popularity * sum(free)
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5]


def fgd(node: Node, request: Request, tasks: Sequence[Task]) -> tuple[int, list[int]]:
    """The cost, and the devices of a share: one after the other the first with the greatest score."""
    free, cpu = rooms(node), node.free("cpu")
    before = step = fragmentation(free, cpu, tasks)
    cpu -= request.cpu_milli
    chosen: list[int] = []
    if request.demand is Demand.SHARE:
        may_open = node.may_open()
        for _ in range(request.device_count):
            afters = {
                row: fragmentation([*free[:row], room_after(node, request, row), *free[row + 1 :]], cpu, tasks)
                for row in range(len(node.devices))
                if row not in chosen and suits(node, request, row) and (may_open > 0 or node.holders(row))
            }
            scores = {row: _score(step - after) for row, after in afters.items()}
            row = max(scores, key=scores.__getitem__)  # the first of equals
            chosen.append(row)
            may_open -= not node.holders(row)
            free[row], step = room_after(node, request, row), afters[row]
    elif request.demand is Demand.WHOLE and not counted(node, request):
        for row in node.untouched()[: request.device_count]:
            free[row] = 0
    return 100 - _score(before - fragmentation(free, cpu, tasks)), chosen


def _score(gain: float) -> int:
    return int(100 * (1 / (1 + math.exp(-gain / 1000))))
