"""The HTTP connections to an API server, with credentials that are read again before they grow stale."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from extender_api.cluster.access import Access, Stamp
from extender_api.cluster.answer import Unreachable

logger = logging.getLogger(__name__)

_RENEW_EVERY_S: Final = 60.0
_RENEW_AT_MOST_EVERY_S: Final = 5.0
_KEEP_ALIVE_S: Final = 60.0  # the API server closes idle connections after 90 s


class Connection:
    """An aiohttp session for an `Access`. `limit` is the number of TCP connections at once."""

    def __init__(self, access: Access, *, limit: int, connect_timeout_s: float, user_agent: str) -> None:
        self._access = access
        self._limit = limit
        self._connect_timeout_s = connect_timeout_s
        self._user_agent = user_agent
        # Looked up once: left to aiohttp, it is looked up in a thread for every request, which doubles the cost.
        self._environment_proxy = environment_proxy(access.host)
        self._stamp: Stamp = access.stamp()
        self._retired: list[aiohttp.ClientSession] = []
        self._renewed_s = float("-inf")
        self._renewing = asyncio.Lock()
        self.session = self._new_session()
        self._renewer = asyncio.create_task(self._renew_now_and_then(), name="renew credentials")

    async def close(self) -> None:
        """Closes everything; requests under way fail."""
        self._renewer.cancel()
        await asyncio.gather(self._renewer, return_exceptions=True)
        for session in (self.session, *self._retired):
            await session.close()

    def url(self, path: str, query: Mapping[str, str] | None) -> URL:
        """The whole address of a path."""
        text = self._access.host + path
        return URL(f"{text}?{urlencode(query)}" if query else text, encoded=True)

    def timeout(self, silence_s: float | None) -> aiohttp.ClientTimeout:
        """Limits for connecting, and for hearing nothing; the whole time of a call is bounded by the caller."""
        return aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout_s, sock_read=silence_s)

    async def headers(self) -> dict[str, str]:
        """Headers of a request. Raises Unreachable when the credentials cannot be read."""
        # Compressed answers would cost more of our one thread than of the network.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        try:
            authorization = await self._access.authorization()
        except Exception as err:  # a token file that is gone, a loader's own errors
            raise Unreachable(f"no credentials from {self._access.source}: {err}", maybe_done=False) from err
        if authorization:
            headers["Authorization"] = authorization
        return headers

    def options(self) -> dict[str, Any]:
        """What kubeconfig and environment say about every request: proxy and server name."""
        configuration = self._access.configuration
        options: dict[str, Any] = {}
        proxy = configuration.proxy or self._environment_proxy
        if proxy:
            options |= {"proxy": proxy, "proxy_headers": configuration.proxy_headers}
        if configuration.tls_server_name:
            options["server_hostname"] = configuration.tls_server_name
        return options

    async def renew(self, *, refused: bool) -> bool:
        """Reads the credentials again, not too often; False when they cannot be read.

        `refused` says that the API server no longer takes the present ones.
        """
        loop = asyncio.get_running_loop()
        async with self._renewing:
            if loop.time() - self._renewed_s < _RENEW_AT_MOST_EVERY_S:
                return True
            self._renewed_s = loop.time()
            try:
                await self._access.renew(refused=refused)
                stamp = self._access.stamp()
                if stamp != self._stamp:
                    await self._replace_session()
                    self._stamp = stamp
            except Exception as err:  # a broken file or plug-in must not end what still works
                logger.warning("credentials of %s cannot be read again: %s", self._access.source, err)
                return False
            return True

    async def _replace_session(self) -> None:
        session = self._new_session()
        # What runs on the last session may end there; nothing but an old watch can still run on the one before it.
        for retired in self._retired:
            await retired.close()
        self._retired = [self.session]
        self.session = session
        logger.info("new connections with changed certificates")

    async def _renew_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_EVERY_S)
            await self.renew(refused=False)

    def _new_session(self) -> aiohttp.ClientSession:
        secure = self._access.host.startswith("https:")
        connector = aiohttp.TCPConnector(
            limit=self._limit,
            keepalive_timeout=_KEEP_ALIVE_S,
            ssl=self._access.tls_context() if secure else True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=self.timeout(None),
            headers={"User-Agent": self._user_agent},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 20,
        )


def environment_proxy(address: str) -> str | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for an address."""
    parts = urlsplit(address)
    if proxy_bypass(parts.netloc):
        return None
    return getproxies().get(parts.scheme)
