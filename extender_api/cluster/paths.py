"""Paths of the API server that are read or written. Names come from the API server, so they need no quoting."""

from __future__ import annotations

from typing import Final

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
NAMESPACES: Final = "/api/v1/namespaces"
QUEUES: Final = "/apis/tangram.scheduler/v1alpha1/queues"
KAI_QUEUES: Final = "/apis/scheduling.run.ai/v2/queues"
TOPOLOGIES: Final = "/apis/tangram.scheduler/v1alpha1/topologies"
KAI_TOPOLOGIES: Final = "/apis/kai.scheduler/v1alpha1/topologies"
POD_GROUPS: Final = "/apis/tangram.scheduler/v1alpha1/podgroups"


def queue_status(name: str) -> str:
    """The status of one of our Queues."""
    return f"{QUEUES}/{name}/status"


def config_map(namespace: str, name: str = "") -> str:
    """A ConfigMap, or all of a namespace."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    return f"{path}/{name}" if name else path


def pod(namespace: str, name: str, subresource: str = "") -> str:
    """A pod, or a subresource of it such as `status` or `binding`."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    return f"{path}/{subresource}" if subresource else path


def events(namespace: str) -> str:
    """Events of the group events.k8s.io in a namespace."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def leases(namespace: str) -> str:
    """Leases in a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
