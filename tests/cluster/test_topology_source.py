"""Topologies from everywhere: told together, one of each name, whenever some changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extender_api.cluster.client import ClusterClient
from extender_api.cluster.reflector import ReflectorSettings
from extender_api.cluster.topology_source import Topologies, TopologySource
from extender_api.queue_objects.file import QueueFile
from tests.cluster.fakeapi import FakeApi, Object
from tests.cluster.objects import topology
from tests.cluster.waiting import running, until

QUICK = ReflectorSettings(backoff_first_s=0.01, backoff_max_s=0.05, idle_s=10.0, look_again_s=0.05)


class Told:
    """What was told, the last of it as name → levels."""

    def __init__(self) -> None:
        self.times = 0
        self.last: dict[str, tuple[str, ...]] = {}

    def take(self, found: Topologies) -> None:
        self.times += 1
        self.last = {item.name: item.levels for item in found}


@asynccontextmanager
async def following(
    client: ClusterClient, take: Callable[[Topologies], None], file: QueueFile | None = None
) -> AsyncIterator[TopologySource]:
    source = TopologySource(client, take, file=file, settings=QUICK, look_every_s=0.02)
    async with running(source.run()):
        yield source


def kai(name: str, label: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": label}]}}


@pytest.fixture
def ours(api: FakeApi) -> str:
    return api.serve("tangram.scheduler", "v1alpha1", "topologies")


@pytest.fixture
def kais(api: FakeApi) -> str:
    return api.serve("kai.scheduler", "v1alpha1", "topologies")


async def test_without_either_kind_there_are_none(api: FakeApi, client: ClusterClient) -> None:
    told = Told()
    async with following(client, told.take) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        assert (told.times, told.last, source.problems) == (1, {}, [])
        assert list(source.reflectors) == ["Topology", "KAI Topology"]


async def test_ours_before_the_file_before_kais(
    api: FakeApi, client: ClusterClient, ours: str, kais: str, tmp_path: Path
) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(
        "".join(
            f"---\nkind: Topology\nmetadata: {{name: {name}}}\nspec: {{levels: [{{nodeLabel: file}}]}}\n"
            for name in "bc"
        )
    )
    await api.put(ours, topology("a", "ours"))
    await api.put(ours, topology("b", "ours"))
    for name in "abcd":
        await api.put(kais, kai(name, "kai"))
    told, file = Told(), QueueFile(path)
    async with following(client, told.take, file) as source:
        await until(lambda: source.ours.synced.is_set() and source.kais.synced.is_set())
        await asyncio.sleep(0.1)
        assert not source.synced.is_set(), "a file that is named has to be read"
        file.look()
        await asyncio.wait_for(source.synced.wait(), 10)
        assert told.last == {"a": ("ours",), "b": ("ours",), "c": ("file",), "d": ("kai",)}
        assert source.problems == [
            f"Topology {name} stands in several places; ours goes before KAI's" for name in "abc"
        ]
        await api.remove(ours, "a")
        await until(lambda: told.last["a"] == ("kai",))
        path.write_text("")
        await until(file.look)
        await until(lambda: told.last == {"a": ("kai",), "b": ("ours",), "c": ("kai",), "d": ("kai",)})


async def test_what_becomes_unreadable_stays_and_is_a_problem(api: FakeApi, client: ClusterClient, ours: str) -> None:
    await api.put(ours, topology("a", "rack"))
    told = Told()
    async with following(client, told.take) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        await api.put(ours, topology("a", preset="nowhere"))
        await until(lambda: bool(source.problems))
        assert source.problems[0].startswith("Topology a: spec.preset: no preset 'nowhere'")
        assert (told.times, told.last) == (1, {"a": ("rack",)})
        await api.put(ours, topology("a", "block"))
        await until(lambda: told.last == {"a": ("block",)})
        assert source.problems == []


async def test_a_receiver_that_chokes_is_told_the_next_change(
    api: FakeApi, client: ClusterClient, ours: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()

    def choosy(found: Topologies) -> None:
        if any(item.name == "bad" for item in found):
            raise ValueError("not these")
        told.take(found)

    await api.put(ours, topology("bad"))
    async with following(client, choosy) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        await api.remove(ours, "bad")
        await until(lambda: told.times == 1)
    assert "topologies were not taken" in caplog.text
