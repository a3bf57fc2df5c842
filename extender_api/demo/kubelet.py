"""The nodes of the demo: pods run where they are bound, end, and are refused where they do not fit.

A node believes nothing: it adds up what its pods were given and refuses a pod that takes a device, or the
node's count of devices, beyond what there is. The demo then ends with a failure, so it cannot look better
than it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from extender_api.demo.embedded import EmbeddedCluster, EventKind
from extender_api.demo.objects import GPU, Object
from scheduler.allocation import FULL_MILLI, AllocationError, DeviceShare, from_annotation
from topology import vocabulary


@dataclass(slots=True)
class DeviceUse:
    """What the running pods hold of one device."""

    milli: int = 0
    memory_mib: int = 0


@dataclass(slots=True)
class NodeUse:
    """What the running pods hold of one node.

    `devices` has one entry per device of `device_mib` of memory; on a virtual node it is empty and
    `counted` of `gpus` are in use.
    """

    gpus: int
    device_mib: int
    devices: list[DeviceUse]
    counted: int = 0
    pods: int = 0

    @property
    def virtual(self) -> bool:
        """Devices are only counted here."""
        return not self.devices

    def filled(self, index: int) -> float:
        """How full a device is, 0 to 1: of compute and memory the larger part."""
        device = self.devices[index]
        return max(device.milli / FULL_MILLI, device.memory_mib / self.device_mib)

    @property
    def used_gpus(self) -> float:
        """Devices in use, parts of devices as parts."""
        return self.counted + sum(self.filled(index) for index in range(len(self.devices)))


@dataclass(frozen=True, slots=True)
class _Holding:
    node: str
    devices: tuple[DeviceShare, ...]
    counted: int


class Kubelets:
    """Plays every node. `runs_s` gives the seconds a pod runs, by uid; without an entry, for ever.

    `use` says what is in use per node, `refused` what was refused and why, `touched` every device that was
    ever used.
    """

    def __init__(self, cluster: EmbeddedCluster, runs_s: Mapping[str, float]) -> None:
        self._cluster = cluster
        self._runs_s = runs_s
        self._held: dict[str, _Holding] = {}
        self.use: dict[str, NodeUse] = {}
        self.refused: list[str] = []
        self.touched: set[tuple[str, int]] = set()
        cluster.watch(self._changed)

    @property
    def running(self) -> int:
        """Pods that run now."""
        return len(self._held)

    def _changed(self, kind: EventKind, document: Object) -> None:
        if document["kind"] == "Node":
            self.use[document["metadata"]["name"]] = _empty(document)
        elif kind == "MODIFIED" and document["spec"].get("nodeName"):
            uid = document["metadata"]["uid"]
            if uid not in self._held and document["status"]["phase"] == "Pending":
                self._start(uid, document)

    def _start(self, uid: str, pod: Object) -> None:
        holding = _holding(pod, self.use[pod["spec"]["nodeName"]].virtual)
        problem = holding if isinstance(holding, str) else self._admit(holding)
        if problem or isinstance(holding, str):
            self.refused.append(f"{pod['metadata']['name']} on {pod['spec']['nodeName']}: {problem}")
            self._cluster.set_status(uid, phase="Failed", reason="UnexpectedAdmissionError", message=problem)
            return
        self._held[uid] = holding
        self._cluster.set_status(uid, phase="Running")
        if uid in self._runs_s:
            asyncio.get_running_loop().call_later(self._runs_s[uid], self._finish, uid)

    def _admit(self, holding: _Holding) -> str:
        """Adds the holding to the node's use; a text when it does not fit."""
        use = self.use[holding.node]
        for share in holding.devices:
            if share.index >= len(use.devices):
                return f"there is no device {share.index}"
            device = use.devices[share.index]
            if device.milli + share.milli > FULL_MILLI:
                return f"device {share.index} has not {share.milli} of {FULL_MILLI} left"
            if device.memory_mib + share.memory_mib > use.device_mib:
                return f"device {share.index} has not {share.memory_mib} MiB left"
        if holding.counted > use.gpus - use.counted:
            return f"has not {holding.counted} devices left"
        for share in holding.devices:
            use.devices[share.index].milli += share.milli
            use.devices[share.index].memory_mib += share.memory_mib
            self.touched.add((holding.node, share.index))
        use.counted += holding.counted
        use.pods += 1
        return ""

    def _finish(self, uid: str) -> None:
        holding = self._held.pop(uid)
        use = self.use[holding.node]
        for share in holding.devices:
            use.devices[share.index].milli -= share.milli
            use.devices[share.index].memory_mib -= share.memory_mib
        use.counted -= holding.counted
        use.pods -= 1
        self._cluster.set_status(uid, phase="Succeeded")
        self._cluster.delete_pod(uid)


def _empty(node: Object) -> NodeUse:
    labels = node["metadata"]["labels"]
    gpus = int(node["status"]["allocatable"].get(GPU, "0"))
    virtual = labels.get("type") == "virtual-kubelet"
    devices = [] if virtual else [DeviceUse() for _ in range(gpus)]
    return NodeUse(gpus, int(labels.get("nvidia.com/gpu.memory", "0")), devices)


def _holding(pod: Object, virtual: bool) -> _Holding | str:
    """What the pod holds on its node: devices by its annotation, on a virtual node only their number."""
    node = pod["spec"]["nodeName"]
    annotations = pod["metadata"].get("annotations", {})
    wanted = sum(int(container["resources"].get("limits", {}).get(GPU, "0")) for container in pod["spec"]["containers"])
    if virtual:
        if vocabulary.ALLOCATION in annotations:
            return "an allocation was written for a pod on a virtual node"
        return _Holding(node, (), wanted)
    text = annotations.get(vocabulary.ALLOCATION)
    if text is None:
        return _Holding(node, (), 0) if wanted == 0 else "devices without an allocation"
    try:
        allocation = from_annotation(text)
    except AllocationError as err:
        return str(err)
    if allocation.node != node:
        return f"the allocation is for {allocation.node}"
    return _Holding(node, allocation.devices, 0)
