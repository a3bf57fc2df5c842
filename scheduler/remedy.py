"""What would make a waiting pod start: the smallest change, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.cluster import Cluster
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord
from scheduler.request import Demand, Request

GATES: Final = frozenset({Code.OVER_LIMIT, Code.NON_PREEMPTIBLE_OVER_QUOTA})


class Change(StrEnum):
    """What would make a workload start. The names are part of the API."""

    RAISE_LIMIT = "RAISE_LIMIT"
    RAISE_QUOTA = "RAISE_QUOTA"
    WORK_OF_QUEUE_ENDS = "WORK_OF_QUEUE_ENDS"
    """The queue that blocks gives back `amount` of `resource`."""
    DEVICES_FREE_ON_NODE = "DEVICES_FREE_ON_NODE"
    """`missing` devices become free on `node`, where the fewest are missing; `held_by` says which queues hold some."""
    ROOM_ON_NODE = "ROOM_ON_NODE"
    """`missing` of `resource` becomes free on `node`."""
    LARGER_NODE = "LARGER_NODE"
    """No node that the rules admit would hold it even if it were empty."""
    MORE_PODS = "MORE_PODS"
    """`missing` more pods of its gang are created."""
    ROOM_FOR_PODS = "ROOM_FOR_PODS"
    """There is room for `missing` more pods of its gang, beside those for which there is some now."""
    ROOM_NEAR_ONE_ANOTHER = "ROOM_NEAR_ONE_ANOTHER"
    """Room for all pods of the gang in one domain of `level`."""
    RESERVATION_ENDS = "RESERVATION_ENDS"
    QUEUE_HEAD_STARTS = "QUEUE_HEAD_STARTS"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change that would do."""

    change: Change
    numbers: Mapping[str, int | str] = field(default_factory=dict)


def remedies(cluster: Cluster, record: PodRecord, reason: Reason | None) -> Iterator[Remedy]:
    """The smallest changes that would let the pod start, each alone."""
    if reason is None or record.request is None:
        return
    if reason.code in GATES:
        yield from _at_the_gate(reason)
    elif reason.code in (Code.GANG_INCOMPLETE, Code.GANG_DOES_NOT_FIT):
        yield _for_the_gang(reason.numbers)
    elif reason.code is Code.BEHIND_STRICT_HEAD:
        yield Remedy(Change.QUEUE_HEAD_STARTS, {"queue": record.queue})
    elif reason.code is Code.RESERVED:
        yield Remedy(Change.RESERVATION_ENDS)
    elif reason.nodes or reason.code is Code.NO_NODES:
        remedy = _on_nodes(cluster, record, record.request)
        if remedy is not None:
            yield remedy


def _at_the_gate(reason: Reason) -> Iterator[Remedy]:
    numbers = reason.numbers
    asked, held, bound = (int(numbers[name]) for name in ("asked", "allocated", "bound"))
    about: dict[str, int | str] = {name: numbers[name] for name in ("queue", "resource", "model") if name in numbers}
    missing = asked + held - bound
    if asked <= bound:
        yield Remedy(Change.WORK_OF_QUEUE_ENDS, {**about, "amount": missing})
    change = Change.RAISE_LIMIT if reason.code is Code.OVER_LIMIT else Change.RAISE_QUOTA
    yield Remedy(change, {**about, "by": missing})


def _for_the_gang(numbers: Mapping[str, int | str]) -> Remedy:
    if "needed" in numbers:
        return Remedy(Change.MORE_PODS, {"missing": int(numbers["needed"]) - int(numbers["present"])})
    missing = int(numbers["pods"]) - int(numbers["fitting"])
    if missing > 0:
        return Remedy(Change.ROOM_FOR_PODS, {"missing": missing})
    return Remedy(Change.ROOM_NEAR_ONE_ANOTHER, {name: numbers[name] for name in ("pods", "level") if name in numbers})


def _on_nodes(cluster: Cluster, record: PodRecord, request: Request) -> Remedy | None:
    """The node on which the least is missing: of devices, where any are asked for, else of what else is short."""
    state = cluster.state
    mask = cluster.mask(record.facts, record.constraints)
    ask, arrays = state.ask(request), state.arrays
    enough = (arrays.total[: mask.size, ask.columns] >= ask.amounts).all(axis=1)
    slots = np.flatnonzero(mask & enough)
    if not slots.size:
        return Remedy(Change.LARGER_NODE) if len(state.slot_of) else None
    short = np.maximum(ask.amounts - arrays.free[slots, :][:, ask.columns], 0)
    devices = _missing_devices(cluster, request, slots)
    order = np.lexsort((arrays.rank[slots], short.sum(axis=1), devices))
    best = int(order[0])
    slot = int(slots[best])
    inventory = state.inventories[slot]
    assert inventory is not None
    if devices[best] > 0:
        numbers: dict[str, int | str] = {"node": inventory.name, "missing": int(devices[best])}
        holders = _holders(cluster, inventory.name)
        if holders:
            numbers["held_by"] = holders
        return Remedy(Change.DEVICES_FREE_ON_NODE, numbers)
    names = {column: name for name, column in state.columns.items()}
    for index, column in enumerate(ask.columns.tolist()):
        if short[best, index] > 0:
            resource = names.get(column, str(column))
            return Remedy(
                Change.ROOM_ON_NODE,
                {"node": inventory.name, "resource": resource, "missing": int(short[best, index])},
            )
    return None


def _missing_devices(cluster: Cluster, request: Request, slots: NDArray[np.intp]) -> NDArray[np.int64]:
    """int64[slots]: how many devices more would have to be untouched (whole) or have room (shares)."""
    arrays = cluster.state.arrays
    if request.demand is Demand.NONE:
        return np.zeros(slots.size, np.int64)
    rows = np.arange(arrays.device_total_mib.shape[1])[None, :] < arrays.device_count[slots][:, None]
    healthy = rows & arrays.device_healthy[slots]
    if request.demand is Demand.WHOLE:
        usable = healthy & (arrays.device_holders[slots] == 0)
    elif request.share_milli:
        usable = healthy & (arrays.device_room_milli[slots] >= request.share_milli)
    else:
        usable = healthy & (arrays.device_room_mib[slots] >= request.share_memory_mib)
    return np.asarray(np.maximum(request.device_count - usable.sum(axis=1), 0), np.int64)


def _holders(cluster: Cluster, node: str) -> str:
    """Queues that hold devices on a node, those with the most first: `team-b 3, team-c 1`."""
    found: Counter[str] = Counter()
    for entry in cluster.ledger.on_node(node):
        holding = cluster.accounts.holding(entry.uid)
        if holding is not None and entry.request.device_count:
            found[holding.leaf or "others"] += entry.request.device_count
    return ", ".join(f"{queue} {count}" for queue, count in found.most_common(4))
