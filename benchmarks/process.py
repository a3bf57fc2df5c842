"""Servers under measurement, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from extender_api.demo.transport import Transport

ROOT: Final = Path(__file__).resolve().parents[1]
START_S: Final = 300.0
STOP_S: Final = 20.0


class StartError(RuntimeError):
    """The server ended, or said nothing, before it was ready."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `hello` is what it said when it was ready; `port` is its port on 127.0.0.1."""

    pid: int
    port: int
    hello: dict[str, Any]


@asynccontextmanager
async def server(module: str, arguments: Sequence[str] = ()) -> AsyncIterator[Server]:
    """Runs `python -m MODULE ARGUMENTS`, which prints one JSON object with its `port` when it is ready.

    Its standard error is ours. It is asked to end at the end, and killed when it does not. Raises StartError.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE, limit=1 << 26
    )
    try:
        yield await _ready(process, module)
    finally:
        await _end(process)


async def _ready(process: asyncio.subprocess.Process, module: str) -> Server:
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        hello = json.loads(line)
        return Server(process.pid, hello["port"], hello)
    except (TimeoutError, ValueError, KeyError) as err:
        raise StartError(f"python -m {module} did not become ready: {err!r}") from err


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def transport_to(server: Server) -> AsyncIterator[Transport]:
    """A client for it, closed at the end."""
    transport = Transport("127.0.0.1", server.port, timeout_s=30)
    try:
        yield transport
    finally:
        transport.close()
