"""Tangram among others: pods of other schedulers, pods with a node of their own, and pods of higher priority."""

from __future__ import annotations

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, gpu_node
from tests.controlplane.resources import PODS
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, whole, within
from tests.e2e.pods import pod as new_pod
from tests.e2e.watching import in_phase, message, running, told

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler")]


@pytest.fixture
def urgent(kube: Kube) -> str:
    """A priority class above the default."""
    document = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    kube.apply(document)
    return "urgent"


def test_nobody_is_evicted_for_a_pod_of_higher_priority(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess, urgent: str
) -> None:
    fake_nodes.create(gpu_node("n1", A100, devices=2), gpu_node("n2", A100, devices=2))
    names = ["a", "b", "c", "d"]
    kube.create_all(within(namespace, *(whole(name) for name in names)))
    running(kube, namespace, *names)
    kube.create(whole("patient"), namespace)
    told(kube, namespace, "patient", "2 nodes: too few whole GPUs (nvidia.com/gpu: needs 1, most free 0)")

    kube.create(whole("hurried", priorityClassName=urgent), namespace)
    told(kube, namespace, "hurried", "2 nodes: too few whole GPUs (nvidia.com/gpu: needs 1, most free 0)")
    assert in_phase(kube, namespace, "Running") == set(names)

    kube.delete(PODS, "a", namespace)
    running(kube, namespace, "hurried")
    assert in_phase(kube, namespace, "Running") == {"b", "c", "d", "hurried"}
    books.agree(kube, Ops(tangram))


def on(node: str) -> dict[str, str]:
    """The node selector that names one node."""
    return {"kubernetes.io/hostname": node}


@pytest.mark.usefixtures("stock_scheduler")
def test_what_others_hold_is_counted(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    """The device agent of a node refuses whoever does not fit, so wrong books would show at once."""
    fake_nodes.create(gpu_node("n1", A100, devices=4), gpu_node("n2", A100, devices=4))
    ops = Ops(tangram)
    theirs = [
        whole("stock-gpus", 3, scheduler="default-scheduler", nodeSelector=on("n1")),
        new_pod("stock-memory", requests={"memory": "1048320Mi"}, scheduler="default-scheduler", nodeSelector=on("n2")),
        whole("placed-by-hand", 1, scheduler="nobody", nodeName="n2"),
    ]
    kube.create_all(within(namespace, *theirs))
    running(kube, namespace, *(one["metadata"]["name"] for one in theirs))
    eventually(lambda: ops.status()["entries"] == 3, "Tangram has seen them")

    # n1 has one device left, for two of these; n2 has three, but memory for one pod
    names = {f"share-{number}" for number in range(6)}
    kube.create_all(within(namespace, *(fraction(name, "0.4") for name in names)))
    eventually(lambda: len(names & in_phase(kube, namespace, "Running")) == 3, "three shares run")
    for name in names - in_phase(kube, namespace, "Running"):
        pod = told(kube, namespace, name, "1 node: too little memory")
        assert "1 node: too little left on any one GPU" in message(pod)
    books.agree(kube, ops)

    kube.delete(PODS, "stock-memory", namespace)
    running(kube, namespace, *names)
    kube.create_all(within(namespace, *(whole(f"whole-{number}") for number in range(3))))
    eventually(lambda: ops.status()["waiting"] == 2, "one device was left, and two pods wait for more")
    kube.delete(PODS, "stock-gpus", namespace)
    running(kube, namespace, *(f"whole-{number}" for number in range(3)))
    books.agree(kube, ops)
