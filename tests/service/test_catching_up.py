"""Reading everything once more, as before acting for another replica: what was written before is then known."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from extender_api.cluster.client import ClusterClient
from extender_api.cluster.reflector import ReflectorSettings
from extender_api.cluster.sources import Sources
from tests.cluster.fakeapi import FakeApi
from tests.cluster.objects import pod
from tests.cluster.waiting import running, until

QUICK = ReflectorSettings(backoff_first_s=0.01, backoff_max_s=0.05)


@pytest.fixture
def sources(client: ClusterClient) -> Sources:
    nothing = lambda old, new: None  # noqa: E731
    return Sources(client, on_pod=nothing, on_node=nothing, on_namespace=nothing, settings=QUICK)


async def test_what_was_written_before_the_call_is_known_after_it(api: FakeApi, sources: Sources) -> None:
    async with running(sources.run()):
        await sources.synced.wait()
        for number in range(20):
            await api.put("pods", pod(f"p{number}"))
            await sources.catch_up()
            assert f"uid-p{number}" in sources.pods.objects
        assert sources.pods.stats.relists == 20


async def test_before_the_first_list_it_waits_for_that_too(api: FakeApi, sources: Sources) -> None:
    catching_up = asyncio.create_task(sources.catch_up())
    await asyncio.sleep(0.05)
    assert not catching_up.done()
    await api.put("pods", pod("p"))
    async with running(sources.run()):
        await catching_up
    assert "uid-p" in sources.pods.objects


async def test_lists_that_fail_are_tried_until_one_is_whole(api: FakeApi, sources: Sources) -> None:
    async def trouble(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "code": 500, "message": "no"}, status=500)

    async with running(sources.run()):
        await sources.synced.wait()
        api.fail("GET", "/pods", trouble, times=3)
        await api.put("pods", pod("p"))
        await sources.catch_up()
        assert "uid-p" in sources.pods.objects
        assert sources.pods.stats.failures >= 3


async def test_a_list_under_way_is_not_enough(api: FakeApi, sources: Sources) -> None:
    """It may have been read before the last write."""
    under_way, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        under_way.set()
        await go_on.wait()
        return web.json_response({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []})

    async with running(sources.run()):
        await sources.synced.wait()
        api.fail("GET", "/pods", slow)
        sources.pods.relist()
        await under_way.wait()
        await api.put("pods", pod("p"))
        catching_up = asyncio.create_task(sources.catch_up())
        await asyncio.sleep(0.05)
        go_on.set()
        await catching_up
        assert "uid-p" in sources.pods.objects


async def test_who_gives_up_waiting_spoils_nothing(api: FakeApi, sources: Sources) -> None:
    async with running(sources.run()):
        await sources.synced.wait()
        impatient = asyncio.create_task(sources.catch_up())
        await asyncio.sleep(0)
        impatient.cancel()
        await api.put("pods", pod("p"))
        await sources.catch_up()
        await until(lambda: "uid-p" in sources.pods.objects)
