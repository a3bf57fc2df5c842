"""Nodes of several kinds as their agents would register them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.controlplane.node_agent import NodeAgent, PhysicalDevice
from tests.controlplane.pod_resources import amounts
from tests.controlplane.resources import Object

GPU: Final = "nvidia.com/gpu"
SHARES_LABEL: Final = "tangram.scheduler/shares"
UUIDS_ANNOTATION: Final = "tangram.scheduler/node-gpu-uuids"
_KUBELET: Final = "v1.37.2"
_UUIDS: Final = uuid.UUID("7d3ab1f0-0000-4000-8000-000000000000")

Taint = dict[str, str]


@dataclass(frozen=True, slots=True)
class Model:
    """A machine with one kind of device: what gpu-feature-discovery would say, and the rest of the machine."""

    product: str
    memory_mib: int
    devices: int
    family: str
    compute: str
    mig_capable: bool
    machine: str
    cpu: str
    memory: str


A100: Final = Model("NVIDIA-A100-SXM4-80GB", 81920, 8, "ampere", "8.0", True, "DGXA100-920-23687", "128", "1Ti")
H100: Final = Model("NVIDIA-H100-80GB-HBM3", 81559, 8, "hopper", "9.0", True, "DGXH100", "192", "2Ti")
L4: Final = Model("NVIDIA-L4", 23034, 4, "ada-lovelace", "8.9", False, "g2-standard-48", "48", "192Gi")
T4: Final = Model("Tesla-T4", 15360, 2, "turing", "7.5", False, "n1-standard-32", "32", "120Gi")


@dataclass(frozen=True, slots=True)
class FakeNode:
    """A Node object and what is behind it. `honours_shares` and `virtual`: see NodeAgent."""

    document: Object
    devices: Sequence[PhysicalDevice] = ()
    honours_shares: bool = True
    virtual: bool = False

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    def agent(self) -> NodeAgent:
        return NodeAgent(
            self.name,
            amounts(self.document["status"]["allocatable"]),
            self.devices,
            honours_shares=self.honours_shares,
            virtual=self.virtual,
        )


def gpu_node(
    name: str,
    model: Model = A100,
    *,
    devices: int | None = None,
    unhealthy: int = 0,
    shares: bool | None = True,
    uuids: bool = False,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
) -> FakeNode:
    """A node with `devices` devices (by default the model's number), the last `unhealthy` of them out of order.

    `shares` is the label that says whether something here honours a share; None leaves the label away, and shares
    are honoured. With `uuids` the node names its devices in Tangram's annotation.
    """
    count = model.devices if devices is None else devices
    physical = tuple(
        PhysicalDevice(f"GPU-{uuid.uuid5(_UUIDS, f'{name}/{index}')}", model.memory_mib) for index in range(count)
    )
    capacity = _machine(model.cpu, model.memory)
    return FakeNode(
        document=_node(
            name,
            labels={
                **_discovered(model, count),
                **({} if shares is None else {SHARES_LABEL: str(shares).lower()}),
                **(labels or {}),
            },
            annotations={UUIDS_ANNOTATION: ",".join(one.uuid for one in physical)} if uuids else {},
            taints=taints,
            capacity={**capacity, GPU: str(count)},
            allocatable={**capacity, GPU: str(count - unhealthy)},
        ),
        devices=physical,
        honours_shares=shares is not False,
    )


def cpu_node(
    name: str,
    *,
    cpu: str = "64",
    memory: str = "256Gi",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
) -> FakeNode:
    """A node without devices."""
    capacity = _machine(cpu, memory)
    return FakeNode(
        _node(name, labels=labels or {}, taints=taints, capacity=capacity, allocatable=capacity),
        honours_shares=False,
    )


def liqo_node(name: str, *, gpus: int = 64, cluster: str = "gcp-eu", cpu: str = "512") -> FakeNode:
    """A virtual node of Liqo: an aggregate that says nothing about its devices but their number."""
    capacity = {"cpu": cpu, "memory": "4Ti", "pods": "1000", "ephemeral-storage": "2Ti", GPU: str(gpus)}
    labels = {
        "liqo.io/type": "virtual-node",
        "liqo.io/remote-cluster-id": cluster,
        "type": "virtual-kubelet",
        "kubernetes.io/role": "agent",
        "storage.liqo.io/available": "true",
        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
    }
    taint = {"key": "virtual-node.liqo.io/not-allowed", "value": "true", "effect": "NoExecute"}
    document = _node(name, labels=labels, taints=[taint], capacity=capacity, allocatable=capacity)
    return FakeNode(document, honours_shares=False, virtual=True)


def _machine(cpu: str, memory: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, "ephemeral-storage": "2Ti", "pods": "110"}


def _discovered(model: Model, count: int) -> dict[str, str]:
    """The labels that gpu-feature-discovery writes on a node that hands out whole devices."""
    major, minor = model.compute.split(".")
    labels = {
        "gpu.product": model.product,
        "gpu.memory": str(model.memory_mib),
        "gpu.count": str(count),
        "gpu.replicas": "1",
        "gpu.family": model.family,
        "gpu.compute.major": major,
        "gpu.compute.minor": minor,
        "gpu.machine": model.machine,
        "gpu.mode": "compute",
        "gpu.present": "true",
        "gpu.sharing-strategy": "none",
        "mig.capable": str(model.mig_capable).lower(),
        "mig.strategy": "single",
        "mps.capable": "false",
        "vgpu.present": "false",
        "cuda.driver-version.major": "580",
        "cuda.runtime-version.major": "13",
    }
    return {f"nvidia.com/{key}": value for key, value in labels.items()}


def _node(
    name: str,
    *,
    labels: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
) -> Object:
    """A Node object that is ready."""
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    conditions = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady"},
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
        {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
        {"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID"},
    ]
    info: dict[str, Any] = dict.fromkeys(
        ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"), ""
    )
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **labels}, "annotations": dict(annotations or {})},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {
            "capacity": dict(capacity),
            "allocatable": dict(allocatable),
            "conditions": conditions,
            "nodeInfo": info
            | {
                "kubeletVersion": _KUBELET,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
