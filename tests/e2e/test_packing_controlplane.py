"""Placement by the value of what is left, through the real scheduler: the mix is learnt, told, and replayed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_agent import ALLOCATION
from tests.controlplane.node_models import A100, L4, gpu_node
from tests.controlplane.resources import NODES, PODS
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, whole, within
from tests.e2e.watching import running

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler")]

SHARES = ("0.7", "0.5", "0.3", "0.5", "0.7", "0.2")


def test_a_plan_with_the_mix_that_is_told_chooses_what_the_live_planner_chooses(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(gpu_node("n1", A100, devices=4), gpu_node("n2", A100, devices=4), gpu_node("n3", L4, devices=2))
    ops = Ops(tangram)
    eventually(lambda: ops.status()["nodes"] == 3, "Tangram knows the nodes")
    names = [f"share-{number}" for number in range(len(SHARES))]
    kube.create_all(within(namespace, *map(fraction, names, SHARES), whole("two", 2)))
    running(kube, namespace, *names, "two")

    fake_nodes.create(gpu_node("n4", A100, devices=1))  # a new node has the tables made anew, of what is there
    eventually(lambda: _counted(ops) == {500: 2, 700: 2, 300: 1, 200: 1, 1000: 1}, "the pods are in the mix")
    assert {model["devices"] for model in ops.packing()["hardware"]} == {9, 2}

    for number, new in enumerate((fraction("new-0", "0.3"), whole("new-1", 1), fraction("new-2", "0.6"))):
        planned = _planned(kube, namespace, ops, new)
        kube.create(new, namespace)
        (pod,) = running(kube, namespace, f"new-{number}")
        allocation = json.loads(pod["metadata"]["annotations"].get(ALLOCATION, '{"devices": []}'))
        assert pod["spec"]["nodeName"] == planned["node"]
        assert [one["index"] for one in allocation["devices"]] == [one["index"] for one in planned["devices"]]
    books.agree(kube, ops)


def _counted(ops: Ops) -> dict[int, int]:
    """Pods of the mix by the milli of each device, without the prior."""
    return {one["milli"]: one["pods"] for one in ops.packing()["mix"] if one["pods"]}


def _planned(kube: Kube, namespace: str, ops: Ops, new: dict[str, Any]) -> dict[str, Any]:
    """Where a stateless plan with the mix in use puts the pod."""
    pods = [one for one in kube.list(PODS, namespace) if one["status"].get("phase") != "Succeeded"]
    wanted = {**new, "metadata": {**new["metadata"], "namespace": namespace}}
    objects = [*({"apiVersion": "v1", "kind": "Node", **one} for one in kube.list(NODES)), wanted]
    objects += [{"apiVersion": "v1", "kind": "Pod", **one} for one in pods]
    document = {"objects": objects, "options": {"placement": "rsv", "mix": ops.packing()["mix"]}}
    answer = ops.plan(document)
    (placed,) = answer["placements"]
    assert isinstance(placed, dict)
    return placed
