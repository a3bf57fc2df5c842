"""Real sockets: connections stay open, stopping waits for what is being answered, errors name the address."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from extender_api import listeners
from extender_api.errors import ListenError
from extender_api.extender_routes import extender_app
from extender_api.listeners import Listener
from extender_api.settings import Address
from tests.webhooks.fakes import FakeDecider, golden

LOOPBACK = Address("127.0.0.1", 0)


class Client:
    """One HTTP/1.1 connection that is kept, as Go's client keeps it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def post(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        await self.send(path, body)
        return await self.answer()

    async def send(self, path: str, body: bytes) -> None:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        await self._writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status = int((await self._reader.readline()).split()[1])
        headers: dict[str, str] = {}
        while (line := (await self._reader.readline()).strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers, await self._reader.readexactly(int(headers["content-length"]))

    async def closed(self) -> bool:
        """Waits for the end of the connection."""
        return await self._reader.read() == b""


@contextlib.asynccontextmanager
async def connected(address: Address) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, *, drain_s: float = 5.0) -> AsyncIterator[tuple[Listener, asyncio.Task[None]]]:
    listener = Listener("extender", app, LOOPBACK, drain_s=drain_s)
    listener.open()
    task = asyncio.create_task(listener.serve())
    try:
        yield listener, task
    finally:
        listener.stop()
        await asyncio.wait_for(task, 10)


class SlowBinder(FakeDecider):
    """A decider whose bind waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Event()
        self.go = asyncio.Event()

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        self.waiting.set()
        await self.go.wait()
        return ""


async def test_one_connection_serves_many_calls() -> None:
    async with serving(extender_app(FakeDecider())) as (listener, _), connected(listener.address) as client:
        for _ in range(20):
            status, headers, body = await client.post("/v1/filter", golden("filter_names_request"))
            assert status == 200
            assert body == golden("filter_names_answer")
            assert "transfer-encoding" not in headers
            assert headers.get("connection", "keep-alive") == "keep-alive"


async def test_bodies_of_many_chunks() -> None:
    request = json.loads(golden("filter_names_request"))
    request["NodeNames"] = [f"a-node-with-a-long-name-{at:05}" for at in range(20_000)] + ["n2"]
    async with serving(extender_app(FakeDecider())) as (listener, _), connected(listener.address) as client:
        body = json.dumps(request, separators=(",", ":")).encode()
        _, _, answer = await client.post("/v1/filter", body)
        assert json.loads(answer)["NodeNames"] == ["n2"]


async def test_idle_connections_outlive_the_ninety_seconds_of_go() -> None:
    assert listeners.KEEP_ALIVE_S > 90
    listener = Listener("extender", extender_app(FakeDecider()), LOOPBACK)
    config = listener._server.config
    assert config.timeout_keep_alive == listeners.KEEP_ALIVE_S
    assert config.backlog >= 2048
    assert not config.access_log


async def test_stopping_waits_for_the_bind_that_was_accepted() -> None:
    decider = SlowBinder()
    async with serving(extender_app(decider)) as (listener, task), connected(listener.address) as client:
        await client.send("/v1/bind", golden("bind_request"))
        await asyncio.wait_for(decider.waiting.wait(), 5)
        listener.stop()
        await asyncio.sleep(0.4)
        assert not task.done()
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection(*listener.address)
        decider.go.set()
        status, _, body = await asyncio.wait_for(client.answer(), 5)
        assert (status, body) == (200, golden("bind_answer"))
        await asyncio.wait_for(task, 5)


async def test_stopping_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    decider = SlowBinder()
    async with serving(extender_app(decider), drain_s=1) as (listener, task), connected(listener.address) as client:
        await client.send("/v1/bind", golden("bind_request"))
        await asyncio.wait_for(decider.waiting.wait(), 5)
        listener.stop()
        await asyncio.wait_for(task, 5)
        assert "graceful shutdown exceeded" in caplog.text


async def test_stopping_closes_idle_connections() -> None:
    async with serving(extender_app(FakeDecider())) as (listener, task), connected(listener.address) as client:
        await client.post("/v1/bind", golden("bind_request"))
        listener.stop()
        assert await asyncio.wait_for(client.closed(), 5)
        await asyncio.wait_for(task, 5)


async def test_two_listeners_stop_one_by_one() -> None:
    async with serving(named("one")) as (one, first), serving(named("two")) as (two, _):
        one.stop()
        await asyncio.wait_for(first, 5)
        async with connected(two.address) as client:
            assert (await client.post("/", b""))[2] == b"two"


def named(name: str) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"%d" % len(name))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": name.encode()})

    return app


async def test_callers_queue_between_open_and_serve() -> None:
    listener = Listener("ops", named("here"), LOOPBACK)
    address = listener.open()
    assert address.port != 0
    async with connected(address) as client:
        await client.send("/", b"")
        task = asyncio.create_task(listener.serve())
        assert (await asyncio.wait_for(client.answer(), 5))[2] == b"here"
        listener.stop()
        await asyncio.wait_for(task, 5)


async def test_a_listener_that_is_stopped_first_ends_at_once() -> None:
    listener = Listener("ops", named("here"), LOOPBACK)
    listener.stop()
    await asyncio.wait_for(listener.serve(), 5)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (
            lambda port: Address("127.0.0.1", port),
            "extender: cannot listen on 127.0.0.1:{port}: Address already in use",
        ),
        (
            lambda port: Address("no.such.host.invalid", port),
            "extender: cannot listen on no.such.host.invalid:{port}: ",
        ),
    ],
)
def test_an_address_that_cannot_be_used_is_named(address: Callable[[int], Address], text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError) as caught:
            Listener("extender", named("x"), address(port)).open()
    assert str(caught.value).startswith(text.format(port=port))


def test_the_loop_is_the_fast_one() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert listeners.run(main()) == "uvloop"
