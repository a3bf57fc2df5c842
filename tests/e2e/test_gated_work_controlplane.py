"""Ten thousand gated pods in fifty queues on a full cluster: they cost kube-scheduler nothing, and Tangram little."""

from __future__ import annotations

import time
from typing import Final

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, gpu_node
from tests.controlplane.resources import PODS
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e.conftest import Measured
from tests.e2e.ops import Ops
from tests.e2e.pods import whole, within
from tests.e2e.queues import LABEL, gpus, queue, queues
from tests.e2e.watching import gates, running

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler"), pytest.mark.timeout(600)]

WAITING: Final = 10_000
TEAMS: Final = 50
BATCH: Final = 500
ROUNDS: Final = "tangram_planning_round_seconds"


def test_ten_thousand_wait(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess, measured: Measured
) -> None:
    ops = Ops(tangram)
    fake_nodes.create(*(gpu_node(f"n{at}", A100, devices=8) for at in range(4)))
    teams = [queue(f"team-{at:02}", resources=gpus(quota=1)) for at in range(TEAMS)]
    with queues(kube, *teams):
        eventually(lambda: len(ops.queues()["queues"]) == TEAMS, "Tangram knows the queues")
        full = [f"full-{at}" for at in range(4)]
        kube.create_all(within(namespace, *(whole(name, 8, labels={LABEL: "team-00"}) for name in full)))
        running(kube, namespace, *full)
        asked = _asked(ops)
        started = time.monotonic()
        for first in range(0, WAITING, BATCH):
            numbers = range(first, min(first + BATCH, WAITING))
            pods = (whole(f"p{at:05}", 1 + at % 2, labels={LABEL: f"team-{at % TEAMS:02}"}) for at in numbers)
            kube.create_all(within(namespace, *pods))
        created_s = time.monotonic() - started
        eventually(lambda: ops.status()["waiting"] == WAITING, "all wait", 120)
        before = (ops.metric(f"{ROUNDS}_sum"), ops.metric(f"{ROUNDS}_count"))
        gated = sum(bool(gates(pod)) for pod in kube.list(PODS, namespace))
        assert gated == WAITING, "kube-scheduler does not take up a gated pod"
        assert _asked(ops) == asked, "and never asked about them"
        kube.delete(PODS, "full-3", namespace)
        eventually(lambda: ops.status()["waiting"] <= WAITING - 4, "the next run", 60)
        time.sleep(2)
        after = (ops.metric(f"{ROUNDS}_sum"), ops.metric(f"{ROUNDS}_count"))
        placed = WAITING - int(ops.status()["waiting"])
        assert 4 <= placed <= 8
        eventually(lambda: _asked(ops) > asked, "kube-scheduler asks about those that were released")
        assert _asked(ops) - asked <= placed * 3, "and about no others"
        mean_ms = 1000 * (after[0] - before[0]) / max(after[1] - before[1], 1)
        measured(
            f"{WAITING} pods created in {created_s:.0f} s; mean of {after[1] - before[1]:.0f} rounds {mean_ms:.1f} ms"
        )


def _asked(ops: Ops) -> float:
    """Calls of kube-scheduler's extender client so far."""
    return ops.metric("tangram_extender_request_seconds_count")
