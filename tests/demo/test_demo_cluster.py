"""The cluster in memory and its nodes: they must refuse what a real cluster refuses, or the demo proves nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from extender_api.demo.accounts import Accounts
from extender_api.demo.embedded import ConflictError, EmbeddedCluster, NotFoundError
from extender_api.demo.kubelet import Kubelets
from extender_api.demo.objects import GPU, L4, Object, admiralty_node, pod, real_node
from topology import vocabulary

SMALL = {"cpu": "1", "memory": "1Gi"}


def allocation(node: str, *devices: tuple[int, int, int]) -> dict[str, str]:
    """The annotation; devices are (index, milli, MiB)."""
    shares = [{"index": index, "milli": milli, "memoryMiB": mib} for index, milli, mib in devices]
    return {vocabulary.ALLOCATION: json.dumps({"v": 1, "node": node, "devices": shares})}


class Fixture:
    """A cluster with an L4 node `real` and a virtual node `far`, and its kubelets."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster()
        self.cluster.add_node(real_node("real", L4))
        self.cluster.add_node(admiralty_node("far", gpus=2))
        self.runs_s: dict[str, float] = {}
        self.accounts = Accounts()
        Kubelets(self.cluster, self.accounts, self.runs_s)

    def released(self, **options: Any) -> str:
        uid = self.cluster.create_pod(pod("p", options.pop("resources", SMALL), **options))
        self.cluster.ungate(uid)
        return uid

    async def bound(self, node: str, annotations: dict[str, str], **options: Any) -> str:
        """A pod bound to the node, and seen by it; its phase."""
        uid = self.released(**options)
        self.cluster.bind(uid, node, annotations)
        await asyncio.sleep(0)
        return str(self.cluster.pod(uid)["status"]["phase"])


def test_a_pod_is_admitted_as_the_policy_does() -> None:
    cluster = EmbeddedCluster()
    uid = cluster.create_pod(pod("p", SMALL, annotations={vocabulary.GPU_FRACTION.key: "0.5"}))
    spec = cluster.pod(uid)["spec"]
    assert spec["schedulingGates"] == [{"name": vocabulary.GATE}]
    assert [item["name"] for item in spec["containers"][0]["env"]] == [vocabulary.VISIBLE_DEVICES_ENV]
    other = pod("q", SMALL)
    other["spec"]["schedulerName"] = "default-scheduler"
    assert "schedulingGates" not in cluster.pod(cluster.create_pod(other))["spec"]


def test_an_environment_entry_is_replaced() -> None:
    cluster = EmbeddedCluster()
    theirs = pod("p", SMALL, annotations={vocabulary.GPU_MEMORY.key: "1000"})
    theirs["spec"]["containers"][0]["env"] = [{"name": vocabulary.VISIBLE_DEVICES_ENV, "value": "all"}]
    env = cluster.pod(cluster.create_pod(theirs))["spec"]["containers"][0]["env"]
    assert len(env) == 1
    assert "valueFrom" in env[0]


async def test_bindings_are_refused_as_the_api_server_does() -> None:
    fixture = Fixture()
    gated = fixture.cluster.create_pod(pod("p", SMALL))
    with pytest.raises(ConflictError, match="schedulingGates"):
        fixture.cluster.bind(gated, "real", {})
    fixture.cluster.ungate(gated)
    with pytest.raises(ConflictError, match="does not carry"):
        fixture.cluster.ungate(gated)
    with pytest.raises(NotFoundError, match="no node"):
        fixture.cluster.bind(gated, "elsewhere", {})
    fixture.cluster.bind(gated, "real", {})
    with pytest.raises(ConflictError, match="already assigned to node real"):
        fixture.cluster.bind(gated, "real", {})
    with pytest.raises(NotFoundError):
        fixture.cluster.bind("no such uid", "real", {})
    assert fixture.cluster.bindings == 1


async def test_watchers_see_what_is_there_and_then_every_write_in_order() -> None:
    fixture = Fixture()
    seen: list[tuple[str, str, str]] = []

    def note(kind: str, document: Object) -> None:
        seen.append((kind, document["metadata"]["name"], document.get("spec", {}).get("nodeName", "")))

    fixture.cluster.watch(note)
    assert seen == [("ADDED", "real", ""), ("ADDED", "far", "")]
    uid = fixture.released()
    fixture.cluster.bind(uid, "real", {})
    assert len(seen) == 2, "a watch never overtakes the answer to the write"
    await asyncio.sleep(0)
    assert seen[2:5] == [("ADDED", "p", ""), ("MODIFIED", "p", ""), ("MODIFIED", "p", "real")]


async def test_a_pod_runs_and_ends_and_gives_back() -> None:
    fixture = Fixture()
    uid = fixture.released()
    fixture.runs_s[uid] = 0.02
    fixture.cluster.bind(uid, "real", allocation("real", (2, 500, 11000)))
    await asyncio.sleep(0.01)
    use = fixture.accounts.use["real"]
    assert (use.filled(2), use.pods, fixture.accounts.running) == (0.5, 1, 1)
    await asyncio.sleep(0.05)
    assert (use.filled(2), use.pods, fixture.accounts.running) == (0.0, 0, 0)
    assert uid not in fixture.cluster.pods
    assert fixture.accounts.touched == {("real", 2)}


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        (allocation("real", (0, 600, 8000)), "device 0 has not 600 of 1000"),
        (allocation("real", (0, 0, 20000)), "device 0 has not 20000 MiB"),
        (allocation("real", (4, 100, 1000)), "no device 4"),
        (allocation("far", (1, 100, 1000)), "the allocation is for far"),
        ({vocabulary.ALLOCATION: "{"}, "not JSON"),
    ],
)
async def test_over_use_and_nonsense_is_refused(annotations: dict[str, str], text: str) -> None:
    fixture = Fixture()
    assert await fixture.bound("real", allocation("real", (0, 500, 10000))) == "Running"
    assert await fixture.bound("real", annotations) == "Failed"
    assert text in fixture.accounts.refused[0]


async def test_devices_need_an_allocation_on_a_real_node() -> None:
    fixture = Fixture()
    assert await fixture.bound("real", {}, resources=SMALL | {GPU: "1"}) == "Failed"
    assert await fixture.bound("real", {}) == "Running"


async def test_a_virtual_node_counts_and_wants_no_allocation() -> None:
    fixture = Fixture()
    whole = SMALL | {GPU: "1"}
    assert await fixture.bound("far", allocation("far", (0, 1000, 1)), resources=whole) == "Failed"
    phases = [await fixture.bound("far", {}, resources=whole) for _ in range(3)]
    assert phases == ["Running", "Running", "Failed"]
    assert fixture.accounts.use["far"].used_gpus == 2
