"""What a node's kubelet and device agent decide: whether a bound pod may run, by arithmetic of their own.

Knows nothing of Tangram's code, only of what it promises to write on pods, so that a mistake in its books shows here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tests.controlplane.pod_resources import requests_of, total
from tests.controlplane.resources import Object

ALLOCATION: Final = "tangram.scheduler/allocation"
GPU_UUIDS: Final = "tangram.scheduler/gpu-uuids"
SCHEDULER: Final = "tangram"
UNEXPECTED: Final = "UnexpectedAdmissionError"
FULL_MILLI: Final = 1000
_FRACTION: Final = ("gpu-fraction", "kai.scheduler/gpu-fraction")
_MEMORY: Final = ("gpu-memory", "kai.scheduler/gpu-memory")
_DEVICES: Final = "gpu-fraction-num-devices"
_NODE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")


class Refused(Exception):
    """The node does not run the pod; `reason` and `message` are what its status then says."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = f"Pod was rejected: {message}"


@dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """A device as it is built into the node."""

    uuid: str
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Share:
    """A part of one device that a pod holds."""

    device: int
    milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Holding:
    """What a running pod has of its node."""

    requests: Counter[str]
    whole: int
    shares: tuple[Share, ...]


class NodeAgent:
    """Admission of one node.

    `allocatable` is in the units of `pod_resources.amount`; its count of `device_resource` is how many of `devices`,
    from the first, are healthy. A `virtual` node is an aggregate: it only counts, and takes neither shares nor
    annotations of Tangram. Without `honours_shares` nothing on the node acts on a share's annotation.
    """

    def __init__(
        self,
        name: str,
        allocatable: Mapping[str, int],
        devices: Sequence[PhysicalDevice] = (),
        *,
        device_resource: str = "nvidia.com/gpu",
        honours_shares: bool = True,
        virtual: bool = False,
    ) -> None:
        self.name = name
        self._allocatable = Counter(allocatable)
        self._devices = tuple(devices)
        self._device_resource = device_resource
        self._honours_shares = honours_shares
        self._virtual = virtual
        self._holdings: dict[str, Holding] = {}

    def __contains__(self, uid: str) -> bool:
        """Whether the pod holds something here."""
        return uid in self._holdings

    def admit(self, pod: Object) -> None:
        """Gives the pod what it asks for, once. Raises Refused when it does not fit or is not as promised."""
        uid = pod["metadata"]["uid"]
        if uid in self._holdings:
            return
        requests = requests_of(pod)
        whole = requests[self._device_resource]
        shares = self._shares(pod, whole)
        if self._virtual:
            self._check_border(pod)
        else:
            self._check_devices(whole, shares)
        self._check_resources(requests)
        self._holdings[uid] = Holding(requests, whole, shares)

    def release(self, uid: str) -> None:
        """Takes back what the pod held, if anything."""
        self._holdings.pop(uid, None)

    # -- what was promised -----------------------------------------------------------------------------------------
    def _shares(self, pod: Object, whole: int) -> tuple[Share, ...]:
        """The shares that the pod's annotations assign; Refused when they contradict each other or what it asked."""
        annotations = pod["metadata"].get("annotations", {})
        if ALLOCATION not in annotations:
            if pod["spec"].get("schedulerName") == SCHEDULER and not whole and _asked(annotations):
                raise Refused(UNEXPECTED, "the pod asks for a share and was given none")
            return ()
        allocation = json.loads(annotations[ALLOCATION])
        if allocation["node"] != self.name:
            raise Refused(UNEXPECTED, f"the allocation is for node {allocation['node']}")
        entries = allocation["devices"]
        if whole:
            if len(entries) != whole:
                raise Refused(UNEXPECTED, f"{whole} whole devices, but {len(entries)} in the allocation")
            return ()
        shares = tuple(Share(entry["index"], entry["milli"], entry["memoryMiB"]) for entry in entries)
        self._check_promise(annotations, shares)
        return shares

    def _check_promise(self, annotations: Mapping[str, str], shares: Sequence[Share]) -> None:
        """The visible devices are those of the allocation, and it holds what the pod asked for."""
        visible = [part for part in annotations.get(GPU_UUIDS, "").split(",") if part]
        if [self._index(part) for part in visible] != [share.device for share in shares]:
            raise Refused(UNEXPECTED, f"{GPU_UUIDS} names {visible}, the allocation {shares}")
        asked = _asked(annotations)
        if asked is None:
            return
        milli, memory_mib, count = asked
        if len(shares) != count or any(share.milli < milli or share.memory_mib < memory_mib for share in shares):
            raise Refused(UNEXPECTED, f"asked for {count} devices with {milli} milli, {memory_mib} MiB each: {shares}")

    def _index(self, device: str) -> int:
        """The index of a device named by UUID or index."""
        if device.isdecimal():
            return int(device)
        for index, physical in enumerate(self._devices):
            if physical.uuid == device:
                return index
        raise Refused(UNEXPECTED, f"no device {device} on this node")

    # -- arithmetic ------------------------------------------------------------------------------------------------
    def _check_border(self, pod: Object) -> None:
        ours = [key for key in (ALLOCATION, GPU_UUIDS) if key in pod["metadata"].get("annotations", {})]
        if ours:
            raise Refused(UNEXPECTED, f"{', '.join(ours)} must not cross the border of a virtual node")

    def _check_devices(self, whole: int, shares: Sequence[Share]) -> None:
        """Shares fit on the devices they name, and enough devices that no share holds are left for whole ones."""
        if not whole and not shares:
            return
        if shares and not self._honours_shares:
            raise Refused(UNEXPECTED, "nothing on this node gives a share its device")
        healthy = self._allocatable[self._device_resource]
        holdings = self._holdings.values()
        taken = [share for holding in holdings for share in holding.shares]
        for share in shares:
            if share.device >= healthy:
                raise Refused(UNEXPECTED, f"device {share.device} is missing or unhealthy, {healthy} are healthy")
            self._check_device(share.device, [one for one in (*taken, *shares) if one.device == share.device])
        shared = {share.device for share in (*taken, *shares)}
        available = healthy - len(shared) - sum(holding.whole for holding in holdings)
        if available < whole:
            raise Refused(UNEXPECTED, _unavailable(self._device_resource, whole or len(shares), max(available, 0)))

    def _check_device(self, device: int, shares: Sequence[Share]) -> None:
        milli = sum(share.milli for share in shares)
        memory_mib = sum(share.memory_mib for share in shares)
        limit_mib = self._devices[device].memory_mib
        if milli > FULL_MILLI or memory_mib > limit_mib:
            raise Refused(UNEXPECTED, f"device {device} would hold {milli} milli and {memory_mib} of {limit_mib} MiB")

    def _check_resources(self, requests: Counter[str]) -> None:
        used = total(holding.requests for holding in self._holdings.values())
        for name, wanted in requests.items():
            free = self._allocatable[name] - used[name]
            if wanted <= 0 or wanted <= free:
                continue
            if name in _NODE_RESOURCES:
                text = f"Node didn't have enough resource: {name}, requested: {wanted}, free: {free}"
                raise Refused(f"OutOf{name}", text)
            raise Refused(UNEXPECTED, _unavailable(name, wanted, max(free, 0)))


def _asked(annotations: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Milli and MiB per device and the number of devices of a share; None where the pod asks for none."""
    fractions = [annotations[key] for key in _FRACTION if key in annotations]
    memories = [annotations[key] for key in _MEMORY if key in annotations]
    if not fractions and not memories:
        return None
    milli = int(Decimal(fractions[0]) * FULL_MILLI) if fractions else 0
    return milli, int(memories[0]) if memories else 0, int(annotations.get(_DEVICES, "1"))


def _unavailable(resource: str, requested: int, available: int) -> str:
    """The sentence of kubelet's device manager."""
    return (
        f"Allocate failed due to requested number of devices unavailable for {resource}. "
        f"Requested: {requested}, Available: {available}, which is unexpected"
    )
