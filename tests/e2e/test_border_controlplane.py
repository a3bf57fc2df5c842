"""Real and virtual nodes in one cluster."""

from __future__ import annotations

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import H100, gpu_node, liqo_node
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.ops import Ops
from tests.e2e.pods import LIQO_TOLERATION, fraction, whole, within
from tests.e2e.watching import running, told

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler")]


def test_real_nodes_fill_first_and_no_share_crosses_the_border(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    # names and sizes that would tempt anybody who does not know the difference
    fake_nodes.create(liqo_node("a-virtual", gpus=64), gpu_node("n1", H100, devices=4), gpu_node("n2", H100, devices=4))
    ops = Ops(tangram)
    eventually(lambda: ops.status()["nodes"] == 3, "Tangram knows the nodes")
    names = [f"p{number}" for number in range(10)]
    pods = [whole(name, tolerations=[LIQO_TOLERATION]) for name in names]

    kube.create_all(within(namespace, *pods[:8]))
    placed = running(kube, namespace, *names[:8])
    assert {pod["spec"]["nodeName"] for pod in placed} == {"n1", "n2"}

    kube.create_all(within(namespace, *pods[8:]))
    away = running(kube, namespace, *names[8:])
    for pod in away:
        assert pod["spec"]["nodeName"] == "a-virtual"
        assert not any(key.startswith("tangram") for key in pod["metadata"].get("annotations", {}))
        assert not any(key.startswith("tangram") for key in pod["metadata"].get("labels", {}))

    kube.create(fraction("share", "0.5", tolerations=[LIQO_TOLERATION]), namespace)
    kube.create(whole("at-home"), namespace)
    told(kube, namespace, "share", "1 node: virtual node takes no GPU shares")
    told(kube, namespace, "at-home", "1 node: untolerated taint")
    books.agree(kube, ops)
    virtual = next(node for node in ops.nodes() if node["name"] == "a-virtual")
    assert (virtual["virtual"], virtual["kind"], virtual["cluster"]) == (True, "liqo", "gcp-eu")
    assert virtual["counted"]["nvidia.com/gpu"] == {"allocatable": 64, "free": 62}


def test_a_burst_over_the_border_is_counted(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(liqo_node("virtual", gpus=6), gpu_node("real", H100, devices=2))
    names = [f"p{number:02}" for number in range(12)]

    kube.create_all(within(namespace, *(whole(name, tolerations=[LIQO_TOLERATION]) for name in names)))

    ops = Ops(tangram)
    eventually(lambda: ops.status()["pods"] == {"bound": 8, "waiting": 4}, "eight are bound, four wait")
    books.agree(kube, ops)
