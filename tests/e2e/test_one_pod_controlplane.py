"""The way of one pod, from create to Running and away again, through everything that is real."""

from __future__ import annotations

import json

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_agent import ALLOCATION, GPU_UUIDS
from tests.controlplane.node_models import A100, L4, cpu_node, gpu_node
from tests.controlplane.resources import NODES, PODS
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, memory, pod, whole
from tests.e2e.watching import events, gates, running

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler")]


def test_whole_devices_shares_and_plain_pods_run(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(gpu_node("a100", A100, devices=4, uuids=True), gpu_node("l4", L4, devices=1), cpu_node("cpu"))
    ops = Ops(tangram)
    eventually(lambda: ops.status()["nodes"] == 3, "Tangram knows the nodes")

    for one in (whole("two", 2), fraction("half", "0.5"), memory("half-an-l4", 10_000), pod("plain")):
        created = kube.create(one, namespace)
        assert gates(created) == ["tangram.scheduler/queued"]
        running(kube, namespace, one["metadata"]["name"])

    two, half, some, plain = running(kube, namespace, "two", "half", "half-an-l4", "plain")
    assert two["spec"]["nodeName"] == "a100"
    assert [device["milli"] for device in json.loads(two["metadata"]["annotations"][ALLOCATION])["devices"]] == [
        1000,
        1000,
    ]
    assert GPU_UUIDS not in two["metadata"]["annotations"]
    assert half["spec"]["nodeName"] == "l4", "the node with the fewest free devices"
    assert json.loads(half["metadata"]["annotations"][ALLOCATION]) == {
        "v": 1,
        "node": "l4",
        "backend": "annotation",
        "devices": [{"index": 0, "memoryMiB": 11517, "milli": 500}],
    }
    assert half["metadata"]["annotations"][GPU_UUIDS] == "0"
    (entry,) = half["spec"]["containers"][0]["env"]
    assert entry["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{GPU_UUIDS}']"
    assert some["spec"]["nodeName"] == "l4", "the device that is shared already"
    assert plain["spec"]["nodeName"] == "cpu"
    assert "annotations" not in plain["metadata"]
    books.agree(kube, ops)
    assert ops.workload(namespace, "half")["stage"] == "bound"
    assert not events(kube, namespace, "half"), "a pod that goes its way is no news"


def test_a_share_names_its_device_by_uuid_where_it_is_known(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(gpu_node("a100", A100, devices=2, uuids=True))
    uuids = kube.get(NODES, "a100")["metadata"]["annotations"]["tangram.scheduler/node-gpu-uuids"].split(",")

    kube.create(fraction("two-halves", "0.5", devices=2), namespace)

    (pod,) = running(kube, namespace, "two-halves")
    assert sorted(pod["metadata"]["annotations"][GPU_UUIDS].split(",")) == sorted(uuids)
    books.agree(kube, Ops(tangram))


def test_what_a_deleted_pod_held_is_free_again(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(gpu_node("n1", L4, devices=1))
    ops = Ops(tangram)
    kube.create(whole("first"), namespace)
    running(kube, namespace, "first")
    kube.create(whole("second"), namespace)
    eventually(lambda: ops.knows(namespace, "second"), "Tangram has seen the second pod")
    assert ops.workload(namespace, "second")["reason"]["code"] == "INSUFFICIENT_WHOLE_GPUS"

    kube.delete(PODS, "first", namespace)

    running(kube, namespace, "second")
    books.agree(kube, ops)
    assert not ops.knows(namespace, "first")
