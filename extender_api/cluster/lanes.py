"""Many pods' releases and nominations at once, each pod's one after another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from extender_api.cluster.gate import Fate, Step
from scheduler.instruction import Evict, Expose, Nominate, Release

logger = logging.getLogger(__name__)

Order = Evict | Release | Expose | Nominate


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """`workers` orders are carried out at once. An order is tried `attempts` times, with waits that double from
    `backoff_first_s` to `backoff_max_s`.
    """

    workers: int = 16
    attempts: int = 6
    backoff_first_s: float = 0.1
    backoff_max_s: float = 5.0


class Lanes:
    """One lane per pod; a pod that fails waits beside the road, so that it never holds up another.

    `done` hears the end of each order: uid, whether it went well, the last HTTP status. Of the orders that wait for one
    pod only the newest plan is carried out and reported.
    """

    def __init__(
        self,
        work: Callable[[Order], Awaitable[Step]],
        done: Callable[[str, bool, int], None],
        settings: LaneSettings | None = None,
    ) -> None:
        self._work = work
        self._done = done
        self._settings: Final = settings or LaneSettings()
        self._waiting: dict[str, Order] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._busy: set[str] = set()  # pods with an order under way, in the queue, or waiting for their next try
        self._failures: dict[str, int] = {}
        self._epoch = 0

    def __len__(self) -> int:
        """Pods with an order that is not done."""
        return len(self._busy)

    def submit(self, order: Order) -> None:
        """Takes an order."""
        self._waiting[order.uid] = newer(self._waiting.get(order.uid), order)
        if order.uid not in self._busy:
            self._busy.add(order.uid)
            self._ready.put_nowait(order.uid)

    def clear(self) -> None:
        """Forgets the orders that wait, unreported; those under way are finished, but not tried again."""
        self._waiting.clear()
        self._failures.clear()
        self._epoch += 1

    async def run(self) -> None:
        """Works until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._settings.workers):
                group.create_task(self._serve(), name=f"release {number}")

    async def _serve(self) -> None:
        while True:
            uid = await self._ready.get()
            order = self._waiting.pop(uid, None)
            if order is None:  # forgotten
                self._busy.discard(uid)
                continue
            epoch = self._epoch
            try:
                step = await self._work(order)
            except Exception:
                logger.exception("order for %s/%s", order.namespace, order.name)
                step = Step(Fate.FAILED, 0, "internal error")
            self._settle(order, step, repeat=step.fate is Fate.AGAIN and epoch == self._epoch)

    def _settle(self, order: Order, step: Step, *, repeat: bool) -> None:
        uid = order.uid
        failures = self._failures.pop(uid, 0) + 1
        if repeat and failures < self._settings.attempts:
            logger.debug("%s/%s, attempt %d: %s", order.namespace, order.name, failures, step.text)
            self._failures[uid] = failures
            self._waiting[uid] = newer(order, self._waiting.get(uid))
            pause_s = self._settings.backoff_first_s * 2.0 ** (failures - 1)
            loop = asyncio.get_running_loop()
            loop.call_later(min(pause_s, self._settings.backoff_max_s), self._ready.put_nowait, uid)
            return
        if uid in self._waiting:
            self._ready.put_nowait(uid)
        else:
            self._busy.discard(uid)
        if step.fate is not Fate.DONE:
            logger.warning("%s/%s is not handed over: %s", order.namespace, order.name, step.text)
        try:
            self._done(uid, step.fate is Fate.DONE, step.status)
        except Exception:
            logger.exception("the end of the order for %s/%s was not taken", order.namespace, order.name)


def newer(old: Order | None, new: Order | None) -> Order:
    """One order that does what both ask, with the newer plan."""
    if old is None or new is None:
        order = old or new
        assert order is not None
        return order
    if isinstance(old, Release) and isinstance(new, Nominate):
        return replace(old, nominate=False) if new.node is None else replace(old, node=new.node, nominate=True)
    if isinstance(old, Expose) and isinstance(new, Nominate):
        if new.node is None:
            return old
        return Release(old.uid, old.namespace, old.name, new.node, old.gates, nominate=True)
    return new
