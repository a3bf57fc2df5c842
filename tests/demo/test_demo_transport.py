"""Connections: kept, dropped and opened as Go does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from extender_api.demo.transport import Answer, Transport, TransportError

Responder = Callable[[bytes, bytes], bytes]


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


@asynccontextmanager
async def server(respond: Responder, *, delay_s: float = 0.0) -> AsyncIterator[Transport]:
    """A transport to a server that answers `respond(head, body)`; an empty answer closes the connection."""
    open_writers: set[asyncio.StreamWriter] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = [line.split(b": ") for line in head.split(b"\r\n")]
                length = next((int(line[1]) for line in lines if line[0] == b"Content-Length"), 0)
                body = await reader.readexactly(length)
                await asyncio.sleep(delay_s)
                if not (answer := respond(head, body)):
                    return
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    transport = Transport("127.0.0.1", listener.sockets[0].getsockname()[1], timeout_s=2)
    try:
        yield transport
    finally:
        transport.close()
        listener.close()
        for writer in open_writers:
            writer.close()
        await listener.wait_closed()


async def test_a_post_is_sent_as_go_sends_it() -> None:
    heads: list[bytes] = []

    def respond(head: bytes, body: bytes) -> bytes:
        heads.append(head)
        return ok(body[::-1])

    async with server(respond) as transport:
        assert await transport.post("/v1/filter", b"abc") == Answer(200, b"cba")
    assert heads[0].startswith(b"POST /v1/filter HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nContent-Length: 3\r\nContent-Type: application/json\r\n" in heads[0]


async def test_serial_calls_share_one_connection() -> None:
    async with server(lambda head, body: ok(body)) as transport:
        for _ in range(20):
            await transport.post("/x", b"1")
        assert transport.opened == 1


async def test_a_large_answer_is_read_whole() -> None:
    large = b"x" * 1_000_000
    async with server(lambda head, body: ok(large)) as transport:
        assert (await transport.post("/x", b"1")).body == large


async def test_other_statuses_cost_the_connection() -> None:
    async with server(lambda head, body: b"HTTP/1.1 500 no\r\ncontent-length: 2\r\n\r\nno") as transport:
        for _ in range(5):
            assert await transport.post("/x", b"1") == Answer(500, b"")
        assert transport.opened == 5


async def test_a_burst_leaves_two_connections() -> None:
    async with server(lambda head, body: ok(body), delay_s=0.05) as transport:
        for expected in (10, 18):
            await asyncio.gather(*(transport.post("/x", b"1") for _ in range(10)))
            assert transport.opened == expected


async def test_bytes_after_the_answer_cost_the_connection() -> None:
    async with server(lambda head, body: ok(body) + b"  ") as transport:
        for _ in range(3):
            assert (await transport.post("/x", b"1")).body == b"1"
        assert transport.opened == 3


async def test_a_closed_connection_is_an_error_and_the_next_call_dials() -> None:
    answers = [b"", ok(b"2")]
    async with server(lambda head, body: answers.pop(0)) as transport:
        with pytest.raises(TransportError, match="EOF"):
            await transport.post("/x", b"1")
        assert (await transport.post("/x", b"1")).body == b"2"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n\r\n{}", b"nonsense\r\n\r\n"])
async def test_an_answer_that_cannot_be_framed_is_an_error(answer: bytes) -> None:
    async with server(lambda head, body: answer) as transport:
        with pytest.raises(TransportError):
            await transport.post("/x", b"1")


async def test_the_timeout_is_an_error() -> None:
    async with server(lambda head, body: ok(body), delay_s=5) as transport:
        transport._timeout_s = 0.05
        with pytest.raises(TransportError, match=r"no answer within 0\.05 s"):
            await transport.post("/x", b"1")


async def test_nobody_there_is_an_error() -> None:
    async with server(lambda head, body: ok(body)) as transport:
        pass
    with pytest.raises(TransportError):
        await transport.post("/x", b"1")
