from __future__ import annotations

import asyncio
import time

import pytest
from aiohttp import web

from extender_api.cluster import paths
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.sources import Sources
from tests.cluster.fakeapi import FakeApi, answer
from tests.cluster.objects import node, pod
from tests.cluster.waiting import running, until


def told(story: list[str], client: ClusterClient) -> Sources:
    return Sources(
        client,
        on_pod=lambda old, new: story.append(f"pod {new.name if new else '-'}"),
        on_node=lambda old, new: story.append(f"node {new.name if new else '-'}"),
        on_namespace=lambda old, new: story.append(f"namespace {new.name if new else '-'}"),
    )


async def test_all_kinds_are_followed_and_pods_come_last(api: FakeApi, client: ClusterClient) -> None:
    released = asyncio.Event()

    async def slow_nodes(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return api._list(request, api.collection("nodes"))

    api.fail("GET", paths.NODES, slow_nodes)
    await api.put("pods", pod("p", spec={"schedulerName": "another"}))
    await api.put("nodes", node("n"))
    await api.put("namespaces", {"metadata": {"name": "default"}})
    story: list[str] = []
    sources = told(story, client)
    async with running(sources.run()):
        await until(lambda: bool(story))
        assert not sources.synced.is_set()
        assert story == ["namespace default"]
        released.set()
        await asyncio.wait_for(sources.synced.wait(), 10)
        assert story == ["namespace default", "node n", "pod p"]
        await api.put("nodes", node("n2"))
        await until(lambda: "node n2" in story)
    queries = {call.path: call.query for call in api.calls if call.method == "WATCH"}
    assert queries[paths.PODS]["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"
    assert set(queries) == {paths.PODS, paths.NODES, paths.NAMESPACES}


async def test_it_is_not_synced_while_one_kind_cannot_be_read(api: FakeApi, client: ClusterClient) -> None:
    api.fail("GET", paths.PODS, answer(403, "pods is forbidden"), times=1000)
    sources = told([], client)
    async with running(sources.run()):
        pods = sources.reflectors["Pod"]
        await until(lambda: pods.stats.failures > 1)
        assert not sources.synced.is_set()
        assert pods.stats.last_failure == "403: pods is forbidden"


async def test_everything_can_be_read_again(api: FakeApi, client: ClusterClient) -> None:
    sources = told([], client)
    async with running(sources.run()):
        await asyncio.wait_for(sources.synced.wait(), 10)
        sources.relist()
        await until(lambda: all(reflector.stats.relists == 1 for reflector in sources.reflectors.values()))


@pytest.mark.parametrize("kind", ["Pod", "Node"])
async def test_what_was_not_heard_of_for_long_is_stale(api: FakeApi, client: ClusterClient, kind: str) -> None:
    sources = told([], client)
    assert sources.stale(0.0) is None, "before the first list it is not in sync, which is said elsewhere"
    async with running(sources.run()):
        await asyncio.wait_for(sources.synced.wait(), 10)
        await until(lambda: api.count("WATCH", "pods") == 1)
        assert sources.stale(60.0) is None
        sources.namespaces.stats.heard_s = time.monotonic() - 1000
        sources.reflectors[kind].stats.heard_s = time.monotonic() - 61
        assert sources.stale(60.0) == kind
        await api.bookmark("pods")
        await api.bookmark("nodes")
        await until(lambda: sources.stale(60.0) is None)
