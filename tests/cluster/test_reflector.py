from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from extender_api.cluster import decode, paths
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.reflector import Reflector, ReflectorSettings, ReflectorStats, Watched
from scheduler.pod import PodFacts
from tests.cluster.fakeapi import FakeApi, answer, drop, hang, status_body, stream
from tests.cluster.objects import node, pod
from tests.cluster.waiting import running, until
from topology.node import NodeFacts

QUICK = ReflectorSettings(backoff_first_s=0.01, backoff_max_s=0.05, idle_s=10.0)
LIVE = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


class Seen:
    """What a receiver was told, in words, and the picture that it must have by now."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.picture: dict[str, PodFacts] = {}

    def change(self, old: PodFacts | None, new: PodFacts | None) -> None:
        subject = new or old
        assert subject is not None
        assert self.picture.get(subject.uid) == old
        if new is None:
            del self.picture[subject.uid]
        else:
            self.picture[new.uid] = new
        word = "new" if old is None else "gone" if new is None else "changed"
        self.story.append(f"{word} {subject.name}")


@asynccontextmanager
async def reflecting(
    client: ClusterClient, settings: ReflectorSettings = QUICK, *, wait: bool = True
) -> AsyncIterator[tuple[Reflector[PodFacts], Seen]]:
    seen = Seen()
    reflector = Reflector(client, Watched(decode.PODS, paths.PODS, LIVE), seen.change, settings)
    async with running(reflector.run()):
        if wait:
            await asyncio.wait_for(reflector.synced.wait(), 10)
        yield reflector, seen
    assert reflector.objects == seen.picture


def labelled(name: str, value: str) -> dict[str, Any]:
    item = pod(name)
    item["metadata"]["labels"] = {"value": value}
    return item


async def test_list_then_watch(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", pod("a"))
    await api.put("pods", pod("b"))
    async with reflecting(client) as (reflector, seen):
        assert sorted(seen.story) == ["new a", "new b"]
        seen.story.clear()
        await api.put("pods", pod("c"))
        await api.put("pods", labelled("a", "2"))
        await api.remove("pods", "default/b")
        await until(lambda: len(seen.story) == 3)
        assert seen.story == ["new c", "changed a", "gone b"]
        assert seen.picture["uid-a"].labels == {"value": "2"}
        assert (reflector.stats.lists, reflector.stats.relists, reflector.stats.watches) == (1, 0, 1)
    assert api.calls[0].query == {"limit": "500", **LIVE}


async def test_paging(api: FakeApi, client: ClusterClient) -> None:
    for number in range(7):
        await api.put("pods", pod(f"p{number}"))
    async with reflecting(client, replace(QUICK, page_size=3)) as (_, seen):
        assert len(seen.picture) == 7
    assert [call.query.get("continue") for call in api.calls if call.method == "GET"] == [None, "3", "6"]


async def test_a_finished_pod_leaves_like_a_deleted_one(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", pod("done", status={"phase": "Succeeded"}))
    await api.put("pods", pod("a"))
    async with reflecting(client) as (_, seen):
        assert seen.story == ["new a"]


async def test_a_pod_of_the_same_name_is_another_pod(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", pod("a", uid="first"))
    async with reflecting(client) as (_, seen):
        await api.remove("pods", "default/a")
        await api.put("pods", pod("a", uid="second"))
        await until(lambda: len(seen.story) == 3)
        assert seen.story == ["new a", "gone a", "new a"]
        assert list(seen.picture) == ["second"]


async def test_what_did_not_change_is_not_told(api: FakeApi, client: ClusterClient) -> None:
    told: list[tuple[NodeFacts | None, NodeFacts | None]] = []
    await api.put("nodes", node("n"))
    reflector = Reflector(client, Watched(decode.NODES, paths.NODES), lambda old, new: told.append((old, new)), QUICK)
    async with running(reflector.run()):
        await until(lambda: len(told) == 1)
        heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        await api.put("nodes", node("n", status={"conditions": [heartbeat]}))
        await api.put("nodes", node("n", spec={"unschedulable": True}))
        await until(lambda: len(told) == 2)
    assert told[1][1] is not None
    assert told[1][1].unschedulable
    assert reflector.stats.events == 2


async def test_bookmarks_move_the_version(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", pod("a"))
    async with reflecting(client) as (reflector, _):
        await api.bookmark("pods")
        await until(lambda: reflector.stats.events == 1)
        api.forget_history()  # all before the bookmark is compacted
        assert reflector._stream is not None
        reflector._stream.close()
        await until(lambda: api.count("WATCH", "pods") == 2)
        await api.put("pods", pod("b"))
        await until(lambda: "uid-b" in reflector.objects)
        assert reflector.stats.lists == 1


class TestRelist:
    async def test_the_difference_is_told(self, api: FakeApi, client: ClusterClient) -> None:
        for name in ("same", "changes", "goes"):
            await api.put("pods", labelled(name, "1"))
        async with reflecting(client) as (reflector, seen):
            seen.story.clear()
            await self.behind_its_back(api, reflector)
            await until(lambda: reflector.stats.relists == 1)
            assert seen.story == ["gone goes", "changed changes", "new comes"]

    @staticmethod
    async def behind_its_back(api: FakeApi, reflector: Reflector[PodFacts]) -> None:
        """Cuts the watch, changes the world, and lets 410 be the answer to coming back."""
        changed = asyncio.Event()

        async def after_the_change(request: web.Request) -> web.StreamResponse:
            await changed.wait()
            return await answer(500)(request)

        await until(lambda: reflector._stream is not None)
        api.fail("WATCH", "pods", after_the_change)
        assert reflector._stream is not None
        reflector._stream.close()
        await until(lambda: reflector._stream is None)
        await api.put("pods", labelled("changes", "2"))
        await api.remove("pods", "default/goes")
        await api.put("pods", pod("comes"))
        api.forget_history()
        changed.set()

    @pytest.mark.parametrize(
        "fault",
        [
            answer(410, "gone"),
            stream(json.dumps({"type": "ERROR", "object": status_body(410, "too old")}).encode()),
            stream(json.dumps({"type": "ERROR", "object": status_body(500, "storage trouble")}).encode()),
            stream(b"this is no JSON"),
        ],
    )
    async def test_trouble_that_only_a_list_mends(self, api: FakeApi, client: ClusterClient, fault: Any) -> None:
        api.fail("WATCH", "pods", fault)
        await api.put("pods", pod("a"))
        async with reflecting(client) as (reflector, seen):
            await until(lambda: reflector.stats.relists == 1 and api.count("WATCH", "pods") == 2)
            await api.put("pods", pod("b"))
            await until(lambda: "uid-b" in reflector.objects)
            assert seen.story == ["new a", "new b"]
            assert reflector.stats.failures == 1

    async def test_by_force(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("pods", pod("a"))
        await api.put("pods", pod("b"))
        async with reflecting(client) as (reflector, seen):
            await until(lambda: api.count("WATCH", "pods") == 1)
            del api.collection("pods").objects["default/b"]  # gone without an event
            reflector.relist()
            await until(lambda: reflector.stats.relists == 1)
            assert seen.story[2:] == ["gone b"]
            assert reflector.stats.failures == 0

    async def test_by_force_from_within_a_change(self, api: FakeApi, client: ClusterClient) -> None:
        async with reflecting(client) as (reflector, seen):
            await until(lambda: api.count("WATCH", "pods") == 1)
            tell = seen.change

            def suspicious(old: PodFacts | None, new: PodFacts | None) -> None:
                tell(old, new)
                reflector.relist()

            reflector._on_change = suspicious
            await api.put("pods", pod("a"))
            await until(lambda: reflector.stats.relists == 1)
            reflector._on_change = tell

    async def test_by_force_while_listing_lists_once_more(self, api: FakeApi, client: ClusterClient) -> None:
        async with reflecting(client, wait=False) as (reflector, _):
            await until(lambda: api.count("GET", "pods") == 1)
            reflector.relist()
            await until(lambda: reflector.stats.lists == 2)

    async def test_a_list_that_expires_between_pages(self, api: FakeApi, client: ClusterClient) -> None:
        for number in range(4):
            await api.put("pods", pod(f"p{number}"))

        async def expire_second_page(request: Any) -> Any:
            api.fail("GET", "pods", answer(410, "the continue token is too old"))
            return api._list(request, api.collection("pods"))

        api.fail("GET", "pods", expire_second_page)
        async with reflecting(client, replace(QUICK, page_size=2)) as (reflector, seen):
            assert len(seen.picture) == 4
            assert (reflector.stats.failures, reflector.stats.lists) == (1, 1)


class TestTrouble:
    @pytest.mark.parametrize("fault", [answer(500), answer(403), answer(429), drop, stream(b"{", then="cut")])
    async def test_a_failing_list_is_tried_until_it_works(
        self, api: FakeApi, client: ClusterClient, fault: Any
    ) -> None:
        await api.put("pods", pod("a"))
        api.fail("GET", "pods", fault, times=5)
        async with reflecting(client) as (reflector, seen):
            assert seen.story == ["new a"]
            assert reflector.stats.failures >= 2

    @pytest.mark.parametrize("fault", [answer(500), answer(403), answer(429), drop, stream(then="cut"), stream()])
    async def test_a_failing_watch_continues_where_it_stopped(
        self, api: FakeApi, client: ClusterClient, fault: Any
    ) -> None:
        await api.put("pods", pod("a"))
        api.fail("WATCH", "pods", fault, times=4)
        async with reflecting(client) as (reflector, seen):
            await api.put("pods", pod("b"))
            await until(lambda: "uid-b" in reflector.objects)
            assert seen.story == ["new a", "new b"]
            assert reflector.stats.lists == 1
            assert 2 <= reflector.stats.failures <= 4  # aiohttp repeats a dropped GET once by itself

    async def test_a_half_open_connection_is_left(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("WATCH", "pods", stream(then="silent"))
        async with reflecting(client, replace(QUICK, idle_s=0.3)) as (reflector, _):
            await api.put("pods", pod("a"))
            await until(lambda: "uid-a" in reflector.objects)
            assert (reflector.stats.lists, reflector.stats.failures) == (1, 0)

    async def test_a_watch_that_is_never_answered_is_left(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("WATCH", "pods", hang)
        async with reflecting(client, replace(QUICK, idle_s=0.3)) as (reflector, _):
            await api.put("pods", pod("a"))
            await until(lambda: "uid-a" in reflector.objects)
            assert reflector.stats.failures == 1

    async def test_waits_double_up_to_a_limit_and_start_small_after_a_good_stream(
        self, api: FakeApi, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[float] = []
        sleep = asyncio.sleep

        async def noting(seconds: float) -> None:
            if seconds:
                waits.append(seconds)
            await sleep(min(seconds, 0.001))

        monkeypatch.setattr("extender_api.cluster.reflector.asyncio.sleep", noting)
        monkeypatch.setattr("extender_api.cluster.reflector.random.uniform", lambda low, high: high)
        event = json.dumps({"type": "ADDED", "object": pod("x")}, separators=(",", ":")).encode()
        api.fail("WATCH", "pods", answer(500), times=5)
        api.fail("WATCH", "pods", stream(event, then="cut"))
        settings = replace(QUICK, backoff_first_s=1.0, backoff_max_s=6.0)
        async with reflecting(client, settings) as (reflector, _):
            await until(lambda: api.count("WATCH", "pods") == 7)
            assert [wait for wait in waits if wait >= 1] == [1.0, 2.0, 4.0, 6.0, 6.0, 1.0]
            assert reflector.stats.last_failure.startswith("watch broken off")

    async def test_the_server_may_ask_for_a_longer_wait(
        self, api: FakeApi, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("extender_api.cluster.reflector.random.uniform", lambda low, high: high)
        api.fail("WATCH", "pods", answer(429, headers={"Retry-After": "0.3"}))
        async with reflecting(client, replace(QUICK, backoff_max_s=5.0)):
            await until(lambda: api.count("WATCH", "pods") == 1)
            started = asyncio.get_running_loop().time()
            await until(lambda: api.count("WATCH", "pods") == 2)
            assert asyncio.get_running_loop().time() - started > 0.25


async def test_an_unreadable_object_is_skipped_and_what_was_known_stays(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", pod("a"))
    bad = pod("a", spec={"priority": "high"})
    async with reflecting(client) as (reflector, seen):
        await api.put("pods", bad)
        await api.put("pods", pod("b"))
        await until(lambda: "uid-b" in reflector.objects)
        reflector.relist()
        await until(lambda: reflector.stats.relists == 1)
        assert seen.story == ["new a", "new b"]
        assert reflector.stats.unreadable == 2
        await api.remove("pods", "default/a")
        await until(lambda: "uid-a" not in reflector.objects)


async def test_a_receiver_that_fails_misses_one_change_only(api: FakeApi, client: ClusterClient) -> None:
    taken: list[str] = []

    def choosy(old: PodFacts | None, new: PodFacts | None) -> None:
        if new is not None and new.name == "a":
            raise ValueError("not this one")
        taken.append("b")

    await api.put("pods", pod("a"))
    await api.put("pods", pod("b"))
    reflector = Reflector(client, Watched(decode.PODS, paths.PODS), choosy, QUICK)
    async with running(reflector.run()):
        await asyncio.wait_for(reflector.synced.wait(), 10)
    assert taken == ["b"]
    assert reflector.stats.not_taken == 1


class Choosy:
    """A receiver that fails on pod `a` while `chokes`."""

    def __init__(self) -> None:
        self.chokes = True
        self.story: list[str] = []

    def change(self, old: PodFacts | None, new: PodFacts | None) -> None:
        subject = new or old
        assert subject is not None
        if self.chokes and subject.name == "a":
            raise ValueError("not this one")
        self.story.append(f"{'gone' if new is None else 'is'} {subject.name}")


class TestWhatWasNotTaken:
    @pytest.mark.parametrize("how", ["a list", "a new watch"])
    async def test_it_is_told_again_though_it_has_not_changed(
        self, api: FakeApi, client: ClusterClient, how: str
    ) -> None:
        await api.put("pods", pod("a"))
        await api.put("pods", pod("b"))
        receiver = Choosy()
        reflector = Reflector(client, Watched(decode.PODS, paths.PODS), receiver.change, QUICK)
        async with running(reflector.run()):
            await until(lambda: reflector._stream is not None)
            assert receiver.story == ["is b"]
            failed = reflector.stats.not_taken
            receiver.chokes = False
            if how == "a list":
                await reflector.refresh()
            else:
                assert reflector._stream is not None
                reflector._stream.close()
                await until(lambda: api.count("WATCH", "pods") == 2 and len(receiver.story) == 2)
            assert receiver.story == ["is b", "is a"]
            await reflector.refresh()
            assert receiver.story == ["is b", "is a"], "once it is taken it is not told again"
        assert reflector.stats.not_taken == failed > 0

    async def test_that_it_went(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("pods", pod("a"))
        receiver = Choosy()
        receiver.chokes = False
        reflector = Reflector(client, Watched(decode.PODS, paths.PODS), receiver.change, QUICK)
        async with running(reflector.run()):
            await until(lambda: reflector._stream is not None)
            receiver.chokes = True
            await api.remove("pods", "default/a")
            await until(lambda: reflector.stats.not_taken == 1)
            receiver.chokes = False
            await reflector.refresh()
            assert receiver.story == ["is a", "gone a"]
            assert reflector.objects == {}


async def test_a_kind_that_is_silent_for_long_is_listed(api: FakeApi, client: ClusterClient) -> None:
    api.fail("WATCH", "pods", stream(then="silent"), times=100)
    async with reflecting(client, replace(QUICK, idle_s=0.1, list_after_s=0.15)) as (reflector, _):
        await until(lambda: reflector.stats.relists == 2)
        assert reflector.stats.lag_s(time.monotonic()) < 5


async def test_a_flood_lets_others_in(api: FakeApi, client: ClusterClient) -> None:
    lines = [json.dumps({"type": "ADDED", "object": pod(f"p{n}")}).encode() for n in range(400)]
    api.fail("WATCH", "pods", stream(b"\n".join(lines), then="silent"))
    steps: list[int] = []

    async def bystander(reflector: Reflector[PodFacts]) -> None:
        while len(reflector.objects) < 400:
            steps.append(len(reflector.objects))
            await asyncio.sleep(0)

    async with reflecting(client) as (reflector, _):
        await asyncio.wait_for(bystander(reflector), 10)
    assert max(later - earlier for earlier, later in itertools.pairwise(steps)) <= QUICK.yield_every


def test_the_lag_is_the_time_since_the_last_sign_of_life() -> None:
    assert ReflectorStats().lag_s(50.0) == 0.0
    assert ReflectorStats(heard_s=40.0).lag_s(50.0) == 10.0
