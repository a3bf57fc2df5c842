"""The shipped roles on a real API server: enough for every call that Tangram makes, and no more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from extender_api.cluster import paths
from extender_api.cluster.object_kinds import OBJECT_KINDS
from extender_api.doctor import shipped
from tests.controlplane import installation
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.resources import CONFIG_MAPS, LEASES, NAMESPACES, NODES, PODS, Object, Resource
from tests.controlplane.waiting import eventually
from tests.manifests.pods import ASSIGNED, NAMESPACE, cluster_role_binding, create, node

pytestmark = pytest.mark.controlplane


@pytest.fixture
def tangram_alone(kube: Kube, plane: ControlPlane) -> Iterator[Kube]:
    """A client with the roles of Tangram, and without those of the kube-scheduler that shares its account."""
    system = installation.NAMESPACE
    kube.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "alone", "namespace": system}})
    kube.apply(cluster_role_binding("alone", "tangram", system))
    binding = cluster_role_binding("alone", "tangram", system)
    binding["kind"], binding["roleRef"] = "RoleBinding", {**binding["roleRef"], "kind": "Role"}
    binding["metadata"]["namespace"] = system
    kube.apply(binding)
    client = plane.client(plane.service_account_kubeconfig(system, "alone"))
    yield client
    client.close()


QUEUES = Resource("tangram.scheduler/v1alpha1", "queues", False)
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "tangram", "namespace": installation.NAMESPACE},
    "spec": {"holderIdentity": "host_1"},
}


def test_tangram_may_do_all_it_does(kube: Kube, tangram_alone: Kube) -> None:
    kube.create(node("n1"))
    kube.apply(LEASE)
    pod = create(kube, "pod", {"gpu-fraction": "0.5"})
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/pod"

    for resource in (PODS, NODES, NAMESPACES):
        assert tangram_alone.list(resource)
        watch(tangram_alone, resource.path())
    tangram_alone.request("GET", PODS.path(), params={"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"})
    own = {"fieldSelector": "metadata.name=tangram"}
    leases = LEASES.path(installation.NAMESPACE)
    assert tangram_alone.request("GET", leases, params=own)["items"]
    watch(tangram_alone, leases, **own)
    assert tangram_alone.get(PODS, "pod", NAMESPACE)["metadata"]["uid"] == pod["metadata"]["uid"]
    tangram_alone.patch(PODS, "pod", {"status": {"nominatedNodeName": "n1"}}, NAMESPACE, "status")
    tangram_alone.patch(PODS, "pod", [{"op": "remove", "path": "/spec/schedulingGates/0"}], NAMESPACE)
    tangram_alone.request("POST", f"{path}/binding", binding_of(pod))
    dry = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "pod"},
        "deleteOptions": {"dryRun": ["All"]},
    }
    tangram_alone.request("POST", f"{path}/eviction", dry)
    tangram_alone.create(event_about(pod), NAMESPACE)
    own_words(kube, tangram_alone)

    assert kube.get(PODS, "pod", NAMESPACE)["spec"]["nodeName"] == "n1"
    assert kube.list(Resource("events.k8s.io/v1", "events", True), NAMESPACE)


def own_words(kube: Kube, tangram_alone: Kube) -> None:
    """Queues, their statuses, and the ConfigMap that usage over time is kept in."""
    queue = {"apiVersion": QUEUES.group_version, "kind": "Queue", "metadata": {"name": "team-a"}, "spec": {}}
    kube.apply(queue)
    assert tangram_alone.list(QUEUES)
    watch(tangram_alone, QUEUES.path())
    tangram_alone.patch(QUEUES, "team-a", {"status": {"waiting": 1}}, subresource="status")
    assert kube.get(QUEUES, "team-a")["status"] == {"waiting": 1}
    with pytest.raises(ApiError) as absent:
        tangram_alone.request("GET", paths.KAI_QUEUES)
    assert absent.value.status == 404, "allowed, and not there"
    kube.delete_all(QUEUES)
    usage = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tangram-usage"}, "data": {"samples": "1"}}
    tangram_alone.create(usage, installation.NAMESPACE)
    tangram_alone.patch(CONFIG_MAPS, "tangram-usage", {"data": {"samples": "2"}}, installation.NAMESPACE)
    assert tangram_alone.get(CONFIG_MAPS, "tangram-usage", installation.NAMESPACE)["data"] == {"samples": "2"}
    kube.delete(CONFIG_MAPS, "tangram-usage", installation.NAMESPACE)


def test_what_owns_and_describes_workloads_may_be_read(tangram_alone: Kube) -> None:
    """Kinds that are not there are not found, which says that they might be read."""
    ours = (paths.TOPOLOGIES, paths.POD_GROUPS)
    eventually(lambda: all(status(tangram_alone, path) == 200 for path in ours), "our kinds are served")
    collections = [kind.path(version) for kind in OBJECT_KINDS for version in kind.versions]
    statuses = {path: status(tangram_alone, path) for path in (*collections, paths.TOPOLOGIES, paths.KAI_TOPOLOGIES)}
    assert {path for path, found in statuses.items() if found not in (200, 404)} == set()
    for path in (paths.TOPOLOGIES, paths.POD_GROUPS, "/apis/batch/v1/jobs", "/apis/apps/v1/replicasets"):
        assert tangram_alone.request("GET", path)["items"] == []


def status(client: Kube, path: str) -> int:
    """What a list and a watch are answered."""
    try:
        client.request("GET", path)
        watch(client, path)
    except ApiError as err:
        return err.status
    return 200


def watch(client: Kube, path: str, **query: str) -> None:
    """Watches for a moment. Raises ApiError where that is not allowed."""
    with contextlib.suppress(ValueError):  # what comes is a stream and no JSON document
        client.request("GET", path, params={"watch": "1", "timeoutSeconds": "1", **query})


def binding_of(pod: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "annotations": ASSIGNED},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def event_about(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "told", "namespace": metadata["namespace"]},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Waiting",
        "action": "Plan",
        "note": "told",
        "regarding": {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"]},
        "reportingController": "tangram.scheduler",
        "reportingInstance": "test",
    }


FORBIDDEN: list[tuple[str, str, Object | None]] = [
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/pod", None),
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods", None),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/pod/ephemeralcontainers", {}),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", {}),
    ("PUT", f"/api/v1/namespaces/{NAMESPACE}/pods/pod", {}),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/pod/exec", None),
    ("PATCH", "/api/v1/nodes/n1", {}),
    ("PATCH", "/api/v1/nodes/n1/status", {}),
    ("GET", "/api/v1/secrets", None),
    ("GET", "/api/v1/configmaps", None),
    ("GET", f"/api/v1/namespaces/{installation.NAMESPACE}/configmaps/tangram-config", None),
    ("PATCH", f"/api/v1/namespaces/{installation.NAMESPACE}/configmaps/tangram-config", {}),
    ("DELETE", f"/api/v1/namespaces/{installation.NAMESPACE}/configmaps/tangram-usage", None),
    ("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "tangram-usage"}}),
    ("PATCH", f"{paths.QUEUES}/team-a", {}),
    ("POST", paths.QUEUES, {"metadata": {"name": "mine"}}),
    ("DELETE", f"{paths.QUEUES}/team-a", None),
    ("PATCH", f"{paths.KAI_QUEUES}/team-a/status", {}),
    ("DELETE", f"{shipped.COLLECTIONS['CustomResourceDefinition']}/queues.tangram.scheduler", None),
    ("PATCH", "/apis/batch/v1/namespaces/default/jobs/mine", {}),
    ("POST", "/apis/tangram.scheduler/v1alpha1/namespaces/default/podgroups", {"metadata": {"name": "mine"}}),
    ("DELETE", f"{paths.TOPOLOGIES}/racks", None),
    ("GET", "/api/v1/persistentvolumes", None),
    ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases/tangram", {}),
    ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases/other", None),
    ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases/tangram", None),
    ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases", None),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", None),
    ("DELETE", f"{shipped.COLLECTIONS['MutatingAdmissionPolicy']}/{shipped.GATE}", None),
    ("DELETE", f"{shipped.COLLECTIONS['MutatingAdmissionPolicy']}/{shipped.DEVICES}", None),
    ("PATCH", f"{shipped.COLLECTIONS['ClusterRole']}/tangram", {}),
]


def test_tangram_may_do_nothing_else(tangram_alone: Kube) -> None:
    for method, path, body in FORBIDDEN:
        with pytest.raises(ApiError) as refused:
            tangram_alone.request(method, path, body)
        assert refused.value.status == 403, (method, path, str(refused.value))


def test_the_shipped_account_runs_kube_scheduler_too(kube: Kube, plane: ControlPlane) -> None:
    kube.apply(LEASE)
    client = plane.client(plane.service_account_kubeconfig(installation.NAMESPACE, installation.SERVICE_ACCOUNT))
    try:
        for path in (
            "/api/v1/persistentvolumes",
            "/apis/storage.k8s.io/v1/csinodes",
            "/apis/storage.k8s.io/v1/storageclasses",
        ):
            client.request("GET", path)
        lease = client.get(LEASES, "tangram", installation.NAMESPACE)
        client.request("PUT", LEASES.path(installation.NAMESPACE, "tangram"), lease)
        with pytest.raises(ApiError, match="forbidden"):
            client.request("GET", "/api/v1/secrets")
        with pytest.raises(ApiError, match="forbidden"):
            client.delete(LEASES, "tangram", installation.NAMESPACE)
    finally:
        client.close()
