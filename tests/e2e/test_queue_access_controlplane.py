"""Which queue a pod is in and whether it may be: on the real control plane, judged by what its author sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, H100, gpu_node
from tests.controlplane.resources import DEFINITIONS, NAMESPACES, NODES, PODS, Object, Resource
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, whole, within
from tests.e2e.queues import LABEL, QUEUES, gpus, queue, queues
from tests.e2e.watching import events, gates, in_phase, message, running, told

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler")]
KAI_QUEUES = Resource("scheduling.run.ai/v2", "queues", False)


@pytest.fixture
def nodes(fake_nodes: FakeNodes) -> FakeNodes:
    fake_nodes.create(gpu_node("n1", A100, devices=8))
    return fake_nodes


def relabel(kube: Kube, namespace: str, name: str, value: str | None) -> None:
    kube.patch(PODS, name, {"metadata": {"labels": {LABEL: value}}}, namespace)


def set_labels(kube: Kube, namespace: str, **labels: str | None) -> None:
    kube.patch(NAMESPACES, namespace, {"metadata": {"labels": labels}})


def labelled(kube: Kube, namespace: str, key: str, value: str | None) -> None:
    kube.patch(NAMESPACES, namespace, {"metadata": {"labels": {key: value}}})


@pytest.mark.usefixtures("nodes")
def test_a_queue_that_does_not_exist_and_then_does(kube: Kube, namespace: str, tangram: TangramProcess) -> None:
    ops = Ops(tangram)
    with queues(kube, queue("other")):
        eventually(lambda: not ops.queues()["implicit"], "Tangram knows the queue")
        kube.create_all(within(namespace, whole("early", labels={LABEL: "late"}), whole("nameless")))
        told(kube, namespace, "early", "queue late does not exist (yet)")
        pod = told(kube, namespace, "nameless", "the pod names no queue")
        assert gates(pod) == ["tangram.scheduler/queued"]
        (event,) = events(kube, namespace, "early")
        assert event["reason"] == "QueueDoesNotExist"
        kube.create(queue("late"))
        running(kube, namespace, "early")
        relabel(kube, namespace, "nameless", "other")
        running(kube, namespace, "nameless")


@pytest.mark.usefixtures("nodes")
def test_only_namespaces_that_are_allowed(kube: Kube, namespace: str, tangram: TangramProcess) -> None:
    closed = queue("closed", namespaces=["somebody-else"], namespaceSelector={"matchLabels": {"team": "red"}})
    with queues(kube, closed, queue("inherits", parent="closed"), queue("open")):
        eventually(lambda: len(Ops(tangram).queues()["queues"]) == 3, "Tangram knows the queues")
        kube.create_all(within(namespace, whole("a", labels={LABEL: "inherits"}), whole("b", labels={LABEL: "closed"})))
        told(kube, namespace, "a", f"namespace {namespace} may not use queue inherits")
        told(kube, namespace, "b", "queue closed has queues below it")
        set_labels(kube, namespace, team="red")
        running(kube, namespace, "a")
        relabel(kube, namespace, "b", "open")
        running(kube, namespace, "b")
        set_labels(kube, namespace, team=None)
        kube.create_all(within(namespace, whole("c", labels={LABEL: "inherits"})))
        told(kube, namespace, "c", "may not use queue inherits")
        assert in_phase(kube, namespace, "Running") == {"a", "b"}, "what runs stays"


@pytest.mark.usefixtures("nodes")
def test_the_default_queue_of_a_namespace(kube: Kube, namespace: str, tangram: TangramProcess) -> None:
    with queues(kube, queue("team", resources=gpus(limit=1))):
        eventually(lambda: not Ops(tangram).queues()["implicit"], "Tangram knows the queue")
        labelled(kube, namespace, "tangram.scheduler/default-queue", "team")
        kube.create_all(within(namespace, whole("a"), whole("b")))
        eventually(lambda: len(in_phase(kube, namespace, "Running")) == 1, "one runs")
        (waiting,) = {"a", "b"} - in_phase(kube, namespace, "Running")
        told(kube, namespace, waiting, "queue team would exceed its GPU limit: 1 GPU asked, 1 GPU of 1 GPU in use")
        labelled(kube, namespace, "tangram.scheduler/default-queue", None)


@pytest.mark.usefixtures("nodes")
def test_why_a_pod_waits_level_by_level(kube: Kube, namespace: str, tangram: TangramProcess) -> None:
    ops = Ops(tangram)
    department = queue("department", resources=gpus(quota=2, limit=3))
    with queues(kube, department, queue("team", parent="department", resources=gpus(quota=1, limit=8))):
        eventually(lambda: len(ops.queues()["queues"]) == 2, "Tangram knows the queues")
        labels = {LABEL: "team"}
        kube.create_all(within(namespace, whole("runs", 3, labels=labels)))
        running(kube, namespace, "runs")
        kube.create_all(within(namespace, whole("waits", 2, labels=labels)))
        told(kube, namespace, "waits", "queue department would exceed its GPU limit: 2 GPUs asked, 3 GPUs of 3 GPUs")
        found = ops.workload(namespace, "waits")
        assert found["reason"]["code"] == "OVER_LIMIT"
        assert [level["queue"] for level in found["levels"]] == ["team", "department"]
        assert found["levels"][1]["limit"]["gpuMilli"] == 3000
        assert found["levels"][1]["allocated"]["gpuMilli"] == 3000
        assert [remedy["change"] for remedy in found["remedies"]] == ["WORK_OF_QUEUE_ENDS", "RAISE_LIMIT"]
        status, said = ops.command("explain", f"{namespace}/waits")
        assert status == 1
        assert "level    department: GPU 2 asked, 3 in use, quota 2, limit 3" in said
        assert "needs    work of queue department has to give back 2 GPUs" in said
        _, tree = ops.command("queues")
        assert "  team" in tree
        eventually(lambda: _status(kube, "team").get("waiting") == 1, "the status says so")
        assert _status(kube, "department")["allocated"]["gpu"] == "3"
        assert ops.metric("tangram_queue_waiting", queue="team") == 1
        kube.delete(PODS, "runs", namespace)
        running(kube, namespace, "waits")


def _status(kube: Kube, name: str) -> Object:
    found: Object = kube.get(QUEUES, name).get("status", {})
    return found


def test_what_cannot_give_way_stays_within_quota(
    kube: Kube, namespace: str, nodes: FakeNodes, tangram: TangramProcess
) -> None:
    with queues(kube, queue("team", resources=gpus(quota=1))):
        eventually(lambda: not Ops(tangram).queues()["implicit"], "Tangram knows the queue")
        labels = {LABEL: "team"}
        services = [whole(f"service-{at}", labels=labels, priorityClassName="tangram-inference") for at in range(2)]
        kube.create_all(within(namespace, *services))
        eventually(lambda: len(in_phase(kube, namespace, "Running")) == 1, "one runs")
        (waiting,) = {"service-0", "service-1"} - in_phase(kube, namespace, "Running")
        told(kube, namespace, waiting, "too little GPU quota for non-preemptible work")
        training = [whole(f"training-{at}", labels=labels, priorityClassName="tangram-train") for at in range(3)]
        kube.create_all(within(namespace, *training))
        running(kube, namespace, *(f"training-{at}" for at in range(3)))
        assert nodes.refusals == []


def test_limits_per_gpu_model(kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess) -> None:
    fake_nodes.create(gpu_node("a1", A100, devices=1), gpu_node("h1", H100, devices=8))
    with queues(kube, queue("team", resources={"gpuModels": {"H100": {"limit": 2}}})):
        eventually(lambda: not Ops(tangram).queues()["implicit"], "Tangram knows the queue")
        kube.create_all(within(namespace, *(whole(f"p{at}", labels={LABEL: "team"}) for at in range(5))))
        eventually(lambda: len(in_phase(kube, namespace, "Running")) == 3, "three run")
        waiting = sorted({f"p{at}" for at in range(5)} - in_phase(kube, namespace, "Running"))
        told(kube, namespace, waiting[0], "over what the queue may have of this kind of GPU")
        placed = [pod["spec"]["nodeName"] for pod in kube.list(PODS, namespace) if "nodeName" in pod["spec"]]
        assert sorted(placed) == ["a1", "h1", "h1"]


@pytest.fixture
def kai_definition(kube: Kube) -> Iterator[None]:
    """The definition of KAI's Queue, as far as it matters to an API server."""
    name = "queues.scheduling.run.ai"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "queues", "singular": "queue", "kind": "Queue", "listKind": "QueueList"}
    spec = {"group": "scheduling.run.ai", "scope": "Cluster", "names": names, "versions": [version]}
    document = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    kube.create({**document, "metadata": {"name": name}, "spec": spec})
    yield
    kube.delete(DEFINITIONS, name)


@pytest.mark.usefixtures("nodes", "kai_definition")
def test_kais_queues_are_read_as_they_are(
    kube: Kube, namespace: str, tangram: TangramProcess, new_tangram: Any
) -> None:
    """Their numbers, and their meaning of what is not said: a limit that is not written is 0."""

    def terms(**gpu: float) -> Object:
        endless = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        return {"gpu": gpu, "cpu": endless, "memory": endless}

    def kai(name: str, **spec: Any) -> Object:
        return {"apiVersion": KAI_QUEUES.group_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}

    def created() -> bool:
        try:
            kube.create(kai("team", resources=terms(quota=1, limit=2, overQuotaWeight=1)))
        except Exception:
            return False
        return True

    eventually(created, "KAI's queues are served")
    kube.create(kai("shut", resources=terms(quota=0)))
    # Tangram looks for kinds that are not there every half a minute
    eventually(lambda: len(Ops(tangram).queues()["queues"]) == 2, "Tangram knows the queues", timeout_s=45)
    label = "kai.scheduler/queue"
    kube.create_all(within(namespace, *(whole(f"p{at}", labels={label: "team"}) for at in range(3))))
    kube.create_all(within(namespace, fraction("q", "0.5", labels={label: "shut"})))
    eventually(lambda: len(in_phase(kube, namespace, "Running")) == 2, "two run")
    told(kube, namespace, "q", "would exceed its GPU limit: 0.5 GPUs asked, 0 GPUs of 0 GPUs in use")


@pytest.mark.usefixtures("nodes")
def test_an_autoscaler_sees_what_only_nodes_are_missing_for(
    kube: Kube, namespace: str, tangram: TangramProcess
) -> None:
    """No more than the queue admits, unschedulable for every in-tree filter; what quota holds back waits gated."""
    with queues(kube, queue("team", autoscaling="visible", resources=gpus(limit=10))):
        eventually(lambda: not Ops(tangram).queues()["implicit"], "Tangram knows the queue")
        labels = {LABEL: "team"}
        kube.create_all(within(namespace, whole("fills", 8, labels=labels)))
        running(kube, namespace, "fills")
        kube.create_all(within(namespace, *(whole(f"p{at}", labels=labels) for at in range(5))))
        kube.create_all(within(namespace, fraction("share", "0.5", labels=labels)))
        eventually(lambda: len(_unschedulable(kube, namespace)) == 2, "two are shown to autoscalers")
        told(kube, namespace, "share", "no node fits")
        (node,) = kube.list(NODES)
        free = int(node["status"]["allocatable"]["nvidia.com/gpu"]) - 8
        assert free < 1, "no node that there is would pass the in-tree filters"
        gated = {pod["metadata"]["name"] for pod in kube.list(PODS, namespace) if gates(pod)}
        assert len(gated) == 4
        assert _unschedulable(kube, namespace).isdisjoint(gated)
        kube.delete(PODS, "fills", namespace)
        running(kube, namespace, *sorted(_unschedulable(kube, namespace)))
        running(kube, namespace, "share", *(f"p{at}" for at in range(5)))


def _unschedulable(kube: Kube, namespace: str) -> set[str]:
    """Pods that autoscalers act on."""
    found = set()
    for pod in kube.list(PODS, namespace):
        conditions = {one["type"]: one for one in pod["status"].get("conditions", ())}
        scheduled = conditions.get("PodScheduled", {})
        if (scheduled.get("status"), scheduled.get("reason")) == ("False", "Unschedulable"):
            assert "nvidia.com/gpu" in message(pod), json.dumps(scheduled)
            found.add(pod["metadata"]["name"])
    return found
