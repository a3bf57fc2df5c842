"""Queues from everywhere: told together, whenever some changed, with what cannot be read on a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extender_api.cluster import queue_source
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.queue_source import Queues, QueueSource
from extender_api.cluster.reflector import ReflectorSettings
from queues.spec import Source
from tests.cluster.fakeapi import FakeApi, answer
from tests.cluster.objects import kai_queue, queue
from tests.cluster.waiting import running, until

QUICK = ReflectorSettings(backoff_first_s=0.01, backoff_max_s=0.05, idle_s=10.0, look_again_s=0.05)


class Told:
    """What was told, and the last of it in short: name → (source, GPU quota)."""

    def __init__(self) -> None:
        self.times = 0
        self.queues: Queues = ()

    def take(self, queues: Queues) -> None:
        self.times += 1
        self.queues = queues

    @property
    def short(self) -> set[tuple[str, str, int]]:
        return {(queue.name, queue.source.value, queue.gpu.quota) for queue in self.queues}


@asynccontextmanager
async def following(
    client: ClusterClient, take: Callable[[Queues], None], file: Path | None = None
) -> AsyncIterator[QueueSource]:
    source = QueueSource(client, take, file=file, settings=QUICK, look_every_s=0.02)
    async with running(source.run()):
        yield source


def gpu(quota: int) -> dict[str, object]:
    return {"gpu": {"quota": quota}}


def document(name: str, quota: object) -> str:
    return f"---\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{resources: {{gpu: {{quota: {quota}}}}}}}\n"


async def test_all_sources_are_told_together(api: FakeApi, client: ClusterClient, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(document("a", 3) + document("c", 3))
    await api.put("queues", queue("a", resources=gpu(1)))
    await api.put("kai queues", kai_queue("a", resources=gpu(2)))
    await api.put("kai queues", kai_queue("b", resources=gpu(2)))
    told = Told()
    async with following(client, told.take, file) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        assert told.times == 1, "and not bit by bit"
        everything = {("a", "tangram", 1000), ("a", "kai", 2000), ("b", "kai", 2000)}
        assert told.short == {*everything, ("a", "file", 3000), ("c", "file", 3000)}
        assert source.problems == []
        assert set(source.reflectors) == {"Queue", "KAI Queue"}


async def test_without_any_source_it_is_in_sync(api: FakeApi, client: ClusterClient) -> None:
    api.absent |= {"queues", "kai queues"}
    told = Told()
    async with following(client, told.take) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        assert (told.times, told.queues) == (1, ())
        api.absent.clear()
        await api.put("kai queues", kai_queue("b"))
        await until(lambda: told.short == {("b", "kai", 0)})
        assert told.queues[0].source is Source.KAI


async def test_changes_that_come_at_once_are_told_at_once(
    api: FakeApi, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_source, "COALESCE_S", 0.3)
    told = Told()
    async with following(client, told.take) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        await until(lambda: api.count("WATCH", "queues") == 2)
        for number in range(20):
            await api.put("queues", queue(f"q{number}"))
        await until(lambda: len(told.queues) == 20)
        assert told.times == 2


async def test_statuses_and_repetitions_are_not_told(api: FakeApi, client: ClusterClient, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(document("c", 1))
    await api.put("queues", queue("a"))
    told = Told()
    async with following(client, told.take, file) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        await api.put("queues", queue("a", status={"waiting": 5}))
        await until(lambda: source.ours.objects["a"].status == {"waiting": 5})
        file.write_text(document("c", 1) + "# a comment\n")
        await asyncio.sleep(0.3)
        assert told.times == 1
        await api.put("queues", queue("a", priority=7))
        await until(lambda: told.times == 2)


async def test_what_becomes_unreadable_stays_and_is_a_problem(
    api: FakeApi, client: ClusterClient, tmp_path: Path
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(document("c", 1))
    await api.put("queues", queue("a", resources=gpu(1)))
    await api.put("kai queues", kai_queue("b", resources=gpu(1)))
    told = Told()
    async with following(client, told.take, file) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        await until(lambda: api.count("WATCH", "queues") == 2)
        before = told.short
        await api.put("queues", queue("a", resources={"gpu": {"quota": "much"}}))
        await api.put("kai queues", kai_queue("b", resources={"gpu": {"quota": -7}}))
        file.write_text("kind: [")
        await until(lambda: len(source.problems) == 3)
        of_file, of_ours, of_kai = source.problems
        assert of_file.startswith(f"{file}: not YAML")
        assert of_ours.startswith("Queue a: spec.resources.gpu.quota: 'much' is not a Kubernetes quantity")
        assert of_kai.startswith("KAI Queue b: spec.resources.gpu.quota: -7 is negative")
        assert told.short == before
        file.write_text(document("c", 4))
        await until(lambda: ("c", "file", 4000) in told.short)
        await until(lambda: len(source.problems) == 2)


async def test_a_kind_that_can_no_longer_be_read_is_a_problem(api: FakeApi, client: ClusterClient) -> None:
    await api.put("queues", queue("a"))
    told = Told()
    async with following(client, told.take) as source:
        await until(lambda: api.count("WATCH", "queues") == 2)
        api.fail("GET", "v1alpha1/queues", answer(403, "forbidden"), times=1000)
        source.ours.relist()
        await until(lambda: source.problems == ["Queue objects cannot be read: 403: forbidden"])
        assert len(told.queues) == 1


async def test_a_named_file_must_be_read_before_it_is_known_who_may_have_what(
    api: FakeApi, client: ClusterClient, tmp_path: Path
) -> None:
    file = tmp_path / "queues.yaml"
    told = Told()
    async with following(client, told.take, file) as source:
        await until(lambda: source.ours.synced.is_set() and source.kais.synced.is_set() and bool(source.problems))
        await asyncio.sleep(0.1)
        assert not source.synced.is_set()
        assert told.times == 0
        assert source.problems == [f"{file}: cannot be read: No such file or directory"]
        file.write_text(document("c", 1))
        await asyncio.wait_for(source.synced.wait(), 10)
        assert told.short == {("c", "file", 1000)}


async def test_a_receiver_that_chokes_is_told_the_next_change(
    api: FakeApi, client: ClusterClient, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()

    def choosy(queues: Queues) -> None:
        if any(queue.name == "bad" for queue in queues):
            raise ValueError("not these")
        told.take(queues)

    await api.put("queues", queue("bad"))
    async with following(client, choosy) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        assert told.times == 0
        await api.put("queues", queue("good"))
        await api.remove("queues", "bad")
        await until(lambda: told.short == {("good", "tangram", 0)})
    assert "queues were not taken" in caplog.text
