"""Objects as the API server would show them, for the tests of this folder."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
GATE = "tangram.scheduler/queued"


def pod(name: str = "p", namespace: str = "default", uid: str = "", **parts: Any) -> Object:
    """A small pod; `metadata`, `spec` and `status` are laid over it."""
    base: Object = {
        "metadata": {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"},
        "spec": {"containers": [{"name": "main"}], "schedulerName": "tangram"},
        "status": {"phase": "Pending"},
    }
    for part, content in parts.items():
        base[part] = {**base[part], **content}
    return base


def gated_pod(name: str = "p", gates: tuple[str, ...] = (GATE,)) -> Object:
    """A pod as it is right after creation with gates."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    return pod(name, spec={"schedulingGates": [{"name": gate} for gate in gates]}, status={"conditions": [condition]})


def node(name: str = "n", **parts: Any) -> Object:
    base: Object = {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {}, "status": {}}
    for part, content in parts.items():
        base[part] = {**base[part], **content}
    return base


def queue(name: str, *, generation: int = 1, status: Object | None = None, **spec: Any) -> Object:
    """One of our Queues."""
    return {
        "apiVersion": "tangram.scheduler/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": generation},
        "spec": spec,
        "status": status or {},
    }


def kai_queue(name: str, **spec: Any) -> Object:
    """One of KAI's."""
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"uid-kai-{name}"},
        "spec": spec,
    }


def topology(name: str, *labels: str, **spec: Any) -> Object:
    """One of our Topologies, with levels."""
    levels = [{"nodeLabel": label} for label in labels or ("rack", "kubernetes.io/hostname")]
    return {
        "apiVersion": "tangram.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": spec or {"levels": levels},
    }


def pod_group(name: str, namespace: str = "default", **spec: Any) -> Object:
    """One of our PodGroups."""
    return {
        "apiVersion": "tangram.scheduler/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
        "spec": spec or {"minMember": 2},
    }
