"""Pods as the demo of KAI in a virtual cluster has them: one consumer card, words that KAI itself would not read."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_agent import ALLOCATION, GPU_UUIDS, PhysicalDevice
from tests.controlplane.node_models import GPU, FakeNode, cpu_node
from tests.controlplane.resources import Object
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, memory, pod, whole
from tests.e2e.watching import events, running, told

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler", "nvidia_runtime")]

QUEUE: Final = {"kai.scheduler/queue": "test"}


@pytest.fixture
def nvidia_runtime(kube: Kube) -> None:
    kube.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        }
    )


def kind_node() -> FakeNode:
    """A node of kind with one card of the 16 series: a device plugin, no discovery, one label set by hand."""
    node = cpu_node(
        "demo-worker",
        cpu="12",
        memory="32Gi",
        labels={"nvidia.com/gpu.present": "true", "tangram.scheduler/shares": "true"},
    )
    for amounts in (node.document["status"]["capacity"], node.document["status"]["allocatable"]):
        amounts[GPU] = "1"
    return FakeNode(node.document, devices=[PhysicalDevice("GPU-1", 6144)])


def demo_pod(name: str, share: str, word: str = "kai.scheduler/gpu-fraction") -> Object:
    more: dict[str, Any] = {
        "runtimeClassName": "nvidia",
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "restartPolicy": "Never",
    }
    made = pod(
        name,
        annotations={word: share},
        labels={**QUEUE, "app": "gpu-demo"},
        env={"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
        **more,
    )
    made["spec"]["containers"][0]["command"] = ["sleep", "3600"]
    return made


def visible(one: Object) -> list[Object]:
    return [entry for entry in one["spec"]["containers"][0]["env"] if entry["name"] == "NVIDIA_VISIBLE_DEVICES"]


def test_the_demo_pods_share_the_card_and_are_warned_once(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(kind_node(), cpu_node("demo-control-plane"))
    ops = Ops(tangram)
    shares = {"gpu-demo-1": "0.1", "gpu-demo-2": "0.2"}

    for name, share in shares.items():
        kube.create(demo_pod(name, share), namespace)
    placed = running(kube, namespace, *shares)

    for one, milli in zip(placed, (100, 200), strict=True):
        name = one["metadata"]["name"]
        assert one["spec"]["nodeName"] == "demo-worker"
        (device,) = json.loads(one["metadata"]["annotations"][ALLOCATION])["devices"]
        assert (device["index"], device["milli"]) == (0, milli)
        (entry,) = visible(one)
        assert entry["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{GPU_UUIDS}']"
        eventually(lambda name=name: events(kube, namespace, name), f"an event about {name}")  # type: ignore[misc]
        (event,) = events(kube, namespace, name)
        assert (event["type"], event["reason"]) == ("Warning", "DeprecatedSpelling")
        assert event["message"] == (
            "annotation kai.scheduler/gpu-fraction is read as gpu-fraction: write gpu-fraction instead"
        )
    books.agree(kube, ops)
    (card,) = next(node for node in ops.nodes() if node["name"] == "demo-worker")["devices"]
    assert card["freeMilli"] == 700

    kube.create(demo_pod("gpu-demo-3", "0.8", word="gpu-fraction"), namespace)
    told(kube, namespace, "gpu-demo-3", "needs 0.8 of a device, most free 0.7 of a device")
    kube.create(demo_pod("gpu-demo-4", "0.7", word="gpu-fraction"), namespace)
    running(kube, namespace, "gpu-demo-4")
    books.agree(kube, ops)


def test_one_card_for_a_team(kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess) -> None:
    fake_nodes.create(kind_node())
    shares = {"training": "0.5", "inference": "0.25", "dev": "0.25"}
    for name, share in shares.items():
        kube.create(fraction(name, share, labels=QUEUE), namespace)
    placed = running(kube, namespace, *shares)
    kube.create(fraction("one-more", "0.25", labels=QUEUE), namespace)
    kube.create(whole("whole", labels=QUEUE), namespace)
    kube.create(memory("by-memory", 1000, labels=QUEUE), namespace)

    assert {one["metadata"]["annotations"][GPU_UUIDS] for one in placed} == {"0"}
    told(kube, namespace, "one-more", "needs 0.25 of a device, most free 0 of a device")
    told(kube, namespace, "whole", "too few whole GPUs")
    told(kube, namespace, "by-memory", "GPU memory size not known")
    books.agree(kube, Ops(tangram))
