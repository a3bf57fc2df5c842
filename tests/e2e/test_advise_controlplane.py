"""Advise mode: the stock scheduler decides and binds by itself, in the order that Tangram advises."""

from __future__ import annotations

from typing import Final

import pytest

from tests.conftest import NewKubeScheduler, NewTangram
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, cpu_node, gpu_node, liqo_node
from tests.controlplane.resources import PODS
from tests.controlplane.waiting import eventually
from tests.e2e.installing import ADVISE, advise_mode
from tests.e2e.ops import Ops
from tests.e2e.pods import LIQO_TOLERATION, fraction, whole, within
from tests.e2e.pods import pod as new_pod
from tests.e2e.watching import running

pytestmark = pytest.mark.controlplane

SCHEDULER: Final = "tangram-advise"


@pytest.fixture
def advised(
    control_plane: ControlPlane, binaries: Binaries, new_tangram: NewTangram, new_kube_scheduler: NewKubeScheduler
) -> Ops:
    """Tangram and kube-scheduler with the configuration, settings and rights of advise mode."""
    kubeconfig = advise_mode(control_plane, binaries)
    tangram = new_tangram(kubeconfig, arguments=[f"--config={ADVISE / 'config' / 'tangram.yaml'}", "--lease-mode=off"])
    new_kube_scheduler(kubeconfig, ADVISE / "config" / "scheduler.yaml", extender_address=tangram.extender_address)
    return Ops(tangram)


def test_nodes_fill_in_the_order_that_is_advised(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, advised: Ops
) -> None:
    # the one with the fewest free devices first; the stock scores would spread over them
    fake_nodes.create(
        gpu_node("eight", A100, devices=8),
        gpu_node("two", A100, devices=2),
        gpu_node("four", A100, devices=4),
        liqo_node("virtual", gpus=64),
        cpu_node("plain"),
    )
    eventually(lambda: advised.status()["nodes"] == 5, "Tangram knows the nodes")

    order = []
    for number in range(15):
        name = f"p{number:02}"
        kube.create(whole(name, scheduler=SCHEDULER, tolerations=[LIQO_TOLERATION]), namespace)
        (pod,) = running(kube, namespace, name)
        order.append(pod["spec"]["nodeName"])
        eventually(lambda: advised.status()["entries"] == len(order), "Tangram has seen it")

    assert order == ["two"] * 2 + ["four"] * 4 + ["eight"] * 8 + ["virtual"]
    kube.create(new_pod("cpu-only", scheduler=SCHEDULER), namespace)
    (pod,) = running(kube, namespace, "cpu-only")
    assert pod["spec"]["nodeName"] == "plain", "pods without devices keep away from those that have some"
    calls = advised.api_calls()
    assert calls, "calls are counted"
    assert all(call.startswith(("list_", "watch_")) for call in calls), "nothing was written"


def test_a_burst_overbooks_nothing(kube: Kube, namespace: str, fake_nodes: FakeNodes, advised: Ops) -> None:
    fake_nodes.create(*(gpu_node(f"n{number}", A100, devices=4) for number in range(5)))
    eventually(lambda: advised.status()["nodes"] == 5, "Tangram knows the nodes")
    names = [f"p{number:02}" for number in range(20)]

    kube.create_all(within(namespace, *(whole(name, scheduler=SCHEDULER) for name in names)))

    running(kube, namespace, *names)
    eventually(lambda: advised.status()["entries"] == 20, "Tangram has seen them")


@pytest.mark.usefixtures("advised")
def test_a_share_is_refused_and_says_where_it_could_go(kube: Kube, namespace: str, fake_nodes: FakeNodes) -> None:
    fake_nodes.create(gpu_node("n1", A100, devices=1))

    kube.create(fraction("share", "0.5", scheduler=SCHEDULER), namespace)

    pod = kube.wait_for(
        PODS,
        "share",
        namespace,
        lambda pod: "plan mode" in str(pod["status"].get("conditions", [])),
        "the pod is told that shares need plan mode",
    )
    assert pod["status"]["phase"] == "Pending"
