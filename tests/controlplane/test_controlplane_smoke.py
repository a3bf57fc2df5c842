"""The bench itself works: real API servers, the stock scheduler, and nodes that refuse what does not fit."""

from __future__ import annotations

import json

import pytest

from tests.conftest import NewControlPlane, NewFakeNodes, NewKubeScheduler
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.fake_nodes import RUN_SECONDS, FakeNodes
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.kube_scheduler import PLAIN_CONFIGURATION
from tests.controlplane.node_agent import ALLOCATION, GPU_UUIDS, UNEXPECTED
from tests.controlplane.node_models import A100, GPU, L4, cpu_node, gpu_node, liqo_node
from tests.controlplane.resources import LEASES, NODES, PODS, SERVICE_ACCOUNTS, Object

pytestmark = pytest.mark.controlplane


def new_pod(name: str, limits: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits or {}}}],
        },
    }


def phase(kube: Kube, name: str, namespace: str, wanted: str) -> Object:
    """The pod once it has the phase."""
    return kube.wait_for(PODS, name, namespace, lambda pod: pod["status"]["phase"] == wanted, f"{name} is {wanted}")


def share(node: str, index: int, milli: int, device: str) -> dict[str, str]:
    """The annotations of a Binding that assigns a share of an A100."""
    entry = {"index": index, "memoryMiB": milli * A100.memory_mib // 1000, "milli": milli}
    document = {"v": 1, "node": node, "backend": "annotation", "devices": [entry]}
    return {ALLOCATION: json.dumps(document), GPU_UUIDS: device}


def test_a_fake_node_registers_as_its_agents_would(kube: Kube, fake_nodes: FakeNodes) -> None:
    fake_nodes.create(gpu_node("a100", A100), liqo_node("virtual"), cpu_node("plain"))

    nodes = {node["metadata"]["name"]: node for node in kube.list(NODES)}

    assert nodes.keys() == {"a100", "virtual", "plain"}
    assert nodes["a100"]["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB"
    assert nodes["a100"]["status"]["allocatable"][GPU] == "8"
    assert "taints" not in nodes["a100"]["spec"], "the taint of new nodes is gone"
    assert [taint["key"] for taint in nodes["virtual"]["spec"]["taints"]] == ["virtual-node.liqo.io/not-allowed"]
    assert GPU not in nodes["plain"]["status"]["allocatable"]
    kube.wait_for(LEASES, "a100", "kube-node-lease", lambda lease: True, "the node's lease is there")


@pytest.mark.usefixtures("stock_scheduler")
def test_the_stock_scheduler_binds_and_the_node_runs(kube: Kube, namespace: str, fake_nodes: FakeNodes) -> None:
    fake_nodes.create(gpu_node("n1", L4))

    kube.create(new_pod("job", {GPU: "1"}, {RUN_SECONDS: "0.5"}), namespace)

    assert phase(kube, "job", namespace, "Running")["spec"]["nodeName"] == "n1"
    phase(kube, "job", namespace, "Succeeded")


@pytest.mark.usefixtures("stock_scheduler")
def test_devices_are_free_again_when_a_pod_is_deleted(kube: Kube, namespace: str, fake_nodes: FakeNodes) -> None:
    fake_nodes.create(gpu_node("n1", L4, devices=1))
    kube.create(new_pod("first", {GPU: "1"}), namespace)
    phase(kube, "first", namespace, "Running")

    kube.create(new_pod("second", {GPU: "1"}), namespace)
    kube.delete(PODS, "first", namespace)

    phase(kube, "second", namespace, "Running")
    assert kube.find(PODS, "first", namespace) is None


def test_a_node_refuses_shares_beyond_a_device(kube: Kube, namespace: str, fake_nodes: FakeNodes) -> None:
    fake_nodes.expect_refusals()
    fake_nodes.create(gpu_node("n1", A100, devices=2, uuids=True))
    uuid = kube.get(NODES, "n1")["metadata"]["annotations"]["tangram.scheduler/node-gpu-uuids"].split(",")[0]
    first, second, third = (kube.create(new_pod(name), namespace) for name in ("first", "second", "third"))

    kube.bind(first, "n1", share("n1", 0, 600, uuid))
    phase(kube, "first", namespace, "Running")
    kube.bind(second, "n1", share("n1", 0, 500, uuid))
    refused = phase(kube, "second", namespace, "Failed")
    kube.bind(third, "n1", share("n1", 0, 400, uuid))
    phase(kube, "third", namespace, "Running")

    assert refused["status"]["reason"] == UNEXPECTED
    assert "1100 milli" in refused["status"]["message"]
    assert [refusal.name for refusal in fake_nodes.refusals] == ["second"]


def test_a_refusal_that_nobody_expected_is_an_error(kube: Kube, namespace: str, fake_nodes: FakeNodes) -> None:
    fake_nodes.create(cpu_node("n1", cpu="2"))
    kube.bind(kube.create(new_pod("greedy", {"cpu": "3"}), namespace), "n1")

    refused = phase(kube, "greedy", namespace, "Failed")

    assert refused["status"]["reason"] == "OutOfcpu"
    with pytest.raises(AssertionError, match="OutOfcpu"):
        fake_nodes.check()
    fake_nodes.expect_refusals()


def test_two_control_planes_run_at_once(
    kube: Kube,
    fake_nodes: FakeNodes,
    new_control_plane: NewControlPlane,
    new_fake_nodes: NewFakeNodes,
    new_kube_scheduler: NewKubeScheduler,
) -> None:
    other = new_control_plane(service_accounts=True, controllers=["serviceaccount-controller"])
    fake_nodes.create(gpu_node("here"))
    new_fake_nodes(other).create(gpu_node("there"))
    new_kube_scheduler(other.scheduler_kubeconfig, PLAIN_CONFIGURATION)
    other.kube.wait_for(SERVICE_ACCOUNTS, "default", "default", lambda account: True, "accounts are made")

    other.kube.create(new_pod("job"))

    running = phase(other.kube, "job", "default", "Running")
    assert running["spec"]["nodeName"] == "there"
    assert running["spec"]["serviceAccountName"] == "default"
    assert [node["metadata"]["name"] for node in kube.list(NODES)] == ["here"]
    assert not kube.list(PODS)


def test_a_service_account_has_its_own_rights_and_no_more(control_plane: ControlPlane, namespace: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}
    control_plane.kube.create(account, namespace)

    client = control_plane.client(control_plane.service_account_kubeconfig(namespace, "nobody"))

    try:
        with pytest.raises(ApiError, match=f"system:serviceaccount:{namespace}:nobody") as denied:
            client.list(PODS, namespace)
        assert denied.value.status == 403
    finally:
        client.close()
