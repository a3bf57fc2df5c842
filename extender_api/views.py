"""What the ops API shows of the engine: plain documents, made on demand and never kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from extender_api import queue_views, text
from scheduler.allocation import DeviceShare
from scheduler.engine import Engine
from scheduler.explanation import explain
from scheduler.gang import smallest
from scheduler.ledger import Entry
from scheduler.record import PodRecord, Stage
from scheduler.request import Request
from topology.inventory import NodeInventory


def node(engine: Engine, name: str) -> dict[str, Any] | None:
    """A node with its devices and who holds what of them; None when no such node is known."""
    inventory = engine.cluster.node(name)
    if inventory is None:
        return None
    slot = engine.cluster.state.slot_of[name]
    entries = engine.cluster.ledger.on_node(name)
    holders = _holders(engine, entries)
    return {
        "name": name,
        "kind": inventory.kind.value,
        "virtual": inventory.virtual,
        "cluster": inventory.cluster,
        "ready": inventory.facts.ready,
        "unschedulable": inventory.facts.unschedulable,
        "product": inventory.product,
        "shares": inventory.shares.value,
        "devices": [
            _device(engine, slot, inventory, row, holders.get(row, [])) for row in range(len(inventory.devices))
        ],
        "counted": _counted(engine, slot, inventory),
        "pods": len(entries),
        "warnings": list(inventory.warnings),
    }


def _holders(engine: Engine, entries: Iterable[Entry]) -> dict[int, list[dict[str, Any]]]:
    """Who holds something of each device, by its index."""
    holders: dict[int, list[dict[str, Any]]] = {}
    for entry in entries:
        facts = engine.cluster.pod(entry.uid)
        for share in entry.devices:
            holder = {
                "pod": entry.uid if facts is None else facts.key,
                "milli": share.milli,
                "memoryMiB": share.memory_mib,
                "bound": entry.bound,
                "guessed": share in entry.guessed,
            }
            holders.setdefault(share.index, []).append(holder)
    return holders


def _device(
    engine: Engine, slot: int, inventory: NodeInventory, row: int, holders: list[dict[str, Any]]
) -> dict[str, Any]:
    arrays = engine.cluster.state.arrays
    device = inventory.devices[row]
    return {
        "index": device.index,
        "uuid": device.uuid,
        "healthy": device.healthy,
        "memoryMiB": device.memory_mib,
        "freeMemoryMiB": int(arrays.device_free_mib[slot, row]),
        "freeMilli": int(arrays.device_free_milli[slot, row]),
        "holders": holders,
    }


def _counted(engine: Engine, slot: int, inventory: NodeInventory) -> dict[str, dict[str, int]]:
    """Extended resources as kube-scheduler counts them."""
    state = engine.cluster.state
    found = {}
    for resource, total in inventory.facts.allocatable.items():
        column = state.columns.get(resource)
        if column is not None and "/" in resource:
            found[resource] = {"allocatable": total, "free": int(state.arrays.free[slot, column])}
    return found


def workload(engine: Engine, namespace: str, name: str, now_ms: int) -> dict[str, Any] | None:
    """One pod of ours: stage, place or reason, and story; None when no such pod is known."""
    record = _find(engine, namespace, name)
    if record is None:
        return None
    entry = engine.cluster.ledger.entries.get(record.uid)
    return {
        "namespace": namespace,
        "name": name,
        "uid": record.uid,
        "stage": record.stage.value,
        "node": None if entry is None else entry.node,
        "devices": [] if entry is None else [_share(share) for share in entry.allocation.devices],
        "request": _request(record.request),
        "gang": _gang(record),
        "preemptible": engine.cluster.accounts.is_preemptible(record.facts, record.queue or None),
        **_wait(engine, record, now_ms),
        "waitingMs": now_ms - record.since_ms if record.stage is Stage.WAITING else 0,
        "story": [{"atMs": step.at_ms, "stage": step.stage.value, "cause": step.cause} for step in record.story],
        "difference": engine.adoption.differences.get(record.uid),
    }


def _gang(record: PodRecord) -> dict[str, Any] | None:
    """The gang of a pod, None for one that goes alone. `minimum`, `present` and `placed` are pods of all the gang, the
    same of `leaf` those of its own group; minima are None while what defines the gang is not there.
    """
    gang, leaf = record.gang, record.membership.leaf
    if gang is None:
        return None
    mine = [one for one in gang.members.values() if one.membership.leaf == leaf]
    leaves = {} if gang.spec is None else {found.name: found for found in gang.spec.root.leaves()}
    return {
        "key": str(gang.key),
        "minimum": None if gang.spec is None else smallest(gang.spec.root),
        "present": len(gang.members),
        "placed": sum(one.has_place for one in gang.members.values()),
        "missing": gang.missing,
        "leaf": {
            "name": leaf,
            "minimum": leaves[leaf].minimum if leaf in leaves else None,
            "present": len(mine),
            "placed": sum(one.has_place for one in mine),
        },
        "index": record.membership.index,
        "rank": record.gang_rank if record.has_place else None,
        "domain": record.domain or None,
    }


def _find(engine: Engine, namespace: str, name: str) -> PodRecord | None:
    """The newest pod of that name."""
    for record in reversed(engine.roster.records.values()):
        if record.facts.name == name and record.facts.namespace == namespace:
            return record
    return None


def _wait(engine: Engine, record: PodRecord, now_ms: int) -> dict[str, Any]:
    """Queue and reason, and for one that waits everything that is known about its wait."""
    found = explain(engine, record, now_ms)
    document = queue_views.explanation(found)
    if found is None:
        holding = engine.cluster.accounts.holding(record.uid)
        document["queue"] = None if holding is None else holding.leaf
        document["reason"] = None if record.reason is None else text.reason_document(record.reason)
    return document


def _share(share: DeviceShare) -> dict[str, Any]:
    """A device share in the words of the contract."""
    document: dict[str, Any] = {"index": share.index, "memoryMiB": share.memory_mib, "milli": share.milli}
    return document if share.uuid is None else {**document, "uuid": share.uuid}


def _request(request: Request | None) -> dict[str, Any] | None:
    """A request for people and programs; zero parts are left out."""
    if request is None:
        return None
    parts: dict[str, Any] = {
        "cpuMilli": request.cpu_milli,
        "memoryBytes": request.memory_bytes,
        "ephemeralBytes": request.ephemeral_bytes,
        "devices": request.device_count,
        "shareMilli": request.share_milli,
        "shareMemoryMiB": request.share_memory_mib,
        **dict(request.extended),
    }
    return {key: value for key, value in parts.items() if value}


def status(engine: Engine, version: str, active: bool, unready: str | None) -> dict[str, Any]:
    """The whole in numbers."""
    return {
        "version": version,
        "active": active,
        "unready": unready,
        "nodes": engine.cluster.node_count,
        "pods": dict(Counter(record.stage.value for record in engine.roster.records.values())),
        "waiting": len(engine.roster.waiting),
        "inFlight": engine.in_flight,
        "entries": len(engine.cluster.ledger.entries),
        "differences": dict(engine.adoption.differences),
    }
