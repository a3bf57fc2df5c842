"""Binds under way: each waits for its gang where it has to, is posted, and its outcome told to the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from extender_api import metrics, text
from extender_api.actuator import Actuator, BindOutcome, BindResult
from scheduler.engine import Engine
from scheduler.gang_spec import GangKey
from scheduler.instruction import BindOrder, BindRefusal, BindWait

log = logging.getLogger(__name__)


class Binds:
    """Carries out kube-scheduler's binds. `wake` is called when a round may find more to do."""

    def __init__(
        self, engine: Engine, actuator: Actuator, *, clock: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._actuator = actuator
        self._clock = clock
        self._wake = wake
        self._tasks: set[asyncio.Task[str]] = set()
        self._decided: dict[GangKey, asyncio.Event] = {}
        """Gangs with members that wait at bind."""
        engine.barrier.on_decided = self._decide

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """Posts the Binding. Returns the error for kube-scheduler, or "".

        Shielded: a caller that gives up does not leave us ignorant of what became of the Binding.
        """
        task = asyncio.create_task(self._bind(namespace, name, uid, node))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        if self._engine.is_bound_to(uid, node):
            return ""  # asked again after the watch has shown it
        foreign = uid in self._engine.foreign
        order: BindOrder | BindWait | BindRefusal
        if foreign:
            order = BindOrder(uid, namespace, name, node)
        else:
            order = self._engine.binding.start(uid, namespace, name, node, self._clock())
        if isinstance(order, BindWait):
            order = await self._after_the_gang(order, uid, node)
        if isinstance(order, BindRefusal):
            metrics.count_bind("refused")
            log.info("bind of %s/%s to %s refused: %s", namespace, name, node, order.error, extra={"uid": uid})
            self._wake()
            return order.error
        result = await self._post(order)
        metrics.count_bind(result.outcome.value)
        bound = result.outcome in (BindOutcome.BOUND, BindOutcome.ALREADY_THERE)
        if not foreign:
            keep = result.outcome is BindOutcome.RETRY
            self._engine.binding.finish(uid, bound, self._clock(), keep_booking=keep)
        self._wake()  # there is room for another in flight, or the pod waits again
        if bound:
            log.info("bound %s/%s to %s", namespace, name, node, extra={"uid": uid})
            return ""
        log.warning("bind of %s/%s to %s failed: %s", namespace, name, node, result.text, extra={"uid": uid})
        return result.text or result.outcome.value

    async def _after_the_gang(self, wait: BindWait, uid: str, node: str) -> BindOrder | BindRefusal:
        """Waits until the pod's gang is decided, or as long as it may."""
        order: BindOrder | BindWait | BindRefusal = wait
        while isinstance(order, BindWait):
            decided = self._decided.setdefault(wait.gang, asyncio.Event())
            limit_s = max(wait.until_ms - self._clock(), 0) / 1000
            try:
                async with asyncio.timeout(limit_s):
                    await decided.wait()
            except TimeoutError:
                self._engine.binding.waited_in_vain(uid, self._clock())
            order = self._engine.binding.go_on(wait, uid, node, self._clock())
        return order

    def _decide(self, gang: GangKey) -> None:
        decided = self._decided.pop(gang, None)
        if decided is not None:
            decided.set()
        self._wake()

    async def _post(self, order: BindOrder) -> BindResult:
        """The Binding, whose outcome is always known to the ledger: what went wrong unexpectedly may have bound."""
        try:
            return await self._actuator.bind(order)
        except Exception:
            log.exception("bind of %s/%s to %s", order.namespace, order.name, order.node, extra={"uid": order.uid})
            return BindResult(BindOutcome.RETRY, text.INTERNAL)

    async def drain(self, timeout_s: float) -> None:
        """Waits for those that were accepted."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=timeout_s)
