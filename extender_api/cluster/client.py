"""A slim client of the API server: bytes in and out, no generated models.

Every HTTP answer is returned, whatever its status: conflicts and missing objects are everyday news to the callers. Only
when there is no answer at all, `Unreachable` is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import aiohttp
from yarl import URL

from extender_api.cluster.access import Access, find_access
from extender_api.cluster.answer import Answer, Refused, Silence, Unreachable, Withheld
from extender_api.cluster.connection import Connection

_CONNECTIONS_BESIDE_WRITES: Final = 32
_LONGEST_WAIT_S: Final = 30.0


class PatchKind(StrEnum):
    """Content types of patches."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`timeout_s` bounds every call from waiting for its turn to the last byte; watches have limits of their own.

    `max_writes` is the number of writes in flight. A call that is refused with Retry-After is repeated up to `retries`
    times within its time.
    """

    kubeconfig: str | None = None
    context: str | None = None
    max_writes: int = 32
    timeout_s: float = 15.0
    connect_timeout_s: float = 5.0
    retries: int = 5
    user_agent: str = "tangram"


class WatchStream:
    """The lines of a watch, in batches as they arrive: `async for lines in stream`. Ends when the server ends it."""

    def __init__(self, response: aiohttp.ClientResponse, idle_s: float) -> None:
        self._response = response
        self._idle_s = idle_s
        self._rest = b""

    def close(self) -> None:
        """Breaks the stream off; the reader gets Unreachable."""
        _hang_up(self._response)

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> list[bytes]:
        while True:
            try:
                data = await self._response.content.readany()
            except aiohttp.SocketTimeoutError:
                raise Silence(self._idle_s) from None
            except (aiohttp.ClientError, OSError) as err:
                raise Unreachable(f"watch broken off: {_text(err)}", maybe_done=False) from err
            if not data:
                raise StopAsyncIteration
            *lines, self._rest = (self._rest + data).split(b"\n")
            lines = [line for line in lines if line]
            if lines:
                return lines


class ClusterClient:
    """Calls to one API server. Make it with `connect` and close it. `calls` counts answers by method and status.

    `on_call` hears of every call: method (or WATCH), path, content type of what was sent ("" for nothing), status (0:
    no answer).
    """

    def __init__(self, access: Access, settings: ClientSettings) -> None:
        self.access: Final = access
        self.settings: Final = settings
        self.calls: Final[Counter[tuple[str, int]]] = Counter()
        self.on_call: Callable[[str, str, str, int], None] = lambda method, path, content_type, status: None
        self._writes = asyncio.Semaphore(settings.max_writes)
        self._connection = Connection(
            access,
            limit=settings.max_writes + _CONNECTIONS_BESIDE_WRITES,
            connect_timeout_s=settings.connect_timeout_s,
            user_agent=settings.user_agent,
        )

    @classmethod
    async def connect(cls, settings: ClientSettings | None = None) -> ClusterClient:
        """A client for the cluster that the settings or the surroundings name; nothing is sent yet.

        Raises AccessError when there is none, or no usable credentials.
        """
        settings = settings or ClientSettings()
        return cls(await find_access(settings.kubeconfig, settings.context), settings)

    async def close(self) -> None:
        """Closes all connections; calls under way fail."""
        await self._connection.close()

    async def __aenter__(self) -> ClusterClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- calls -------------------------------------------------------------------------------------------------

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout_s: float | None = None) -> Answer:
        """GET one object, or anything else the API server has at this path."""
        return await self.call("GET", path, query=query, timeout_s=timeout_s)

    async def list_page(
        self, path: str, *, limit: int, token: str = "", selectors: Mapping[str, str] | None = None
    ) -> Answer:
        """One page of a list, as of now; `token` is the continue token of the page before."""
        query = {"limit": str(limit), **(selectors or {})}
        if token:
            query["continue"] = token
        return await self.call("GET", path, query=query)

    async def create(self, path: str, body: Any, *, timeout_s: float | None = None) -> Answer:
        """POST an object."""
        return await self.call("POST", path, body=body, timeout_s=timeout_s)

    async def patch(self, path: str, body: Any, kind: PatchKind) -> Answer:
        """PATCH an object."""
        return await self.call("PATCH", path, body=body, content_type=kind)

    async def delete(self, path: str, body: Any = None) -> Answer:
        """DELETE an object; `body` may hold DeleteOptions."""
        return await self.call("DELETE", path, body=body)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
        may_send: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """Any call. `may_send` is asked each time before it is sent, repeats included. Raises Unreachable, Withheld."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        url = self._connection.url(path, query)
        limit = self.settings.timeout_s if timeout_s is None else timeout_s
        sent = False
        answer: Answer | None = None
        try:
            async with asyncio.timeout(limit):
                for attempt in range(self.settings.retries + 1):
                    async with contextlib.nullcontext() if method == "GET" else self._writes:
                        if not may_send():
                            raise Withheld
                        sent = True
                        answer = await self._once(method, url, data, content_type)
                    sent = False
                    if attempt == self.settings.retries or not await self._worth_repeating(answer, attempt):
                        return answer
        except TimeoutError:
            if answer is not None and not sent:
                return answer  # refused for now, and the wait was too long
            if sent:
                self.on_call(method, path, "" if data is None else content_type, 0)
            raise Unreachable(f"no answer within {limit:g} s", maybe_done=sent) from None
        raise AssertionError("the last attempt returns")

    async def _once(self, method: str, url: URL, data: bytes | None, content_type: str) -> Answer:
        headers = await self._connection.headers()
        if data is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._connection.session.request(
                method, url, data=data, headers=headers, **self._connection.options()
            ) as response:
                body = await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as err:
            self.on_call(method, url.path, headers.get("Content-Type", ""), 0)
            if isinstance(err, aiohttp.ClientSSLError):
                await self._connection.renew(refused=True)
            raise Unreachable(f"cannot connect: {_text(err)}", maybe_done=False) from err
        except (aiohttp.ClientError, OSError) as err:
            self.on_call(method, url.path, headers.get("Content-Type", ""), 0)
            raise Unreachable(f"no answer: {_text(err)}", maybe_done=True) from err
        self._count(method, url, headers.get("Content-Type", ""), response.status)
        return Answer(response.status, body, _seconds(response.headers.get("Retry-After")))

    async def _worth_repeating(self, answer: Answer, attempt: int) -> bool:
        """Waits as long as the API server asks, or renews refused credentials; False when neither applies."""
        if answer.status == 401:
            return attempt == 0 and await self._connection.renew(refused=True)
        if answer.status not in (429, 503) or answer.retry_after_s is None:
            return False
        # Spread a little, so that those refused together do not come back together.
        await asyncio.sleep(min(answer.retry_after_s, _LONGEST_WAIT_S) * random.uniform(1.0, 1.25))
        return True

    @asynccontextmanager
    async def watch(
        self,
        path: str,
        *,
        version: str,
        timeout_s: int,
        idle_s: float,
        selectors: Mapping[str, str] | None = None,
    ) -> AsyncIterator[WatchStream]:
        """A watch from a version on, with bookmarks. The server ends it after `timeout_s`.

        Raises Refused when the answer is no stream, and Unreachable; the stream raises Silence after `idle_s` without a
        byte.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(timeout_s),
            **(selectors or {}),
        }
        url, headers = self._connection.url(path, query), await self._connection.headers()
        try:
            response = await self._connection.session.get(
                url, headers=headers, timeout=self._connection.timeout(idle_s), **self._connection.options()
            )
        except (aiohttp.ClientError, OSError) as err:
            self.on_call("WATCH", url.path, "", 0)
            raise Unreachable(f"cannot watch: {_text(err)}", maybe_done=False) from err
        self._count("WATCH", url, "", response.status)
        try:
            if response.status != 200:
                await self._refuse(response)
            yield WatchStream(response, idle_s)
        finally:
            _hang_up(response)

    def _count(self, method: str, url: URL, content_type: str, status: int) -> None:
        self.calls[method, status] += 1
        self.on_call(method, url.path, content_type, status)

    async def _refuse(self, response: aiohttp.ClientResponse) -> None:
        try:
            body = await response.read()
        except (aiohttp.ClientError, OSError) as err:
            raise Unreachable(f"no answer: {_text(err)}", maybe_done=False) from err
        if response.status == 401:
            await self._connection.renew(refused=True)
        raise Refused(Answer(response.status, body, _seconds(response.headers.get("Retry-After"))))


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Ends a stream at once; a polite end of TLS would wait for the other side, which may be dead."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; the API server never sends dates."""
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None


def _text(err: BaseException) -> str:
    return str(err) or type(err).__name__
