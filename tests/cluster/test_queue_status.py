"""Statuses of Queue objects: what differs is written, seldom enough, and nothing of anybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_api.cluster import decode, paths
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.queue import QueueObject
from extender_api.cluster.queue_status import QueueStatusSettings, QueueStatusWriter, complete, difference
from extender_api.cluster.reflector import Reflector, Watched
from extender_api.queue_objects.status import condition
from queues.spec import QueueSpec
from tests.cluster.fakeapi import FakeApi, answer, drop, merge_patch
from tests.cluster.objects import queue
from tests.cluster.waiting import running, until

QUICK = QueueStatusSettings(every_s=0.05, per_second=1000.0, burst=1000)
NOW_MS = 1_767_225_600_000
NOW = "2026-01-01T00:00:00Z"
EARLIER = "2025-12-31T00:00:00Z"


class Writing:
    """A writer beside a reflector of our Queues."""

    def __init__(self, client: ClusterClient, settings: QueueStatusSettings) -> None:
        self.acts = True
        self.queues = Reflector(client, Watched(decode.QUEUES, paths.QUEUES), lambda old, new: None)
        self.writer = QueueStatusWriter(
            client,
            self.queues.objects.get,
            now_ms=lambda: NOW_MS,
            may_write=lambda: self.acts,
            settings=settings,
        )


@asynccontextmanager
async def writing(api: FakeApi, client: ClusterClient, settings: QueueStatusSettings = QUICK) -> AsyncIterator[Writing]:
    found = Writing(client, settings)
    async with running(found.queues.run()):
        await asyncio.wait_for(found.queues.synced.wait(), 10)
        async with running(found.writer.run()):
            yield found


def stands(api: FakeApi, name: str) -> dict[str, Any]:
    status: dict[str, Any] = api.collection("queues").objects[name]["status"]
    return status


def patches(api: FakeApi) -> list[tuple[str, Any]]:
    return [(call.path.split("/")[-2], call.body["status"]) for call in api.calls if call.method == "PATCH"]


async def test_what_differs_is_written(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a", generation=3))
    await api.put("queues", queue("b", status={"observedGeneration": 1, "waiting": 2}))
    async with writing(api, client) as found:
        ready = condition("Ready", True, "InTree")
        found.writer.submit({"a": {"waiting": 1, "conditions": [ready]}, "b": {"waiting": 2}})
        await until(lambda: found.writer.written == 1)
        times = {"lastTransitionTime": NOW, "observedGeneration": 3}
        assert stands(api, "a") == {"waiting": 1, "observedGeneration": 3, "conditions": [{**ready, **times}]}
        await asyncio.sleep(0.2)
        assert [name for name, _ in patches(api)] == ["a"], "b is what it should be"
        (call,) = (call for call in api.calls if call.method == "PATCH")
        assert call.path == "/apis/tangram.scheduler/v1alpha1/queues/a/status"
        assert call.content_type == "application/merge-patch+json"


async def test_only_what_changed_goes_over_the_wire(api: FakeApi, client: ClusterClient) -> None:
    before = {
        "observedGeneration": 1,
        "waiting": 1,
        "allocated": {"gpu": "1", "cpu": "2", "gpuModels": {"H100": "1", "L4": "2"}},
        "children": ["x"],
    }
    await api.put("queues", queue("a", status=before))
    async with writing(api, client) as found:
        after = {"waiting": 1, "allocated": {"gpu": "3", "cpu": "2", "gpuModels": {"H100": "1"}}}
        found.writer.submit({"a": after})
        await until(lambda: found.writer.written == 1)
        assert patches(api) == [("a", {"children": None, "allocated": {"gpu": "3", "gpuModels": {"L4": None}}})]
        assert stands(api, "a") == {**after, "observedGeneration": 1}


async def test_a_condition_keeps_the_time_at_which_it_last_changed(api: FakeApi, client: ClusterClient) -> None:
    stays, turns = condition("Stays", True, "Yes"), condition("Turns", False, "No")
    old = [{**found, "lastTransitionTime": EARLIER, "observedGeneration": 1} for found in (stays, turns)]
    await api.put("queues", queue("a", generation=2, status={"observedGeneration": 1, "conditions": old}))
    async with writing(api, client) as found:
        wanted = [condition("Stays", True, "StillSo", "another reason"), condition("Turns", True, "Now")]
        found.writer.submit({"a": {"conditions": wanted}})
        await until(lambda: found.writer.written == 1)
        after = {entry["type"]: entry for entry in stands(api, "a")["conditions"]}
        assert (after["Stays"]["lastTransitionTime"], after["Stays"]["reason"]) == (EARLIER, "StillSo")
        assert after["Turns"]["lastTransitionTime"] == NOW
        assert {entry["observedGeneration"] for entry in after.values()} == {2}


async def test_queues_that_are_none_of_our_objects_are_left_out(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    async with writing(api, client) as found:
        found.writer.submit({"of-kai": {"waiting": 1}, "of-the-file": {"waiting": 1}, "a": {"waiting": 1}})
        await until(lambda: found.writer.written == 1)
        await asyncio.sleep(0.2)
        assert patches(api) == [("a", {"waiting": 1, "observedGeneration": 1})]


async def test_each_is_written_at_most_so_often_and_then_with_the_newest(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    settings = QueueStatusSettings(every_s=0.5, per_second=1000.0, burst=1000)
    async with writing(api, client, settings) as found:
        loop = asyncio.get_running_loop()
        found.writer.submit({"a": {"waiting": 0}})
        await until(lambda: found.writer.written == 1)
        started_s = loop.time()
        for number in range(1, 20):
            found.writer.submit({"a": {"waiting": number}})
            await asyncio.sleep(0.005)
        assert found.writer.written == 1
        await until(lambda: found.writer.written == 2)
        assert loop.time() - started_s > 0.4
        assert stands(api, "a")["waiting"] == 19


async def test_all_together_at_a_bounded_rate_and_none_starves(api: FakeApi, client: ClusterClient) -> None:
    names = [f"q{number:02}" for number in range(30)]
    for name in names:
        await api.put("queues", queue(name))
    settings = QueueStatusSettings(every_s=0.01, per_second=50.0, burst=1)
    async with writing(api, client, settings) as found:
        started_s = asyncio.get_running_loop().time()
        rounds = 0
        while {name for name, _ in patches(api)} != set(names):
            rounds += 1
            found.writer.submit({name: {"waiting": rounds} for name in names})
            await asyncio.sleep(0.01)
        took_s = asyncio.get_running_loop().time() - started_s
        assert len(patches(api)) <= took_s * 50 + 2
        assert len(patches(api)) <= 2 * len(names), "those that waited longest come first"


async def test_a_standby_writes_nothing(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    async with writing(api, client) as found:
        found.acts = False
        found.writer.submit({"a": {"waiting": 1}})
        await asyncio.sleep(0.2)
        assert patches(api) == []
        found.acts = True
        await until(lambda: found.writer.written == 1)
        found.writer.submit({"a": {"waiting": 2}})
        found.writer.clear()
        await asyncio.sleep(0.2)
        assert stands(api, "a")["waiting"] == 1


@pytest.mark.parametrize("fault", [answer(404), answer(403), answer(409), answer(500), drop])
async def test_a_write_that_fails_is_tried_again_later(api: FakeApi, client: ClusterClient, fault: Any) -> None:
    await api.put("queues", queue("a"))
    await api.put("queues", queue("b"))
    api.fail("PATCH", "queues/a/status", fault)
    async with writing(api, client) as found:
        found.writer.submit({"a": {"waiting": 1}, "b": {"waiting": 1}})
        await until(lambda: found.writer.written == 2)
        assert found.writer.failed == 1
        assert stands(api, "a")["waiting"] == stands(api, "b")["waiting"] == 1


async def test_a_status_that_somebody_else_changed_is_put_right(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    async with writing(api, client) as found:
        found.writer.submit({"a": {"waiting": 1}})
        await until(lambda: found.writer.written == 1)
        await api.put("queues", queue("a", status={"waiting": 99, "observedGeneration": 1}))
        await until(lambda: stands(api, "a")["waiting"] == 1)


async def test_a_queue_that_is_not_wanted_any_more_is_forgotten(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    async with writing(api, client) as found:
        found.writer.submit({"a": {"waiting": 1}})
        await until(lambda: found.writer.written == 1)
        found.writer.submit({})
        assert found.writer._tried_s == {}


JSON = st.recursive(
    st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(st.sampled_from("xyz"), JSON, max_size=3)


@given(DOCUMENTS, DOCUMENTS)
def test_the_patch_makes_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = difference(before, after)
    assert merge_patch(before, patch) == after
    assert bool(patch) is (before != after)


def test_a_status_without_conditions() -> None:
    known = QueueObject(QueueSpec("a"), generation=4, status={"conditions": None})
    assert complete({"waiting": 1}, known, NOW_MS) == {"waiting": 1, "observedGeneration": 4}
    (made,) = complete({"conditions": [condition("A", True, "B")]}, known, NOW_MS)["conditions"]
    assert made["lastTransitionTime"] == NOW
