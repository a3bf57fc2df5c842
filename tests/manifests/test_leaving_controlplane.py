"""The doctor and uninstall on a real API server, one after the other: from a sound installation to none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.doctor import shipped
from extender_api.doctor.finding import Finding, Level
from extender_api.doctor.run import run_doctor
from extender_api.queue_objects.crd import QUEUE
from extender_api.settings import Settings
from extender_api.uninstall import UninstallReport, uninstall
from tests.controlplane import installation
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.resources import NAMESPACES, PODS, Object, Resource
from tests.controlplane.waiting import eventually
from tests.manifests.conftest import Kubectl
from tests.manifests.pods import NAMESPACE
from topology import vocabulary

pytestmark = pytest.mark.controlplane

T = TypeVar("T")
QUEUES = Resource("tangram.scheduler/v1alpha1", "queues", False)
DEPLOYMENT = f"/apis/apps/v1/namespaces/{installation.NAMESPACE}/deployments/tangram/status"


@pytest.fixture
def plane(doomed_plane: ControlPlane) -> ControlPlane:
    """The installation that these tests end."""
    return doomed_plane


@pytest.fixture
def kubectl(plane: ControlPlane, new_kubectl: Callable[[ControlPlane], Kubectl]) -> Kubectl:
    """kubectl on it."""
    return new_kubectl(plane)


def with_client(plane: ControlPlane, work: Callable[[ClusterClient], Coroutine[Any, Any, T]]) -> T:
    """Runs `work` with a client of Tangram's own."""

    async def run() -> T:
        async with await ClusterClient.connect(ClientSettings(kubeconfig=str(plane.admin_kubeconfig))) as client:
            return await work(client)

    return asyncio.run(run())


def examine(plane: ControlPlane) -> list[Finding]:
    return with_client(plane, lambda client: run_doctor(client, Settings()))


def leave(plane: ControlPlane, **options: Any) -> tuple[UninstallReport, list[str]]:
    said: list[str] = []
    options = {"dry_run": False, "say": said.append, **options}
    return with_client(plane, lambda client: uninstall(client, Settings(), **options)), said


def pod(name: str, annotations: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}},
        "spec": {"schedulerName": "tangram", "containers": [{"name": "main", "image": "none"}], **spec},
    }


def pretend_to_run(kube: Kube) -> None:
    """What a kubelet, the controllers and a leading kube-scheduler would have written."""
    status = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    deployment = kube.request("GET", DEPLOYMENT)
    kube.request("PUT", DEPLOYMENT, {**deployment, "status": {**deployment.get("status", {}), **status}})
    kube.apply(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "tangram", "namespace": installation.NAMESPACE},
            "spec": {
                "holderIdentity": "tangram-x_1",
                "leaseDurationSeconds": 15,
                "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }
    )
    labels = {vocabulary.NODE_SHARES: "true", "nvidia.com/gpu.product": "NVIDIA-L4"}
    kube.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": labels},
            "status": {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}},
        }
    )


def test_the_doctor_finds_nothing_wrong_with_what_is_shipped(plane: ControlPlane, kube: Kube) -> None:
    pretend_to_run(kube)

    found = examine(plane)

    assert [finding for finding in found if finding.level is not Level.OK] == []
    assert {"gate policy", "devices policy", "protection policy", "clocks", "Kubernetes version"} <= {
        item.title for item in found
    }


def test_the_doctor_finds_what_was_taken_away(plane: ControlPlane, kube: Kube, kubectl: Kubectl) -> None:
    pretend_to_run(kube)
    kubectl("delete", "clusterrolebinding", "tangram", "tangram-volume-scheduler")
    kubectl("delete", "mutatingadmissionpolicybinding", *shipped.MUTATING)
    try:
        troubles = {item.title: item.found for item in examine(plane) if item.level is not Level.OK}
    finally:
        kubectl("apply", "-k", installation.BASE)

    assert set(troubles) == {"gate policy", "devices policy", "rights of tangram-system/tangram"}
    assert troubles["gate policy"] == troubles["devices policy"] == "the binding is not installed"
    assert "patch pods" in troubles["rights of tangram-system/tangram"]


def test_leaving_frees_the_waiting_and_touches_nobody_else(plane: ControlPlane, kube: Kube) -> None:
    pretend_to_run(kube)
    eventually(lambda: gates(kube, "probe", dry_run=True), "the gate policy acts again")
    for document in (
        pod("whole"),
        pod("share", {"gpu-fraction": "0.5"}),
        pod("held", schedulingGates=[{"name": "x/y"}]),
    ):
        kube.create(document)
    running = kube.create(pod("running", {"gpu-fraction": "0.5"}))
    kube.patch(PODS, "running", [{"op": "remove", "path": "/spec/schedulingGates"}], NAMESPACE)
    kube.bind(running, "n1", {vocabulary.GPU_UUIDS: "GPU-1"})
    before = kube.get(PODS, "running", NAMESPACE)

    rehearsal, _ = leave(plane, dry_run=True)
    assert len(rehearsal.plan.gated) == 3
    assert gates(kube, "whole") == [vocabulary.GATE]

    report, said = leave(plane)

    assert (report.ungated, report.complete, report.plan.running) == (3, True, 1)
    assert report.plan.shares == (f"{NAMESPACE}/share",)
    assert [gates(kube, name) for name in ("whole", "share", "held")] == [[], [], ["x/y"]]
    assert kube.get(PODS, "running", NAMESPACE) == before
    assert gates(kube, "late", dry_run=True) == [], "nobody gates pods any more"
    assert any("kubectl delete -k" in line for line in said)

    again, _ = leave(plane, everything=True)
    assert (again.ungated, again.removed) == (0, False), "pods still wait for the scheduler"
    assert kube.find(NAMESPACES, installation.NAMESPACE) is not None


def test_everything_goes_when_nobody_waits(plane: ControlPlane, kube: Kube) -> None:
    kube.create({"apiVersion": QUEUES.group_version, "kind": "Queue", "metadata": {"name": "team-a"}})

    report, said = leave(plane, everything=True)

    assert report.removed
    assert report.written == {QUEUE: ("team-a",)}
    assert kube.find(QUEUES, "team-a") is not None, "what an administrator wrote stays"
    assert any("--delete-objects" in line for line in said)
    assert left(kube) == ["CustomResourceDefinition queues.tangram.scheduler"]
    assert "deletionTimestamp" in kube.get(NAMESPACES, installation.NAMESPACE)["metadata"]

    again, said = leave(plane, everything=True, delete_objects=True)
    assert again.removed
    assert any("is not there" in line for line in said)
    eventually(lambda: left(kube) == [], "the definition is gone")
    assert not exists(kube, f"{QUEUES.path()}/team-a")


def left(kube: Kube) -> list[str]:
    """What is still there of the base, its namespace aside."""
    return [
        f"{document['kind']} {document['metadata']['name']}"
        for document in shipped.base()
        if document["kind"] in shipped.COLLECTIONS
        and document["kind"] != "Namespace"
        and exists(kube, f"{shipped.COLLECTIONS[document['kind']]}/{document['metadata']['name']}")
    ]


def exists(kube: Kube, path: str) -> bool:
    try:
        kube.request("GET", path)
    except ApiError as err:
        return err.status != 404
    return True


def gates(kube: Kube, name: str, *, dry_run: bool = False) -> list[str]:
    """The gates of a pod that is there, or of one that would be created."""
    if dry_run:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        found = kube.request("POST", path, pod(name), {"dryRun": "All"})
    else:
        found = kube.get(PODS, name, NAMESPACE)
    return [gate["name"] for gate in found["spec"].get("schedulingGates", ())]
