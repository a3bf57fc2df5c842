"""Planning on request: in this process, or in one of its own where somebody else must not be kept waiting."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Final, Protocol

from extender_api import plan_document
from scheduler.kernels.warm import warm
from topology.inventory import InventorySettings

log = logging.getLogger(__name__)

NICENESS: Final = 10
"""The process beside a running scheduler gives way to it."""


class PlanningEnded(RuntimeError):
    """The process that was planning has ended, e.g. for want of memory."""


class PlanService(Protocol):
    """Answers plan documents."""

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """HTTP status and body of the answer to the body of a request. Raises PlanningEnded."""
        ...

    def close(self) -> None:
        """Gives up what is being planned."""
        ...


@dataclass(frozen=True, slots=True)
class PlanHere:
    """Plans in this process, which is held up meanwhile."""

    inventory: InventorySettings
    scheduler_name: str

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """See `PlanService`."""
        return plan_document.answer_json(body, inventory=self.inventory, scheduler_name=self.scheduler_name)

    def close(self) -> None:
        """Nothing is left to give up."""


class PlanBeside:
    """Plans in a process of its own, one document after another. It starts with the first and stays."""

    def __init__(self, inventory: InventorySettings, scheduler_name: str) -> None:
        self._inventory = inventory
        self._scheduler_name = scheduler_name
        self._pool: ProcessPoolExecutor | None = None

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """See `PlanService`."""
        pool = self._pool = self._pool or _new_pool()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(pool, _answer, body, self._inventory, self._scheduler_name)
        except BrokenProcessPool as err:
            if self._pool is pool:
                self._pool = None
            log.warning("the process that plans documents has ended: %s", err)
            raise PlanningEnded("planning ended before there was an answer") from err

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        pool, self._pool = self._pool, None
        if pool is not None:
            workers = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()


def _new_pool() -> ProcessPoolExecutor:
    # spawned, not forked: a copy of threads and loop of this process would be in an unknown state
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_start)


def _start() -> None:
    """In the new process: leaves signals from the terminal to its parent, steps back, loads the kernels."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(NICENESS)
    warm()


def _end_with_parent() -> None:
    """A parent that is killed cannot end us, and waiting for work would go on for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(body: bytes, inventory: InventorySettings, scheduler_name: str) -> tuple[int, bytes]:
    return plan_document.answer_json(body, inventory=inventory, scheduler_name=scheduler_name)
