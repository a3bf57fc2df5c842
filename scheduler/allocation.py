"""What a pod gets: a node and shares of its devices; and the annotation that records it on the bound pod."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

VERSION: Final = 1
FULL_MILLI: Final = 1000
BACKEND: Final = "annotation"


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """A part of one device: `milli` of 1000 of its compute and `memory_mib` of its memory."""

    index: int
    memory_mib: int
    milli: int
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """A node and the shares taken there. `devices` is empty for pods without devices and on virtual nodes."""

    node: str
    devices: tuple[DeviceShare, ...] = ()
    backend: str = BACKEND


class AllocationError(ValueError):
    """An allocation annotation that cannot be read; the text says what is wrong."""


def to_annotation(allocation: Allocation) -> str:
    """The JSON of the design's contract; the same allocation always gives the same text."""
    devices = []
    for share in allocation.devices:
        entry: dict[str, Any] = {"index": share.index}
        if share.uuid is not None:
            entry["uuid"] = share.uuid
        entry |= {"memoryMiB": share.memory_mib, "milli": share.milli}
        devices.append(entry)
    document = {"v": VERSION, "node": allocation.node, "backend": allocation.backend, "devices": devices}
    return json.dumps(document, separators=(",", ":"))


def visible_devices(allocation: Allocation) -> str:
    """The value of `tangram.scheduler/gpu-uuids`: UUIDs where every one is known, else indices."""
    if all(share.uuid for share in allocation.devices):
        return ",".join(str(share.uuid) for share in allocation.devices)
    return ",".join(str(share.index) for share in allocation.devices)


def from_annotation(text: str) -> Allocation:
    """Reads the annotation of a bound pod. Unknown keys are ignored.

    Raises AllocationError when it is no JSON object of version 1 with the required members in range.
    """
    try:
        document = json.loads(text)
    except ValueError as err:
        raise AllocationError(f"not JSON: {err}") from None
    if not isinstance(document, dict):
        raise AllocationError("not a JSON object")
    if document.get("v") != VERSION:
        raise AllocationError(f"version {document.get('v')!r}, this Tangram reads {VERSION}")
    node = document.get("node")
    backend = document.get("backend", BACKEND)
    devices = document.get("devices", [])
    if not isinstance(node, str) or not node:
        raise AllocationError("no node")
    if not isinstance(backend, str) or not isinstance(devices, list):
        raise AllocationError("backend must be text and devices a list")
    shares = tuple(_share(entry) for entry in devices)
    if len({share.index for share in shares}) != len(shares):
        raise AllocationError("a device index stands twice")
    return Allocation(node=node, devices=shares, backend=backend)


def _share(entry: object) -> DeviceShare:
    if not isinstance(entry, dict):
        raise AllocationError("a device is not an object")
    uuid = entry.get("uuid")
    if uuid is not None and not isinstance(uuid, str):
        raise AllocationError("uuid must be text")
    return DeviceShare(
        index=_integer(entry, "index", 0, 1 << 15),
        memory_mib=_integer(entry, "memoryMiB", 0, 1 << 40),
        milli=_integer(entry, "milli", 0, FULL_MILLI),
        uuid=uuid,
    )


def _integer(entry: dict[str, Any], key: str, low: int, high: int) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise AllocationError(f"{key} must be an integer from {low} to {high}")
    return value
