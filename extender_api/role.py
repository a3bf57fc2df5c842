"""Whether this replica acts, and the way there: one that takes over first reads what the former one has written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

log = logging.getLogger(__name__)

CATCHING_UP: Final = "Tangram is reading what the replica that acted before has written"
TRY_AGAIN_S: Final = 1.0


class Role:
    """Acts from the beginning; `set` changes that. Callbacks run on the event loop."""

    def __init__(
        self,
        take_over: Callable[[], None],
        stand_down: Callable[[], None],
        catch_up: Callable[[], Awaitable[None]] | None,
    ) -> None:
        """`take_over` is called once what `catch_up` waits for is there; without it at once."""
        self.active = True
        self._take_over = take_over
        self._stand_down = stand_down
        self._catch_up = catch_up
        self._catching_up: asyncio.Task[None] | None = None

    def unready(self) -> str | None:
        """Why it cannot act although it is its turn, or None."""
        return CATCHING_UP if self._catching_up is not None else None

    def set(self, active: bool) -> None:
        """It is this replica's turn, or another's. Saying the same again changes nothing."""
        if active == self.active:
            return
        self.active = active
        if self._catching_up is not None:
            self._catching_up.cancel()
            self._catching_up = None
        if not active:
            self._stand_down()
        elif self._catch_up is None:
            self._take_over()
        else:
            self._catching_up = asyncio.create_task(self._act_after(self._catch_up), name="catch up")

    async def _act_after(self, catch_up: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await catch_up()
                self._take_over()
                break
            except Exception:
                log.exception("taking over from the former replica failed")
                await asyncio.sleep(TRY_AGAIN_S)
        self._catching_up = None
