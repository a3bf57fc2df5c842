"""Kinds that the cluster may lack, or that may not be read: empty, in sync, and taken up when they come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from extender_api.cluster import decode, paths
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.queue import QueueObject
from extender_api.cluster.reflector import Reflector, ReflectorSettings, Watched
from tests.cluster.fakeapi import FakeApi, answer
from tests.cluster.objects import queue
from tests.cluster.waiting import running, until

QUICK = ReflectorSettings(backoff_first_s=0.01, backoff_max_s=0.05, idle_s=10.0, look_again_s=0.05)
PATIENT = replace(QUICK, look_again_s=3600.0)


@asynccontextmanager
async def reflecting(
    client: ClusterClient, settings: ReflectorSettings = QUICK, *, optional: bool = True
) -> AsyncIterator[tuple[Reflector[QueueObject], list[str]]]:
    """A reflector of our Queues, and what it told."""
    story: list[str] = []

    def change(old: QueueObject | None, new: QueueObject | None) -> None:
        subject = new or old
        assert subject is not None
        story.append(f"{'new' if old is None else 'gone' if new is None else 'changed'} {subject.spec.name}")

    reflector = Reflector(client, Watched(decode.QUEUES, paths.QUEUES, optional=optional), change, settings)
    async with running(reflector.run()):
        yield reflector, story


async def test_a_kind_that_is_not_there_is_empty_and_comes_later(
    api: FakeApi, client: ClusterClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    api.absent.add("queues")
    async with reflecting(client) as (reflector, story):
        await asyncio.wait_for(reflector.synced.wait(), 10)
        assert reflector.absent
        assert reflector.objects == {}
        asked = api.count("GET", "queues")
        await until(lambda: api.count("GET", "queues") > asked + 2)
        assert api.count("WATCH", "queues") == 0
        assert (reflector.stats.failures, reflector.failing) == (0, ""), "it is no trouble"
        assert reflector.stats.heard_s > 0
        assert [record.message for record in caplog.records if "there are none to read" in record.message] == [
            "Queue: there are none to read (404: the server could not find the requested resource)"
        ]

        await api.put("queues", queue("a"))
        api.absent.clear()
        await until(lambda: story == ["new a"])
        await until(lambda: not reflector.absent)
        await api.put("queues", queue("b"))
        await until(lambda: story == ["new a", "new b"])


async def test_a_kind_that_goes_takes_its_objects_along(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    async with reflecting(client) as (reflector, story):
        await until(lambda: api.count("WATCH", "queues") == 1)
        await api.undefine("queues")
        await until(lambda: reflector.absent)
        assert story == ["new a", "gone a"]
        assert reflector.objects == {}


async def test_a_kind_that_went_behind_its_back(api: FakeApi, client: ClusterClient) -> None:
    """The watch ended before it could tell that the objects are gone."""
    await api.put("queues", queue("a"))
    async with reflecting(client) as (reflector, story):
        await until(lambda: reflector._stream is not None)
        api.absent.add("queues")
        assert reflector._stream is not None
        reflector._stream.close()
        await until(lambda: story == ["new a", "gone a"])
        assert reflector.absent


async def test_one_stray_answer_to_a_watch_is_not_believed(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    api.fail("WATCH", "queues", answer(404, "not here"))
    async with reflecting(client) as (reflector, story):
        await until(lambda: api.count("WATCH", "queues") == 2)
        assert reflector.stats.relists == 1
        assert (story, reflector.absent) == (["new a"], False)


async def test_a_kind_that_may_not_be_read_is_empty(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    api.fail("GET", "queues", answer(403, "queues is forbidden"), times=6)
    async with reflecting(client) as (reflector, story):
        await asyncio.wait_for(reflector.synced.wait(), 10)
        assert (reflector.absent, story) == (True, [])
        assert api.count("GET", "queues") == 3, "not believed at once"
        await until(lambda: story == ["new a"])
        assert not reflector.absent


@pytest.mark.parametrize("times", [1, 2])
async def test_a_passing_refusal_is_waited_out(api: FakeApi, client: ClusterClient, times: int) -> None:
    """An API server that has just started may not know the roles yet; without queues everything would be allowed."""
    await api.put("queues", queue("a"))
    api.fail("GET", "queues", answer(403, "queues is forbidden"), times=times)
    async with reflecting(client, PATIENT) as (reflector, story):
        await asyncio.wait_for(reflector.synced.wait(), 10)
        assert (story, reflector.absent) == (["new a"], False)


async def test_what_is_known_stays_when_it_may_no_longer_be_read(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    async with reflecting(client) as (reflector, story):
        await until(lambda: api.count("WATCH", "queues") == 1)
        api.fail("GET", "queues", answer(403, "queues is forbidden"), times=20)
        reflector.relist()
        await until(lambda: reflector.stats.failures > 5)
        assert (story, reflector.absent) == (["new a"], False)
        assert reflector.failing == "403: queues is forbidden"
        await until(lambda: reflector.stats.relists == 1)


async def test_other_trouble_is_trouble(api: FakeApi, client: ClusterClient) -> None:
    api.fail("GET", "queues", answer(500, "storage trouble"), times=1000)
    async with reflecting(client) as (reflector, _):
        await until(lambda: reflector.stats.failures > 5)
        assert not reflector.synced.is_set()
        assert reflector.failing == "500: storage trouble"


@pytest.mark.parametrize("status", [403, 404])
async def test_only_optional_kinds_may_be_missing(api: FakeApi, client: ClusterClient, status: int) -> None:
    api.fail("GET", "queues", answer(status), times=1000)
    async with reflecting(client, optional=False) as (reflector, _):
        await until(lambda: reflector.stats.failures > 5)
        assert not reflector.synced.is_set()


async def test_it_is_looked_for_at_once_when_asked_to(api: FakeApi, client: ClusterClient) -> None:
    api.absent.add("queues")
    async with reflecting(client, PATIENT) as (reflector, story):
        await asyncio.wait_for(reflector.synced.wait(), 10)
        await asyncio.wait_for(reflector.refresh(), 10)
        assert (api.count("GET", "queues"), story) == (2, [])
        await api.put("queues", queue("a"))
        api.absent.clear()
        await asyncio.wait_for(reflector.refresh(), 10)
        assert story == ["new a"]


class TestUnreadable:
    async def test_objects_that_cannot_be_read_are_listed_with_the_problem(
        self, api: FakeApi, client: ClusterClient
    ) -> None:
        bad: dict[str, Any] = {"resources": {"gpuModels": {"H100": {}, "nvidia-h100": {}}}}
        await api.put("queues", queue("a", **bad))
        await api.put("queues", queue("b"))
        async with reflecting(client) as (reflector, story):
            await asyncio.wait_for(reflector.synced.wait(), 10)
            assert list(reflector.unreadable) == ["a"]
            assert reflector.unreadable["a"].startswith("Queue a: spec.resources.gpuModels['nvidia-h100']: matches")
            await api.put("queues", queue("b", **bad))
            await until(lambda: set(reflector.unreadable) == {"a", "b"})
            assert (list(reflector.objects), story) == (["b"], ["new b"]), "b is what it was"
            await api.put("queues", queue("a"))
            await until(lambda: set(reflector.unreadable) == {"b"})
            await api.remove("queues", "b")
            await until(lambda: not reflector.unreadable)
            assert story == ["new b", "new a", "gone b"]

    async def test_one_that_went_behind_its_back(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("queues", queue("a", priority="high"))
        async with reflecting(client) as (reflector, _):
            await until(lambda: api.count("WATCH", "queues") == 1)
            assert list(reflector.unreadable) == ["a"]
            del api.collection("queues").objects["a"]
            reflector.relist()
            await until(lambda: not reflector.unreadable)

    async def test_with_the_kind(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("queues", queue("a", priority="high"))
        async with reflecting(client) as (reflector, _):
            await until(lambda: api.count("WATCH", "queues") == 1)
            await api.undefine("queues")
            await until(lambda: not reflector.unreadable)


async def test_a_status_that_changed_is_kept_and_not_told(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    async with reflecting(client) as (reflector, story):
        await asyncio.wait_for(reflector.synced.wait(), 10)
        await api.put("queues", queue("a", status={"waiting": 3}))
        await until(lambda: reflector.objects["a"].status == {"waiting": 3})
        await api.put("queues", queue("a", generation=2, priority=7))
        await until(lambda: reflector.objects["a"].generation == 2)
        assert story == ["new a", "changed a"]
