"""An HTTP/1.1 client that keeps connections the way Go's default transport does.

That is what kube-scheduler calls extenders with: at most two idle connections per host, the most recently
used one first, closed after 90 s of idleness, and no limit on open ones. A connection is kept only after a
complete answer with status 200: the scheduler does not read the body of any other, and Go then drops the
connection.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, cast

MAX_IDLE: Final = 2
IDLE_S: Final = 90.0
_HEADER_END: Final = b"\r\n\r\n"


class TransportError(OSError):
    """The call failed below HTTP, or the answer is none that can be framed by Content-Length."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body; the body is empty for any status but 200, which is not read."""

    status: int
    body: bytes


class Transport:
    """Calls to one host. Not thread-safe: use it from one event loop.

    `opened` counts the connections made so far.
    """

    def __init__(self, host: str, port: int, *, timeout_s: float = 5.0) -> None:
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []
        self.opened = 0

    async def post(self, path: str, body: bytes) -> Answer:
        """POSTs JSON.

        Raises TransportError, also when the time-out passes (dial, write and read together).
        """
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nUser-Agent: Go-http-client/1.1\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        )
        return await self._call(head.encode("ascii") + body)

    async def get(self, path: str) -> Answer:
        """GETs. Raises TransportError as `post` does."""
        head = (
            f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nUser-Agent: Go-http-client/1.1\r\n"
            "Accept-Encoding: gzip\r\n\r\n"
        )
        return await self._call(head.encode("ascii"))

    def close(self) -> None:
        """Closes the idle connections; calls in flight end on their own."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _call(self, request: bytes) -> Answer:
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = self._take() or await self._dial()
                answer = await connection.exchange(request)
        except TimeoutError:
            raise TransportError(f"no answer within {self._timeout_s} s") from None
        except OSError as err:
            raise TransportError(str(err)) from err
        finally:
            if connection is not None:
                self._put(connection)
        return answer

    async def _dial(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_Connection, self._host, self._port)
        self.opened += 1
        return connection

    def _take(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.loop.time() - connection.idle_since < IDLE_S:
                return connection
            connection.close()
        return None

    def _put(self, connection: _Connection) -> None:
        if connection.reusable and len(self._idle) < MAX_IDLE:
            connection.idle_since = connection.loop.time()
            self._idle.append(connection)
        else:
            connection.close()


class _Connection(asyncio.Protocol):
    """One connection, one exchange at a time.

    `reusable` while the last answer was complete, was 200 and is read.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle_since = 0.0
        self.reusable = False
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._length = -1  # of the whole answer, headers included; -1 until they are read
        self._status = 0
        self._body_at = 0
        self._answer: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def exchange(self, request: bytes) -> asyncio.Future[Answer]:
        assert self._transport is not None
        self.reusable = False
        self._buffer.clear()
        self._length = -1
        self._answer = self.loop.create_future()
        if self._transport.is_closing():
            self._fail("the server closed the connection")
        else:
            self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._answer is None or self._answer.done():
            self.reusable = False  # bytes that nobody asked for
            return
        if self._length < 0 and not self._read_head():
            return
        if self._status != 200:
            self._answer.set_result(Answer(self._status, b""))
        elif len(self._buffer) >= self._length:
            self.reusable = len(self._buffer) == self._length
            self._answer.set_result(Answer(self._status, bytes(self._buffer[self._body_at : self._length])))

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        self._fail(str(exc) if exc else "EOF")

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.close()

    def _read_head(self) -> bool:
        end = self._buffer.find(_HEADER_END)
        if end < 0:
            return False
        lines = self._buffer[:end].split(b"\r\n")
        self._body_at = end + len(_HEADER_END)
        try:
            self._status = int(lines[0].split(b" ", 2)[1])
        except (IndexError, ValueError):
            self._fail(f"malformed HTTP response {bytes(lines[0])!r}")
            return False
        for line in lines[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == b"content-length" and value.strip().isdigit():
                self._length = self._body_at + int(value)
        if self._length < 0:
            if self._status != 200:
                return True
            self._fail("an answer without Content-Length")
            return False
        return True

    def _fail(self, text: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TransportError(text))
