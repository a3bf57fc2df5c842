"""Metrics that follow the state, the watches and the calls to the API server."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from extender_api import api_calls, metrics
from extender_api.cluster.answer import Unreachable
from extender_api.cluster.client import ClientSettings, ClusterClient, PatchKind
from extender_api.cluster.kube_actuator import KubeActuator
from extender_api.cluster.lease import LeaseFollower, LeaseSettings
from extender_api.cluster.notices import NoticeSettings
from extender_api.cluster.sources import Sources
from extender_api.gauges import Gauges
from scheduler.instruction import Nominate, Warn
from tests.cluster.conftest import Connect
from tests.cluster.fakeapi import FakeApi
from tests.cluster.objects import node as node_object
from tests.cluster.waiting import running, until
from tests.engine.world import node, pod, share, virtual_node
from tests.service.hands import Stage


def value(name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("method", "path", "content_type", "name"),
    [
        ("POST", "/api/v1/namespaces/ns/pods/p/binding", "application/json", "bind"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p", PatchKind.JSON, "ungate"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status", PatchKind.MERGE, "nominate"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status", PatchKind.JSON, "message"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events", "application/json", "event"),
        ("GET", "/api/v1/pods", "", "list_pods"),
        ("GET", "/api/v1/namespaces/api/pods/p", "", "get_pods"),
        ("GET", "/api/v1/namespaces", "", "list_namespaces"),
        ("GET", "/api/v1/namespaces/ns", "", "get_namespaces"),
        ("WATCH", "/api/v1/nodes", "", "watch_nodes"),
        ("WATCH", "/k8s/clusters/c-1/api/v1/pods", "", "watch_pods"),
        ("WATCH", "/apis/coordination.k8s.io/v1/namespaces/ns/leases", "", "watch_leases"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json",
         "post_selfsubjectaccessreviews"),
        ("GET", "/version", "", "list_other"),
    ],
)  # fmt: skip
def test_calls_are_named_by_what_they_are_for(method: str, path: str, content_type: str, name: str) -> None:
    assert api_calls.name_of(method, path, content_type) == name


async def test_every_call_is_counted_with_its_status(api: FakeApi, connect: Connect) -> None:
    client = await connect(ClientSettings(timeout_s=2.0))
    client.on_call = api_calls.count
    before = value("tangram_api_calls_total", call="list_pods", code="200")
    await client.get("/api/v1/pods")
    await client.get("/api/v1/pods")
    assert value("tangram_api_calls_total", call="list_pods", code="200") == before + 2
    before = value("tangram_api_calls_total", call="get_pods", code="404")
    await client.get("/api/v1/namespaces/a/pods/b")
    assert value("tangram_api_calls_total", call="get_pods", code="404") == before + 1
    await api.stop()
    before = value("tangram_api_calls_total", call="list_pods", code="none")
    with pytest.raises(Unreachable):
        await client.get("/api/v1/pods")
    assert value("tangram_api_calls_total", call="list_pods", code="none") == before + 1
    await api.start()


async def test_gauges_follow_state_and_watches(api: FakeApi, connect: Connect) -> None:
    stage = Stage()
    client = await connect(ClientSettings(timeout_s=2.0))
    sources = Sources(
        client, on_pod=stage.service.on_pod, on_node=stage.service.on_node, on_namespace=lambda old, new: None
    )
    gauges = Gauges(stage.engine, sources.reflectors.values, hands(client))
    stage.service.on_node(None, virtual_node("far"))
    stage.create(
        share("half", "0.5"),
        pod("whole", whole=1, node_name="n1"),
        pod("stranger", whole=1, node_name="n1", scheduler="other"),
    )
    stage.engine.plan(stage.clock())
    gauges.update()
    assert (value("tangram_nodes", kind="real"), value("tangram_nodes", kind="liqo")) == (1, 1)
    assert [value("tangram_devices", state=state) for state in ("free", "shared", "taken", "unhealthy")] == [1, 1, 2, 0]
    assert value("tangram_device_milli", state="taken") == 2500
    assert value("tangram_device_memory_mib", state="taken") == 100_000
    assert value("tangram_pods_bound") == 1

    stage.service.on_node(virtual_node("far"), None)
    gauges.update()
    assert value("tangram_nodes", kind="liqo") == 0, "a kind that is gone does not stay"

    events, relists = value("tangram_watch_events_total", kind="Node"), value("tangram_watch_relists_total", kind="Pod")
    async with running(sources.run()):
        await sources.synced.wait()
        await api.put("nodes", node_object("new"))
        await until(lambda: "new" in sources.nodes.objects)
        await sources.pods.refresh()
        gauges.update()
        gauges.update()
    assert value("tangram_watch_events_total", kind="Node") == events + 1
    assert value("tangram_watch_relists_total", kind="Pod") == relists + 1
    assert value("tangram_watch_lag_seconds", kind="Node") < 60


def hands(client: ClusterClient) -> KubeActuator:
    return KubeActuator(client, on_result=lambda *_: None, now_ms=lambda: 0, notices=NoticeSettings(waiting=2))


async def test_what_was_not_read_taken_or_written_is_counted(client: ClusterClient) -> None:
    stage, actuator = Stage(), hands(client)
    lease = LeaseFollower(client, LeaseSettings(), now_ms=lambda: 0, on_change=lambda _: None)
    stats = lease.reflector.stats
    gauges = Gauges(stage.engine, lambda: [lease.reflector], actuator)
    names = [
        ("tangram_watch_failures_total", {"kind": "Lease"}),
        ("tangram_watch_trouble_total", {"kind": "Lease", "what": "unreadable"}),
        ("tangram_watch_trouble_total", {"kind": "Lease", "what": "not_taken"}),
        ("tangram_notices_lost_total", {"how": "failed"}),
        ("tangram_notices_lost_total", {"how": "dropped"}),
    ]
    before = [value(name, **labels) for name, labels in names]
    stats.failures, stats.unreadable, stats.not_taken, stats.heard_s = 4, 3, 2, time.monotonic() - 100
    actuator.notices.failed = 5
    for number in range(3):
        actuator.submit(Warn(f"uid-{number}", "default", f"p{number}", "A", "a"))
    actuator.submit(Nominate("uid-1", "default", "p1", "n1"))
    gauges.update()
    gauges.update()
    after = [value(name, **labels) for name, labels in names]
    assert [now - then for now, then in zip(after, before, strict=True)] == [4, 3, 2, 5, 1]
    assert (value("tangram_notices_waiting"), value("tangram_orders_waiting")) == (2, 1)
    assert value("tangram_watch_lag_seconds", kind="Lease") >= 100

    stats.failures = 1
    gauges.update()
    assert value("tangram_watch_failures_total", kind="Lease") == before[0] + 4 + 1, (
        "a watch that began anew counts from nothing"
    )


async def test_unhealthy_devices_are_neither_free_nor_taken(client: ClusterClient) -> None:
    stage = Stage()
    whole = node("n1", gpus=4)
    stage.service.on_node(whole, replace(whole, allocatable={**whole.allocatable, "nvidia.com/gpu": 3}))
    Gauges(stage.engine, list, hands(client)).update()
    assert [value("tangram_devices", state=state) for state in ("free", "unhealthy")] == [3, 1]
