"""HTTP listeners inside our own event loop, and that loop.

uvicorn's settings are chosen for Go's HTTP client: it keeps connections for 90 s and does not repeat a POST that met a
closed one, so the server must be the one that waits longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

import uvicorn
import uvloop
from starlette.types import ASGIApp

from extender_api.errors import ListenError
from extender_api.settings import Address

log = logging.getLogger(__name__)

Result = TypeVar("Result")

KEEP_ALIVE_S: Final = 300
BACKLOG: Final = 2048
"""A burst of binds opens a connection for nearly every call."""
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a busy thread may keep the interpreter from the loop."""


class Listener:
    """One HTTP server. `open` takes the address at once, `serve` answers until `stop` and then drains."""

    def __init__(self, name: str, app: ASGIApp, address: Address, *, drain_s: float = 10.0) -> None:
        self.name = name
        self.address = address
        self._socket: socket.socket | None = None
        self._server = _Server(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                workers=1,
                access_log=False,
                log_config=None,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=math.ceil(drain_s),
                proxy_headers=False,
                server_header=False,
                date_header=False,
            )
        )

    def open(self) -> Address:
        """Listens from now on; callers queue until `serve`. Returns the address with its real port.

        Raises ListenError.
        """
        host, port = self.address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as err:
            raise ListenError(f"{self.name}: cannot listen on {self.address}: {err.strerror or err}") from None
        self.address = Address(host, self._socket.getsockname()[1])
        log.info("%s listens on %s", self.name, self.address)
        return self.address

    async def serve(self) -> None:
        """Answers until `stop`; then takes no new connections and waits for the calls in progress.

        Calls that are not done after `drain_s` are cancelled.
        """
        if self._socket is None:
            self.open()
        assert self._socket is not None
        with contextlib.closing(self._socket) as opened:
            await self._server.serve(sockets=[opened])

    def stop(self) -> None:
        """Ends `serve` gracefully. May be called at any time, repeatedly."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone: the process has several listeners and one owner of signals."""
        yield


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs the process's main coroutine on the loop that the listeners are tuned for."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
