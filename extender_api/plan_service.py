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
from scheduler.claim import ClaimRules
from scheduler.kernels.warm import warm
from topology.inventory import InventorySettings

log = logging.getLogger(__name__)

NICENESS: Final = 10
"""The process beside a running scheduler gives way to it."""


WAITING: Final = 4
"""So many documents wait for the one that is being planned; their bodies are kept meanwhile."""
LIMIT_S: Final = 60.0


class NoPlan(RuntimeError):
    """There is no answer to a document, for no fault of its own. `status` is the HTTP status that says so."""

    status = 503


class PlanningEnded(NoPlan):
    """The process that was planning has ended, e.g. for want of memory."""


class PlanningBusy(NoPlan):
    """Too many documents wait already."""

    status = 429


class PlanningTooLong(NoPlan):
    """Planning took longer than it may."""

    status = 504


class PlanService(Protocol):
    """Answers plan documents."""

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """HTTP status and body of the answer to the body of a request. Raises NoPlan."""
        ...

    def close(self) -> None:
        """Gives up what is being planned."""
        ...


@dataclass(frozen=True, slots=True)
class PlanHere:
    """Plans in this process, which is held up meanwhile."""

    inventory: InventorySettings
    rules: ClaimRules

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """See `PlanService`."""
        return plan_document.answer_json(body, inventory=self.inventory, rules=self.rules)

    def close(self) -> None:
        """Nothing is left to give up."""


class PlanBeside:
    """Plans in a process of its own, one document after another. It starts with the first and stays.

    A document gets `limit_s` from its turn on; then the process is ended, and the next document starts another.
    """

    def __init__(self, inventory: InventorySettings, rules: ClaimRules, *, limit_s: float = LIMIT_S) -> None:
        self._inventory = inventory
        self._rules = rules
        self._limit_s = limit_s
        self._pool: ProcessPoolExecutor | None = None
        self._turn = asyncio.Lock()
        self._asked = 0

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """See `PlanService`."""
        if self._asked > WAITING:
            raise PlanningBusy(f"{self._asked} documents wait to be planned already: try again later")
        self._asked += 1
        try:
            async with self._turn:
                return await self._plan(body)
        finally:
            self._asked -= 1

    async def _plan(self, body: bytes) -> tuple[int, bytes]:
        pool = self._pool = self._pool or _new_pool()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limit_s):
                return await loop.run_in_executor(pool, _answer, body, self._inventory, self._rules)
        except TimeoutError:
            self.close()
            log.warning("planning a document was given up after %g s", self._limit_s)
            raise PlanningTooLong(f"planning took longer than {self._limit_s:g} s and was given up") from None
        except asyncio.CancelledError:
            self.close()  # nobody waits for the answer, and the next document must not wait for its end
            raise
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


def _answer(body: bytes, inventory: InventorySettings, rules: ClaimRules) -> tuple[int, bytes]:
    return plan_document.answer_json(body, inventory=inventory, rules=rules)
