"""Workloads as controllers make them: the objects, and their pods as they wait."""

from __future__ import annotations

from typing import Any

from tests.plan.documents import Object, pod

OURS = "tangram.scheduler/v1alpha1"


def pod_group(name: str, minimum: int, *, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Object:
    """A PodGroup of ours."""
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": created}
    return {"apiVersion": OURS, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": minimum, **spec}}


def group_of(name: str, count: int, *, created: str = "2026-01-01T00:00:00Z", **more: Any) -> list[Object]:
    """A PodGroup that needs all of its pods, and them. `constraint` is its topologyConstraint."""
    constraint = more.pop("constraint", None)
    spec = {"topologyConstraint": constraint} if constraint else {}
    labels = {"tangram.scheduler/pod-group": name, **more.pop("labels", {})}
    pods = [
        pod(f"{name}-{i:03}", metadata=_metadata(f"{name}-{i:03}", labels, created=created), **more)
        for i in range(count)
    ]
    return [pod_group(name, count, created=created, **spec), *pods]


def owned(name: str, owner: Object, labels: dict[str, str], **more: Any) -> Object:
    """A pod that an object made."""
    about = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": about["name"], "uid": about["uid"],
        "controller": True,
    }  # fmt: skip
    return pod(name, metadata={**_metadata(name, labels), "ownerReferences": [reference]}, **more)


def ray_cluster(*groups: tuple[str, int, int, int], queue: str = "") -> Object:
    """A RayCluster with groups of workers: name, replicas, least replicas, hosts of each."""
    specs = [
        {"groupName": name, "replicas": replicas, "minReplicas": least, "maxReplicas": replicas, "numOfHosts": hosts,
         "template": {"spec": {"containers": []}}}
        for name, replicas, least, hosts in groups
    ]  # fmt: skip
    labels = {"tangram.scheduler/queue": queue} if queue else {}
    spec = {"headGroupSpec": {"template": {"spec": {"containers": []}}}, "workerGroupSpecs": specs}
    metadata = {"name": "ray", "namespace": "team", "uid": "uid-ray", "labels": labels}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}


def ray_pod(name: str, cluster: Object, group: str = "", **more: Any) -> Object:
    """A worker of a group, or the head."""
    kind = {"ray.io/node-type": "worker" if group else "head", "ray.io/group": group or "headgroup"}
    return owned(name, cluster, {"ray.io/cluster": "ray", **kind}, **more)


def leader_worker_set(name: str, groups: int, size: int, **more: Any) -> list[Object]:
    """A LeaderWorkerSet and all its pods, without the StatefulSets in between."""
    spec = {"replicas": groups, "leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": {}}}}
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    owner = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec}
    prefix = "leaderworkerset.sigs.k8s.io"
    pods = []
    for group in range(groups):
        for worker in range(size):
            labels = {
                f"{prefix}/name": name, f"{prefix}/group-index": str(group), f"{prefix}/worker-index": str(worker),
            }  # fmt: skip
            pods.append(owned(f"{name}-{group}" + (f"-{worker}" if worker else ""), owner, labels, **more))
    return [owner, *pods]


def queue(name: str, **resources: dict[str, Any]) -> Object:
    """A Queue."""
    return {"apiVersion": OURS, "kind": "Queue", "metadata": {"name": name}, "spec": {"resources": resources}}


def topology(name: str, *levels: str) -> Object:
    """A Topology."""
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}


def _metadata(name: str, labels: dict[str, str], created: str = "2026-01-01T00:00:00Z") -> Object:
    return {"name": name, "namespace": "team", "uid": f"uid-{name}", "labels": labels, "creationTimestamp": created}
