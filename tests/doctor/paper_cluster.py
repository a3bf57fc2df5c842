"""A cluster on paper: answers by path, for what the doctor reads and what uninstall changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from extender_api.cluster import paths
from extender_api.cluster.answer import Answer, Unreachable
from extender_api.cluster.client import PatchKind
from extender_api.doctor import shipped

Object = dict[str, Any]


def answer(status: int, body: Any = None) -> Answer:
    return Answer(status, json.dumps({} if body is None else body).encode())


def refusal(status: int, message: str) -> Answer:
    return answer(status, {"kind": "Status", "message": message})


def pod(name: str, **spec: Any) -> Object:
    """A pod of ours; annotations, labels and phase are given beside the spec."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": spec.pop("annotations", {})}
    status = {"phase": spec.pop("phase", "Pending")}
    defaults = {"schedulerName": "tangram", "containers": [{"name": "main", "image": "none"}]}
    return {"metadata": metadata, "spec": {**defaults, **spec}, "status": status}


def queue(name: str, **spec: Any) -> Object:
    """A Queue of ours."""
    return {
        "apiVersion": "tangram.scheduler/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": spec,
    }


def kai_queue(name: str, **spec: Any) -> Object:
    """A Queue of KAI's."""
    return {**queue(name, **spec), "apiVersion": "scheduling.run.ai/v2"}


class PaperCluster:
    """Stands in for ClusterClient. `refuse` maps (method, path) to a status; `denied` are (verb, resource)."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.nodes: list[Object] = []
        self.namespaces: list[Object] = []
        self.queues: dict[str, list[Object] | None] = {
            paths.QUEUES: None,
            paths.KAI_QUEUES: None,
            paths.TOPOLOGIES: None,
            paths.POD_GROUPS: None,
        }
        """By path; None where the kind is not defined."""
        self.refuse: dict[tuple[str, str], int] = {}
        self.denied: set[tuple[str, str]] = set()
        self.writes: list[tuple[str, str]] = []
        self.reviews: list[Object] = []
        self.unreachable = False
        self.page = 2
        """Objects in a page, whatever is asked for."""

    def add_pods(self, *pods: Object) -> None:
        self.pods.update((pod["metadata"]["name"], pod) for pod in pods)

    # -- what the client offers --------------------------------------------------------------------------------------
    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        if self.unreachable:
            raise Unreachable("cannot connect", maybe_done=False)
        if ("GET", path) in self.refuse:
            return refusal(self.refuse["GET", path], "forbidden")
        if path == "/version":
            return answer(200, {"gitVersion": "v1.37.2"})
        name = path.removeprefix("/api/v1/namespaces/default/pods/")
        if name in self.pods:
            return answer(200, self.pods[name])
        if path in self.objects:
            return answer(200, self.objects[path])
        return refusal(404, "not found")

    async def list_page(
        self, path: str, *, limit: int, token: str = "", selectors: Mapping[str, str] | None = None
    ) -> Answer:
        if ("GET", path) in self.refuse:
            return refusal(self.refuse["GET", path], "forbidden")
        items = self._items(path, (selectors or {}).get("fieldSelector", ""))
        if items is None:
            return refusal(404, "the server could not find the requested resource")
        start = int(token or 0)
        following = str(start + self.page) if start + self.page < len(items) else ""
        metadata = {"resourceVersion": "1", "continue": following}
        return answer(200, {"metadata": metadata, "items": items[start : start + self.page]})

    async def create(self, path: str, body: Any, *, timeout_s: float | None = None) -> Answer:
        if path.endswith("selfsubjectreviews"):
            return answer(201, {"metadata": {"creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}})
        self.reviews.append(body)
        if ("POST", path) in self.refuse:
            return refusal(self.refuse["POST", path], "forbidden")
        attributes = body["spec"]["resourceAttributes"]
        resource = "/".join(part for part in (attributes["resource"], attributes["subresource"]) if part)
        return answer(201, {"status": {"allowed": (attributes["verb"], resource) not in self.denied}})

    async def patch(self, path: str, body: list[Object], kind: PatchKind) -> Answer:
        self.writes.append(("PATCH", path))
        if ("PATCH", path) in self.refuse:
            return refusal(self.refuse["PATCH", path], "denied by a policy")
        found = self.pods.get(path.rpartition("/")[2])
        if found is None:
            return refusal(404, "not found")
        uid, test, remove = body
        gates = found["spec"]["schedulingGates"]
        index = int(remove["path"].rpartition("/")[2])
        same_place = test["path"] == f"{remove['path']}/name"
        assert kind is PatchKind.JSON
        assert (uid["op"], test["op"], remove["op"]) == ("test", "test", "remove")
        if found["metadata"]["uid"] != uid["value"] or gates[index]["name"] != test["value"] or not same_place:
            return refusal(422, "the test failed")
        del gates[index]
        return answer(200, found)

    async def delete(self, path: str, body: Any = None) -> Answer:
        self.writes.append(("DELETE", path))
        if ("DELETE", path) in self.refuse:
            return refusal(self.refuse["DELETE", path], "forbidden")
        return answer(200) if self.objects.pop(path, None) is not None else refusal(404, "not found")

    def _items(self, path: str, selector: str) -> list[Object] | None:
        if path in self.queues:
            return self.queues[path]
        if path in (paths.NODES, paths.NAMESPACES):
            return self.nodes if path == paths.NODES else self.namespaces
        return self._selected(selector)

    def _selected(self, selector: str) -> list[Object]:
        key, _, value = selector.removeprefix("spec.").partition("=")
        return [pod for pod in self.pods.values() if not selector or pod["spec"].get(key, "") == value]


def installed() -> PaperCluster:
    """The base, applied: its cluster-wide objects, its Deployment with two replicas, and its ConfigMap."""
    cluster = PaperCluster()
    cluster.queues |= {paths.QUEUES: [], paths.TOPOLOGIES: [], paths.POD_GROUPS: []}
    cluster.namespaces = [{"metadata": {"name": "default", "labels": {}}}]
    for document in shipped.base():
        kind, metadata = document["kind"], document["metadata"]
        if kind in shipped.COLLECTIONS:
            cluster.objects[f"{shipped.COLLECTIONS[kind]}/{metadata['name']}"] = deepcopy(dict(document))
        elif metadata.get("namespace") == "kube-system":
            cluster.objects[f"{shipped.KUBE_SYSTEM_BINDINGS}/{metadata['name']}"] = deepcopy(dict(document))
        elif kind == "Deployment":
            deployed = deepcopy(dict(document))
            deployed["status"] = {"readyReplicas": 2}
            cluster.objects["/apis/apps/v1/deployments"] = {"items": [deployed]}
    folder = shipped.folder() / "base" / "config"
    cluster.objects["/api/v1/namespaces/tangram-system/configmaps/tangram-config"] = {
        "data": {name: (folder / name).read_text("utf-8") for name in ("scheduler.yaml", "tangram.yaml")}
    }
    cluster.objects["/api/v1/namespaces/tangram-system/pods"] = {
        "items": [{"metadata": {"name": "tangram-a"}}, {"metadata": {"name": "tangram-b"}}]
    }
    cluster.objects["/apis/coordination.k8s.io/v1/namespaces/tangram-system/leases/tangram"] = {
        "metadata": {"name": "tangram"},
        "spec": {
            "holderIdentity": "tangram-b_1",
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "leaseDurationSeconds": 15,
        },
    }
    cluster.nodes = [
        {
            "metadata": {
                "name": f"n{number}",
                "labels": {"tangram.scheduler/shares": "true", "nvidia.com/gpu.product": "NVIDIA-L4"},
            },
            "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for number in range(5)
    ]
    return cluster
