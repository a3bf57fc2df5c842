"""More shares than a node can hold, created at one instant: the right ones wait, say why, and go on when they can."""

from __future__ import annotations

import re
import time

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, gpu_node
from tests.controlplane.resources import PODS
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.conftest import Measured
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, within
from tests.e2e.watching import events, gates, in_phase, message, told

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler")]

REASON = "no node fits: 1 node: too little left on any one GPU (needs 0.3 of a device, most free 0.1 of a device)"


def test_twenty_shares_for_four_devices(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess, measured: Measured
) -> None:
    fake_nodes.create(gpu_node("n1", A100, devices=4))
    ops = Ops(tangram)
    names = {f"p{number:02}" for number in range(20)}

    kube.create_all(within(namespace, *(fraction(name, "0.3") for name in sorted(names))))

    eventually(lambda: len(in_phase(kube, namespace, "Running")) >= 12, "twelve run")
    first = in_phase(kube, namespace, "Running")
    waiting = names - first
    assert len(waiting) == 8
    for name in waiting:
        _waits_and_says_why(kube, namespace, name, ops)
    books.agree(kube, ops)

    gone = sorted(first)[0]
    started = time.monotonic()
    kube.delete(PODS, gone, namespace)
    eventually(lambda: in_phase(kube, namespace, "Running") - first, "one more runs", every_s=0.01)
    measured(f"{1000 * (time.monotonic() - started):.0f} ms from a deletion until the next pod runs")

    books.agree(kube, ops)
    after = in_phase(kube, namespace, "Running")
    assert len(after) == 12
    assert first - {gone} <= after
    for name in names - after - {gone}:
        assert message(kube.get(PODS, name, namespace)) == REASON
        assert len(events(kube, namespace, name)) == 1, "nothing new, so no second event"


def _waits_and_says_why(kube: Kube, namespace: str, name: str, ops: Ops) -> None:
    pod = told(kube, namespace, name, REASON)
    assert gates(pod) == ["tangram.scheduler/queued"]
    eventually(lambda: events(kube, namespace, name), f"an event about {name}")
    (event,) = events(kube, namespace, name)
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "InsufficientGpuShare", REASON)
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    status, said = ops.command("explain", f"{namespace}/{name}")
    assert status == 1
    assert f"{name}: waiting" in said
    assert re.search(rf"reason +{re.escape(REASON)} +\[INSUFFICIENT_GPU_SHARE\]", said), said
