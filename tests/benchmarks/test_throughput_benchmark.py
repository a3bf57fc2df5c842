"""The throughput benchmark, small: it must keep running on the real control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import throughput
from benchmarks.arena import NOMINATED, STOCK
from benchmarks.releases import WAYS

pytestmark = pytest.mark.controlplane


@pytest.mark.usefixtures("binaries")
def test_both_sides_bind_all_pods_and_tangram_writes_nothing_more_than_it_must(tmp_path: Path) -> None:
    outcomes = throughput.run([8], 20, [STOCK, NOMINATED], WAYS, tmp_path)
    assert [(one.side, one.way) for one in outcomes] == [
        (side.name, way) for side in (STOCK, NOMINATED) for way in WAYS
    ]
    for one in outcomes:
        assert one.pods_per_s > 0
        assert one.calls["POST pods/binding"] == 1
        assert {"etcd", "kube-apiserver", "kube-scheduler"} <= set(one.cpu_s)
    assert sum(one.cpu_s["kube-apiserver"] for one in outcomes) > 0, "one alone may be too short for the clock"
    created = outcomes[-1]
    assert created.calls["PATCH pods"] == 1, "ungating"
    assert created.calls["PATCH pods/status"] == 1, "nomination"
    assert created.calls.get("POST events", 0) <= 1.5, "kube-scheduler's own event on each pod, and hardly more"
    throughput.show(outcomes)
