"""Shows a run until it is over: frames from the books and the stories, the use of devices over time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from extender_api.demo.accounts import Accounts
from extender_api.demo.recorder import Recorder
from extender_api.demo.screen import Frame, screen_for
from extender_api.demo.summary import Usage

FRAME_S: Final = 0.25


@dataclass(slots=True)
class Show:
    """A run of `runnable` pods that end by themselves and `mistakes` more that never run.

    `usage` is sampled during the first `arrive_s` seconds.
    """

    recorder: Recorder
    accounts: Accounts
    usage: Usage
    runnable: int
    mistakes: int
    arrive_s: float

    @property
    def over(self) -> bool:
        """Every pod was created and those that can run have ended."""
        return self.recorder.created == self.runnable + self.mistakes and self.recorder.ended >= self.runnable

    async def until_over(self, console: Console, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Shows frames until the run is over or one of the tasks ends. Raises what a task raised."""
        start = time.monotonic()
        with screen_for(console) as screen:
            while not self.over:
                elapsed = time.monotonic() - start
                if elapsed <= self.arrive_s:
                    self.usage.note(self.accounts)
                screen.show(self.frame(elapsed))
                finished, _ = await asyncio.wait(tasks, timeout=FRAME_S, return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    task.result()
                    return
            screen.show(self.frame(time.monotonic() - start))

    def frame(self, elapsed_s: float) -> Frame:
        """One look at it."""
        return Frame(
            elapsed_s=elapsed_s,
            created=self.recorder.created,
            total=self.runnable + self.mistakes,
            placed=self.recorder.placed,
            running=self.accounts.running,
            ended=self.recorder.ended,
            nodes=self.accounts.use,
            products=self.accounts.products,
            waiting=self.recorder.waiting(),
            examples=self.recorder.examples(),
        )
