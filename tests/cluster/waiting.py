"""Waiting in tests for what happens on the loop meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Returns when the condition holds; fails after the (generous) time-out."""
    async with asyncio.timeout(timeout_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Runs something endless beside the block; it must not have ended by itself."""
    task = asyncio.create_task(work)
    try:
        yield task
        assert not task.done(), task
    finally:
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError), outcome
