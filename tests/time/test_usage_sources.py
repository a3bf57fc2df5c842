"""Where usage comes from and goes to when the other side does not behave: a ConfigMap's API, a Prometheus."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from extender_api import prometheus_usage
from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.cluster.usage_store import KEY, UsageStore
from extender_api.prometheus_usage import PrometheusError, usage_of
from queues.amounts import Amounts
from tests.cluster.conftest import write_kubeconfig
from tests.cluster.fakeapi import Fault, answer, drop


class Server:
    """Answers every request as it is told."""

    def __init__(self) -> None:
        self.fault: Fault = answer(404, "not found")
        self.writes: list[tuple[str, Any]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET" and request.content_type != "application/x-www-form-urlencoded":
            self.writes.append((request.method, await request.json()))
        return await self.fault(request)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found, app = Server(), web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


@pytest.fixture
async def store(server: Server, tmp_path: Path) -> AsyncIterator[UsageStore]:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "secret"})
    async with AsyncExitStack() as stack:
        client = await ClusterClient.connect(ClientSettings(kubeconfig=kubeconfig, timeout_s=2.0, retries=0))
        yield UsageStore(await stack.enter_async_context(client), "tangram-system", "tangram-usage")


def says(body: str, status: int = 200) -> Fault:
    async def fault(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=status)

    return fault


# -- the ConfigMap ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "answered"),
    [
        (answer(404, "not found"), True),
        (says(json.dumps({"data": {"else": "x"}})), True),
        (says(json.dumps({"metadata": {}})), True),
        (says("no JSON"), True),
        (says("[1]"), True),
        (answer(403, "forbidden"), False),
        (answer(500, "etcd is away"), False),
        (drop, False),
    ],
)
async def test_nothing_there_and_nothing_known_are_told_apart(
    server: Server, store: UsageStore, fault: Fault, answered: bool
) -> None:
    server.fault = says(json.dumps({"data": {KEY: "text"}}))
    assert await store.load() == "text"
    assert store.answered
    server.fault = fault
    assert await store.load() is None
    assert store.answered is answered


async def test_what_cannot_be_made_or_is_made_by_another_is_tried_again(
    server: Server, store: UsageStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def made_by_another(request: web.Request) -> web.StreamResponse:
        return await answer(404 if request.method == "PATCH" else 409, "already exists")(request)

    server.fault = made_by_another
    assert not await store.save("first")
    assert not await store.save("second")
    assert [method for method, _ in server.writes] == ["PATCH", "POST"] * 2
    assert server.writes[1][1]["metadata"]["namespace"] == "tangram-system"
    assert sum("already exists" in record.message for record in caplog.records) == 1
    server.fault = drop
    assert not await store.save("third")
    server.fault = says("{}")
    assert await store.save("fourth")
    assert server.writes[-1] == ("PATCH", {"data": {KEY: "fourth"}})


# -- Prometheus ------------------------------------------------------------------------------------------------------


def vector(*series: Any) -> dict[str, Any]:
    return {"resultType": "vector", "result": list(series)}


async def test_an_answer_that_comes_in_many_pieces_is_read_whole(server: Server) -> None:
    count = 5000
    series = [{"metric": {"queue": f"q{at}", "resource": "gpu"}, "value": [0, "0.5"]} for at in range(count)]
    body = json.dumps({"status": "success", "data": vector(*series)}).encode()

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(0, len(body), 100_000):
            await response.write(body[at : at + 100_000])
            await asyncio.sleep(0.005)
        return response

    server.fault = slow
    assert await prometheus_usage.read(server.url, "q") == {f"q{at}": Amounts(0, 0, 500_000) for at in range(count)}


async def test_an_answer_without_end_is_not_read_to_its_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_usage, "MOST_BYTES", 1 << 20)
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)
            sent += 65536

    server.fault = endless
    with pytest.raises(PrometheusError, match="more than 1 MiB: narrow the query"):
        await prometheus_usage.read(server.url, "q")
    assert sent < 64 << 20


async def test_one_that_does_not_answer_in_time_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError("nobody waits that long")

    monkeypatch.setattr(prometheus_usage, "TIMEOUT_S", 0.1)
    server.fault = hang
    with pytest.raises(PrometheusError, match="cannot be asked: TimeoutError"):
        await prometheus_usage.read(server.url, "q")


async def test_a_broken_off_answer_is_said(server: Server) -> None:
    server.fault = drop
    with pytest.raises(PrometheusError, match="cannot be asked"):
        await prometheus_usage.read(server.url, "q")


async def test_a_password_in_the_url_is_not_said(server: Server) -> None:
    seen: list[str] = []

    async def refuses(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.Response(text='{"status":"error","error":"who are you?"}', status=401)

    server.fault = refuses
    with pytest.raises(PrometheusError, match=r"refuses the query with 401: who are you\?") as caught:
        await prometheus_usage.read(server.url.replace("//", "//tangram:hush@"), "q")
    assert seen[0].startswith("Basic ")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://", "http://[", "nonsense", "ftp://x"])
async def test_a_url_that_is_none_is_said(url: str) -> None:
    with pytest.raises(PrometheusError, match="cannot be asked"):
        await prometheus_usage.read(url, "q")


@pytest.mark.parametrize(
    "data",
    [
        {"resultType": "vector"},
        {"resultType": "vector", "result": 5},
        vector(7),
        vector({"metric": {"queue": "a"}}),
        vector({"metric": {"queue": "a"}, "value": 5}),
        vector({"metric": {"queue": "a"}, "value": [1]}),
        vector({"metric": None, "value": [1, "0.5"]}),
        vector({"metric": {"queue": ["a"]}, "value": [1, "0.5"]}),
    ],
)
def test_answers_of_another_form_are_said(data: Any) -> None:
    with pytest.raises(PrometheusError, match="not the form of Prometheus"):
        usage_of(data)


def test_what_is_no_part_of_a_capacity_counts_as_nothing() -> None:
    series = [
        ({"queue": "a", "resource": "gpu"}, "-0.5"),
        ({"queue": "b", "resource": "gpu"}, "+Inf"),
        ({"queue": "c", "resource": "gpu"}, "much"),
        ({"queue": "d", "resource": "memory"}, "0.0000004"),
        ({"queue": "", "queue_name": "e", "resource": "gpu"}, "1.5"),
    ]
    found = usage_of(vector(*({"metric": labels, "value": [1, value]} for labels, value in series)))
    assert found == {"a": Amounts(), "d": Amounts(), "e": Amounts(0, 0, 1_500_000)}
