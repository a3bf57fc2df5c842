"""What the parts of the process tell each other, without starting it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from extender_api import app
from extender_api.app import App
from extender_api.cluster.binding import BIND_S
from extender_api.cluster.client import ClusterClient
from extender_api.settings import Settings
from tests.cluster.waiting import running, until


@pytest.fixture
def process(client: ClusterClient) -> App:
    """Everything is there, and was heard of a moment ago."""
    parts = App(Settings(), client)
    parts._warm = True
    parts._sources.synced.set()
    parts._queues.synced.set()
    parts._objects.synced.set()
    parts._topologies.synced.set()
    for reflector in parts._sources.reflectors.values():
        reflector.stats.heard_s = time.monotonic()
    return parts


@pytest.mark.parametrize("kind", ["Pod", "Node"])
async def test_a_view_that_has_grown_old_is_not_used(process: App, kind: str) -> None:
    assert process._service.ready() is None
    stats = process._sources.reflectors[kind].stats
    stats.heard_s = time.monotonic() - Settings().cluster.stale_after_s - 1
    said = f"nothing was heard from the API server for too long: kind {kind}"
    assert process._service.ready() == process._service.unready() == said
    stats.heard_s = time.monotonic()
    assert process._service.ready() is None


async def test_who_takes_over_first_lets_the_former_one_end(process: App, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noting(name: str) -> Callable[[], object]:
        async def note() -> None:
            order.append(name)

        return note

    monkeypatch.setattr(process._lease, "settle", noting("settle"))
    monkeypatch.setattr(process._sources, "catch_up", noting("read"))
    process._service.set_active(False)
    process._service.set_active(True)
    await until(lambda: process._service.ready() is None)
    assert order == ["settle", "read"]


async def test_a_binding_is_posted_only_while_the_lease_is_held(process: App, monkeypatch: pytest.MonkeyPatch) -> None:
    assert process._actuator._may_write(), "without a lease always"
    monkeypatch.setattr(process._lease, "may_write", lambda: False)
    assert not process._actuator._may_write()


async def test_numbers_that_cannot_be_made_end_nothing(
    process: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "GAUGES_EVERY_S", 0.001)
    tries: list[None] = []

    def choke() -> None:
        tries.append(None)
        raise RuntimeError("a fault")

    monkeypatch.setattr(process._gauges, "update", choke)
    async with running(process._follow_gauges()):
        await until(lambda: len(tries) >= 2)
    assert "a fault" in caplog.text


def test_on_stopping_there_is_time_for_a_bind() -> None:
    assert Settings().extender.drain_s > BIND_S
