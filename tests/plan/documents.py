"""Objects as people and clusters write them, for tests of stateless plans."""

from __future__ import annotations

import json
from typing import Any

from extender_api import plan_document
from topology.inventory import InventorySettings

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
NOW = "2026-01-01T00:00:00Z"
SETTINGS = InventorySettings(shares_by_default=True)


def node(name: str, gpus: int = 0, *, mib: int = 40_000, **parts: Any) -> Object:
    """A node; `allocatable`, `labels`, `spec` and so on are laid over it."""
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"} | ({GPU: str(gpus)} if gpus else {})
    labels = {"nvidia.com/gpu.memory": str(mib)} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | parts.pop("labels", {})},
        "spec": parts.pop("spec", {}),
        "status": {"allocatable": allocatable | parts.pop("allocatable", {})} | parts.pop("status", {}),
    }


def pod(
    name: str,
    *,
    gpus: int = 0,
    fraction: str = "",
    memory: str = "",
    devices: int = 1,
    cpu: str = "1",
    on: str = "",
    scheduler: str = "tangram",
    **parts: Any,
) -> Object:
    """A pod of ours, waiting unless it is `on` a node; `metadata`, `spec` and `status` are laid over it."""
    limits = {GPU: str(gpus)} if gpus else {}
    annotations = {"gpu-fraction": fraction} if fraction else {}
    annotations |= {"gpu-memory": memory} if memory else {}
    annotations |= {"gpu-fraction-num-devices": str(devices)} if devices > 1 else {}
    annotations |= parts.pop("annotations", {})
    spec: Object = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, **limits}, "limits": limits}}],
    }
    spec |= {"nodeName": on} if on else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "annotations": annotations} | parts.pop("metadata", {}),
        "spec": spec | parts.pop("spec", {}),
        "status": {"phase": "Running" if on else "Pending"} | parts.pop("status", {}),
    }


def holding(name: str, on: str, *devices: tuple[int, int, int], backend: str = "annotation", **parts: Any) -> Object:
    """A pod on a node that holds (index, MiB, milli) of devices, by its annotation."""
    shares = [{"index": index, "memoryMiB": mib, "milli": milli} for index, mib, milli in devices]
    text = json.dumps({"v": 1, "node": on, "backend": backend, "devices": shares})
    return pod(name, on=on, annotations={"tangram.scheduler/allocation": text} | parts.pop("annotations", {}), **parts)


def leaving(item: Object, when: str = "2026-01-01T00:00:20Z") -> Object:
    """The pod while it is being deleted."""
    return {**item, "metadata": {**item["metadata"], "deletionTimestamp": when}}


def plan(*objects: Any, **options: Any) -> Object:
    """The plan of the objects at NOW."""
    document = {"objects": list(objects), "options": {"now": NOW, **options}}
    return plan_document.answer(document, inventory=SETTINGS)


def refused(document: object) -> list[str]:
    """The warnings of a document that cannot be planned."""
    try:
        plan_document.answer(document, inventory=SETTINGS)
    except plan_document.BadPlanInput as err:
        return err.warnings
    raise AssertionError("the document was planned")


def placed(answer: Object) -> dict[str, tuple[str, list[tuple[int, int, int]], str]]:
    """Pod → node, its devices as (index, MiB, milli), when."""
    return {
        item["name"]: (
            item["node"],
            [(device["index"], device["memoryMiB"], device["milli"]) for device in item["devices"]],
            item["when"],
        )
        for item in answer["placements"]
    }


def waits(answer: Object) -> dict[str, str]:
    """Pod → the code of its reason."""
    return {item["workload"]: item["reason"]["code"] for item in answer["pending"]}
