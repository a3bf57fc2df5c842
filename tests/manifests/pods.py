"""Pods as the tests of this folder create them, and what became of them."""

from __future__ import annotations

from typing import Any

from tests.controlplane.kube import Kube
from tests.controlplane.resources import Object
from topology import vocabulary

NAMESPACE = "manifests"
VISIBLE = vocabulary.VISIBLE_DEVICES_ENV
ALL = {"name": VISIBLE, "value": "all"}
FROM_ANNOTATION = {
    "name": VISIBLE,
    "valueFrom": {
        "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{vocabulary.GPU_UUIDS}']"},
    },
}
ASSIGNED = {
    vocabulary.ALLOCATION: '{"v":1,"node":"n1","backend":"annotation","devices":[]}',
    vocabulary.GPU_UUIDS: "GPU-1",
}


def container(name: str = "main", *env: Object) -> Object:
    return {"name": name, "image": "none", "env": list(env)}


def create(
    kube: Kube, name: str, annotations: Object | None = None, labels: Object | None = None, **spec: Any
) -> Object:
    """Creates a pod of ours; a `spec` that is given wins."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"schedulerName": "tangram", "containers": [container()], **spec},
    }
    return kube.create(document, NAMESPACE)


def gates(pod: Object) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


def env(pod: Object, name: str = "main") -> list[Object]:
    """The environment of a container."""
    every = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    (found,) = (entry for entry in every if entry["name"] == name)
    return list(found.get("env", ()))


def node(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def cluster_role_binding(account: str, role: str, namespace: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"test-{account}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
