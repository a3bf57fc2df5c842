"""The Kubernetes objects of the demo: its nodes, and the pods that users would have written for the trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender_api.demo.trace import TracePod
from topology import vocabulary

Object = dict[str, Any]
"""A Kubernetes object as JSON has it."""

NAMESPACE: Final = "demo"
GPU: Final = "nvidia.com/gpu"
_LIQO_TAINT: Final = {"key": "virtual-node.liqo.io/not-allowed", "value": "true", "effect": "NoExecute"}
_ADMIRALTY_TAINT: Final = {"key": "virtual-kubelet.io/provider", "value": "admiralty", "effect": "NoSchedule"}
_TOLERATIONS: Final = (
    {"key": _LIQO_TAINT["key"], "operator": "Exists", "effect": "NoExecute"},
    {"key": _ADMIRALTY_TAINT["key"], "operator": "Exists", "effect": "NoSchedule"},
)


@dataclass(frozen=True, slots=True)
class Model:
    """A GPU model as gpu-feature-discovery describes it, and the machine around it."""

    product: str
    memory_mib: int
    gpus: int
    cpu: int
    memory_gib: int


A100: Final = Model("NVIDIA-A100-SXM4-80GB", 81920, 8, 192, 2048)
H100: Final = Model("NVIDIA-H100-80GB-HBM3", 81559, 8, 224, 2048)
L4: Final = Model("NVIDIA-L4", 23034, 4, 96, 384)


def real_node(name: str, model: Model) -> Object:
    """A node with the labels of gpu-feature-discovery, and something on it that honours shares."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "nvidia.com/gpu.count": str(model.gpus),
        "nvidia.com/gpu.memory": str(model.memory_mib),
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": model.product,
        vocabulary.NODE_SHARES: "true",
    }
    return _node(name, labels, [], cpu=model.cpu, memory_gib=model.memory_gib, pods=110, gpus=model.gpus)


def liqo_node(name: str, *, cluster: str, gpus: int) -> Object:
    """A virtual node that stands for another cluster."""
    labels = {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": cluster, "type": "virtual-kubelet"}
    return _node(name, labels, [_LIQO_TAINT], cpu=512, memory_gib=4096, pods=1000, gpus=gpus)


def admiralty_node(name: str, *, gpus: int) -> Object:
    """A virtual node of another kind."""
    labels = {"type": "virtual-kubelet", "virtual-kubelet.io/provider": "admiralty"}
    return _node(name, labels, [_ADMIRALTY_TAINT], cpu=256, memory_gib=2048, pods=500, gpus=gpus)


def demo_nodes() -> list[Object]:
    """Two A100 machines, an H100 machine, two L4 machines and two virtual nodes: 32 real GPUs, 12 claimed."""
    return [
        real_node("a100-1", A100),
        real_node("a100-2", A100),
        real_node("h100-1", H100),
        real_node("l4-1", L4),
        real_node("l4-2", L4),
        liqo_node("cloud-h100", cluster="cloud-west", gpus=8),
        admiralty_node("site-b", gpus=4),
    ]


def _node(
    name: str, labels: dict[str, str], taints: list[Any], *, cpu: int, memory_gib: int, pods: int, gpus: int
) -> Object:
    resources = {
        "cpu": str(cpu),
        "memory": f"{memory_gib}Gi",
        "ephemeral-storage": "2Ti",
        "pods": str(pods),
        GPU: str(gpus),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod to be created `at_s` seconds after the start, which ends `runs_s` seconds after its bind."""

    pod: Object
    at_s: float
    runs_s: float


@dataclass(frozen=True, slots=True)
class Pace:
    """How trace time becomes demo time.

    All arrivals fall into `arrive_s` seconds, in the proportions of the trace. A pod runs `speed` times
    faster than in the trace, but at least `shortest_s` and at most `longest_s` seconds.
    """

    arrive_s: float = 40.0
    speed: float = 400.0
    shortest_s: float = 1.0
    longest_s: float = 12.0

    def runs_s(self, pod: TracePod) -> float:
        """Seconds that the pod runs in the demo."""
        return min(max(pod.duration_s / self.speed, self.shortest_s), self.longest_s)


def arrivals(trace: Sequence[TracePod], pace: Pace) -> list[Arrival]:
    """The pods of the trace as users would write them, in order of arrival."""
    if not trace:
        return []
    first, last = trace[0].created_s, trace[-1].created_s
    scale = pace.arrive_s / max(last - first, 1)
    return [
        Arrival(trace_pod(row, number), (row.created_s - first) * scale, pace.runs_s(row))
        for number, row in enumerate(trace)
    ]


def trace_pod(row: TracePod, number: int) -> Object:
    """One pod of the trace.

    The trace knows shares only as a part of a device, and has no clusters behind clusters. So every fifth
    share is written as an amount of memory (of a 40 GiB device), and every third pod with whole devices
    tolerates the virtual nodes.
    """
    annotations: dict[str, str] = {}
    resources = {"cpu": f"{row.cpu_milli}m", "memory": f"{row.memory_mib}Mi"}
    if row.shares:
        if number % 5 == 0:
            annotations[vocabulary.GPU_MEMORY.key] = str(row.gpu_milli * 40960 // 1000)
        else:
            annotations[vocabulary.GPU_FRACTION.key] = f"{row.gpu_milli / 1000:.3f}".rstrip("0")
        if row.gpu_count > 1:
            annotations[vocabulary.GPU_FRACTION_NUM_DEVICES.key] = str(row.gpu_count)
    elif row.gpu_count:
        resources[GPU] = str(row.gpu_count)
    away = row.gpu_count > 0 and not row.shares and number % 3 == 0
    return pod(row.name, resources, annotations=annotations, tolerations=_TOLERATIONS if away else ())


def mistakes() -> list[Object]:
    """Pods that can never run: what they ask for contradicts itself, or no node is that large."""
    return [
        pod("typo", {"cpu": "1", "memory": "1Gi"}, annotations={vocabulary.GPU_FRACTION.key: "1.5"}),
        pod("too-large", {"cpu": "8", "memory": "8Gi", GPU: "16"}),
    ]


def pod(
    name: str,
    resources: dict[str, str],
    *,
    annotations: dict[str, str] | None = None,
    tolerations: Iterable[dict[str, str]] = (),
) -> Object:
    """A pod of our scheduler with one container; the same amounts as requests and limits."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations or {})},
        "spec": {
            "schedulerName": vocabulary.DEFAULT_SCHEDULER_NAME,
            "containers": [
                {"name": "main", "image": "work", "resources": {"requests": resources, "limits": resources}}
            ],
            "tolerations": [dict(item) for item in tolerations],
        },
        "status": {"phase": "Pending"},
    }
