"""Metrics that follow the state, the watches and the calls to the API server."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from extender_api import api_calls, metrics
from extender_api.cluster.answer import Unreachable
from extender_api.cluster.client import ClientSettings, PatchKind
from extender_api.cluster.sources import Sources
from extender_api.gauges import Gauges
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
    gauges = Gauges(stage.engine, sources)
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


def test_unhealthy_devices_are_neither_free_nor_taken() -> None:
    stage = Stage()
    whole = node("n1", gpus=4)
    stage.service.on_node(whole, replace(whole, allocatable={**whole.allocatable, "nvidia.com/gpu": 3}))
    Gauges(stage.engine, SimpleNamespace(reflectors={})).update()  # type: ignore[arg-type]
    assert [value("tangram_devices", state=state) for state in ("free", "unhealthy")] == [3, 1]
