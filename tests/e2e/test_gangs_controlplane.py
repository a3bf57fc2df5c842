"""Gangs on a real control plane: whole or not at all, near one another, growing, and told why they wait."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Final

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, gpu_node
from tests.controlplane.resources import NODES, PODS, Object
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.conftest import Measured
from tests.e2e.gangs import BLOCK, DOMAIN, RACK, RANK, members, pod_group, racks, topology, watched
from tests.e2e.ops import Ops
from tests.e2e.pods import whole, within
from tests.e2e.watching import events, in_phase, message, running

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("kube_scheduler"),
]

LARGE: Final = 128
NO_ROOM: Final = "needs room for"
GANGS, SIZE, ROOM_FOR = 50, 10, 30


def test_a_large_gang_is_bound_as_one(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess, measured: Measured
) -> None:
    fake_nodes.create(*racks(LARGE, per_rack=16, per_block=4))
    with topology(kube), watched(kube, LARGE) as seen:
        kube.create(pod_group(namespace, "large", LARGE, topologyConstraint={"preferredTopologyLevel": RACK}))
        pods = within(namespace, *members("large", LARGE, 8))
        started = time.monotonic()
        kube.create_all(pods)
        created = time.monotonic()
        found = running(kube, namespace, *(pod["metadata"]["name"] for pod in pods), timeout_s=200)
        measured(
            f"{LARGE} pods of one gang run {time.monotonic() - started:.1f} s after the first was created, "
            f"{time.monotonic() - created:.1f} s after the last"
        )
    assert not seen.torn
    assert not seen.bound_twice
    assert {pod["metadata"]["annotations"][RANK] for pod in found} == set(map(str, range(LARGE)))
    books.agree(kube, Ops(tangram))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_fifty_gangs_thirty_fit(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess, measured: Measured, seed: int
) -> None:
    fake_nodes.create(*(gpu_node(f"n{at:02}", A100) for at in range(-(-ROOM_FOR * SIZE // 8))))
    names = [f"g{at:02}" for at in range(GANGS)]
    with watched(kube, SIZE) as seen:
        kube.create_all([pod_group(namespace, name, SIZE) for name in names])
        pods = [pod for name in names for pod in within(namespace, *members(name, SIZE))]
        random.Random(seed).shuffle(pods)
        started = time.monotonic()
        kube.create_all(pods)
        eventually(lambda: len(in_phase(kube, namespace, "Running")) >= ROOM_FOR * SIZE, "thirty run", 200, 0.5)
        measured(f"{ROOM_FOR} of {GANGS} gangs run {time.monotonic() - started:.1f} s after the first pod was created")
        eventually(lambda: len(_told(kube, namespace)) == (GANGS - ROOM_FOR) * SIZE, "all others say why", 120, 0.5)
        assert seen.sizes() == [SIZE] * ROOM_FOR
    assert not seen.torn
    reasons = Counter(text.partition("needs")[2] for text in _told(kube, namespace).values())
    assert list(reasons) == [" room for 10 pods at once, there is room for 4"], reasons
    books.agree(kube, Ops(tangram))


def _told(kube: Kube, namespace: str) -> dict[str, str]:
    """Messages of the pods that wait and say why."""
    waiting = [pod for pod in kube.list(PODS, namespace) if pod["spec"].get("nodeName") is None]
    return {pod["metadata"]["name"]: message(pod) for pod in waiting if NO_ROOM in message(pod)}


def test_a_gang_that_cannot_run_says_so_and_keeps_nobody_back(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess, measured: Measured
) -> None:
    nodes = 500
    fake_nodes.create(*(gpu_node(f"n{at:03}", A100) for at in range(nodes)))
    kube.create_all(within(namespace, *(_filler(at, 8 if at else 7) for at in range(nodes))))
    eventually(lambda: Ops(tangram).status()["entries"] == nodes, "Tangram knows that all is full", 60)
    kube.apply(_priority("gangs-high", 100_000))
    kube.create(pod_group(namespace, "huge", 10))
    started = time.monotonic()
    kube.create_all(within(namespace, *members("huge", 10, 8, priorityClassName="gangs-high")))
    created = time.monotonic()
    eventually(lambda: len(_told(kube, namespace)) == 10, "all of it say why", 30)
    measured(
        f"the pods of a gang that cannot run say why {time.monotonic() - started:.2f} s after the first was created, "
        f"{time.monotonic() - created:.2f} s after the last"
    )
    text = message(kube.get(PODS, "huge-000", namespace))
    assert text == f"PodGroup {namespace}/huge needs room for 10 pods at once, there is room for 0"
    eventually(lambda: events(kube, namespace, "huge-000"), "an event")

    started = time.monotonic()
    kube.create(whole("small", 1), namespace)
    kube.wait_for(PODS, "small", namespace, lambda pod: bool(pod["spec"].get("nodeName")), "it is bound")
    measured(f"a pod that fits is bound behind that gang after {time.monotonic() - started:.2f} s")


def _filler(at: int, gpus: int) -> Object:
    """A pod of another scheduler, on its node already."""
    pod = whole(f"full-{at:03}", gpus, scheduler="another")
    return pod | {"spec": {**pod["spec"], "nodeName": f"n{at:03}"}}


def _priority(name: str, value: int) -> Object:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return kind | {"metadata": {"name": name}, "value": value}


def test_a_member_goes_while_the_others_wait_at_bind(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(*racks(8, per_rack=4, per_block=2))
    ops = Ops(tangram)
    with topology(kube), watched(kube, 4) as seen:
        kube.create(pod_group(namespace, "four", 4, topologyConstraint={"requiredTopologyLevel": RACK}))
        first, *others = within(namespace, *members("four", 4, 8))
        # kube-scheduler does not come to a pod whose volume does not exist, so the others wait for it
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
        kube.create_all([first | {"spec": {**first["spec"], "volumes": [claim]}}, *others])
        eventually(lambda: ops.status()["pods"] == {"binding": 3, "released": 1}, "three wait at bind")

        kube.delete(PODS, "four-000", namespace)
        eventually(lambda: ops.status()["pods"] == {"waiting": 3}, "the places are given back")
        assert not seen.sizes()
        eventually(lambda: ops.workload(namespace, "four-001")["reason"]["code"] == "GANG_INCOMPLETE", "it says why")
        assert not ops.status()["inFlight"]

        kube.create(whole("four-004", 8, labels=others[0]["metadata"]["labels"]), namespace)
        found = running(kube, namespace, *(f"four-{at:03}" for at in range(1, 5)), timeout_s=90)
    assert not seen.torn
    annotations = [pod["metadata"]["annotations"] for pod in found]
    assert sorted(one[RANK] for one in annotations) == ["0", "1", "2", "3"]
    assert len({one[DOMAIN] for one in annotations}) == 1
    block, rack = annotations[0][DOMAIN].split("/")
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in kube.list(NODES)}
    assert {(labels[pod["spec"]["nodeName"]][BLOCK], labels[pod["spec"]["nodeName"]][RACK]) for pod in found} == {
        (block, rack)
    }


def test_an_elastic_gang_grows_when_nodes_come(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(gpu_node("n1", A100), gpu_node("n2", A100))
    with watched(kube, 2) as seen:
        kube.create(pod_group(namespace, "elastic", 2))
        kube.create_all(within(namespace, *members("elastic", 4, 8)))
        eventually(lambda: len(in_phase(kube, namespace, "Running")) == 2, "its minimum runs")
        eventually(lambda: len(_told(kube, namespace)) == 2, "the others say why")
        gang = Ops(tangram).workload(namespace, "elastic-000")["gang"]
        assert (gang["minimum"], gang["present"], gang["placed"]) == (2, 4, 2)

        fake_nodes.create(gpu_node("n3", A100))
        eventually(lambda: len(in_phase(kube, namespace, "Running")) == 3, "it grows by one")
        fake_nodes.create(gpu_node("n4", A100))
        found = running(kube, namespace, *(f"elastic-{at:03}" for at in range(4)))
    assert not seen.torn
    assert sorted(pod["metadata"]["annotations"][RANK] for pod in found) == ["0", "1", "2", "3"]
