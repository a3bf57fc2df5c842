"""What bound pods hold of nodes and devices, added up by somebody who believes nothing.

A pod that takes more of a device, or more devices, than there is left is a mistake of the scheduler. The demo then
ends with a failure, so it cannot look better than it is.
"""

from __future__ import annotations

from dataclasses import dataclass

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


class Accounts:
    """Nodes and what is held of them.

    `use` says what is in use per node, `refused` what did not fit and why, `touched` every device ever used.
    """

    def __init__(self) -> None:
        self._held: dict[str, _Holding] = {}
        self.use: dict[str, NodeUse] = {}
        self.products: dict[str, str] = {}
        self.refused: list[str] = []
        self.touched: set[tuple[str, int]] = set()

    @property
    def running(self) -> int:
        """Pods that hold something now."""
        return len(self._held)

    def holds(self, uid: str) -> bool:
        """Whether the pod is on the books."""
        return uid in self._held

    def add_node(self, node: Object) -> None:
        """An empty node."""
        name = node["metadata"]["name"]
        self.use[name] = _empty(node)
        self.products[name] = node["metadata"]["labels"].get("nvidia.com/gpu.product", "virtual")

    def admit(self, pod: Object) -> str:
        """Books a pod that is bound; a text when it does not fit or its allocation makes no sense."""
        node = pod["spec"]["nodeName"]
        holding = _holding(pod, self.use[node].virtual)
        problem = holding if isinstance(holding, str) else self._lacks(holding)
        if problem or isinstance(holding, str):
            self.refused.append(f"{pod['metadata']['name']} on {node}: {problem}")
            return problem
        self._book(holding, 1)
        self._held[pod["metadata"]["uid"]] = holding
        self.touched |= {(node, share.index) for share in holding.devices}
        return ""

    def release(self, uid: str) -> None:
        """The pod holds nothing any more."""
        holding = self._held.pop(uid, None)
        if holding is not None:
            self._book(holding, -1)

    def _lacks(self, holding: _Holding) -> str:
        """What the node has not got; empty when the holding fits."""
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
        return ""

    def _book(self, holding: _Holding, sign: int) -> None:
        use = self.use[holding.node]
        for share in holding.devices:
            use.devices[share.index].milli += sign * share.milli
            use.devices[share.index].memory_mib += sign * share.memory_mib
        use.counted += sign * holding.counted
        use.pods += sign


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
