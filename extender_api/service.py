"""The running Tangram: one engine, one event loop, and the hands that carry out what the engine decides.

The only writer of engine state. Everything that arrives (watch, webhooks, results of API calls) is handled on the loop
that runs `run`; nothing here blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from extender_api import metrics
from extender_api.actuator import Actuator, BindOutcome
from scheduler.engine import Engine
from scheduler.instruction import BindOrder, BindRefusal, Nominate, Release
from scheduler.pod import PodFacts
from scheduler.verdict import FilterVerdict
from topology.node import NodeFacts

log = logging.getLogger(__name__)

COALESCE_S: Final = 0.003
"""A round waits so long for more news after the first: a burst of pods costs a few rounds, not one each."""
IDLE_S: Final = 5.0


def wall_clock_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Service:
    """Implements what the webhook routes ask, and runs the planning loop."""

    def __init__(
        self,
        engine: Engine,
        actuator: Actuator,
        *,
        clock: Callable[[], int] = wall_clock_ms,
        unready: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.engine = engine
        self._actuator = actuator
        self._clock = clock
        self.unready = unready
        """Why this replica could not act even if it had to, or None."""
        self._active = True
        self._stopping = False
        self._wake = asyncio.Event()
        self._binds: set[asyncio.Task[str]] = set()

    # -- whether we act ----------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether this replica is the one that writes."""
        return self._active

    def set_active(self, active: bool) -> None:
        """Called when kube-scheduler's Lease changes hands."""
        if active != self._active:
            log.info("this replica is now %s", "active" if active else "standby")
            if not active:
                self.engine.stand_down(self._clock())
        self._active = active
        self._wake.set()

    def ready(self) -> str | None:
        """Why webhooks cannot be answered yet, or None."""
        if self._stopping:
            return "Tangram is stopping"
        reason = self.unready()
        if reason is None and not self._active:
            return "this Tangram is the standby: the kube-scheduler beside it does not hold the Lease"
        return reason

    # -- the watch ---------------------------------------------------------------------------------------------

    def on_pod(self, old: PodFacts | None, new: PodFacts | None) -> None:
        """A pod was added, changed (`new`) or went (`new` is None)."""
        if new is not None:
            self.engine.apply_pod(new, self._clock())
        elif old is not None:
            self.engine.remove_pod(old.uid)
        self._wake.set()

    def on_node(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        """A node was added, changed or went."""
        if new is not None:
            self.engine.cluster.set_node(new)
        elif old is not None:
            self.engine.cluster.remove_node(old.name)
        self._wake.set()

    def on_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace's labels, or None when it went."""
        self.engine.cluster.set_namespace(name, labels)
        self._wake.set()

    def on_result(self, uid: str, ok: bool) -> None:
        """What became of a release or a nomination."""
        self.engine.released(uid, ok, self._clock())
        if not ok:
            self._wake.set()

    def wake(self) -> None:
        """Something outside changed: look whether a round is due."""
        self._wake.set()

    # -- the planning loop -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Plans whenever something happened, and when a deadline comes. Never returns."""
        while True:
            more = self._round() if self._active and self.unready() is None and not self._stopping else False
            if more:
                await asyncio.sleep(0)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause_s())
                await asyncio.sleep(COALESCE_S)
            self._wake.clear()

    def _pause_s(self) -> float:
        if not self._active:
            return IDLE_S
        now_ms = self._clock()
        deadline = self.engine.next_deadline_ms(now_ms)
        return IDLE_S if deadline is None else min(max((deadline - now_ms) / 1000, COALESCE_S), IDLE_S)

    def _round(self) -> bool:
        started = time.perf_counter()
        try:
            instructions, more = self.engine.plan(self._clock())
        except Exception:
            # a bug here must not end the process that answers webhooks; the next event tries again
            metrics.planning_errors.inc()
            log.exception("planning round failed")
            return False
        for instruction in instructions:
            self._actuator.submit(instruction)
            if isinstance(instruction, Release | Nominate):
                log.info(
                    "planned %s/%s on %s", instruction.namespace, instruction.name, instruction.node,
                    extra={"uid": instruction.uid},
                )  # fmt: skip
        metrics.planning_round_seconds.observe(time.perf_counter() - started)
        metrics.pods_waiting.set(len(self.engine.roster.waiting))
        metrics.pods_in_flight.set(self.engine.in_flight)
        return more

    # -- webhooks ----------------------------------------------------------------------------------------------

    def is_ours(self, pod: PodFacts) -> bool:
        return self.engine.ours(pod)

    def known(self, uid: str) -> PodFacts | None:
        """A pod of ours that the watch has shown already."""
        record = self.engine.roster.records.get(uid)
        return None if record is None else record.facts

    def filter(self, pod: PodFacts, offered: Sequence[str]) -> FilterVerdict:
        verdict = self.engine.filter(pod, offered, self._clock())
        if verdict.nodes:
            metrics.count_decision("passed")
        else:
            metrics.count_decision("refused", next(iter(verdict.refused.values()), ""))
            self._wake.set()  # the pod waits again, and may have to be told why
        return verdict

    def prioritize(self, pod: PodFacts, offered: Sequence[str]) -> list[tuple[str, int]]:
        return self.engine.prioritize(pod, offered)

    def preempt(self, pod: PodFacts, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        return self.engine.preempt(pod, victims)

    def advise_filter(self, pod: PodFacts, offered: Sequence[str]) -> FilterVerdict:
        return self.engine.advise_filter(pod, offered)

    def advise_prioritize(self, pod: PodFacts, offered: Sequence[str]) -> list[tuple[str, int]]:
        return self.engine.advise_prioritize(pod, offered)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """Posts the Binding. Returns the error for kube-scheduler, or "".

        Shielded: a caller that gives up does not leave us ignorant of what became of the Binding.
        """
        task = asyncio.create_task(self._bind(namespace, name, uid, node))
        self._binds.add(task)
        task.add_done_callback(self._binds.discard)
        return await asyncio.shield(task)

    async def _bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        foreign = uid in self.engine.foreign
        order: BindOrder | BindRefusal
        if foreign:
            order = BindOrder(uid, namespace, name, node)
        else:
            order = self.engine.binding.start(uid, namespace, name, node, self._clock())
        if isinstance(order, BindRefusal):
            metrics.count_bind("refused")
            log.info("bind of %s/%s to %s refused: %s", namespace, name, node, order.error)
            self._wake.set()
            return order.error
        result = await self._actuator.bind(order)
        metrics.count_bind(result.outcome.value)
        bound = result.outcome in (BindOutcome.BOUND, BindOutcome.ALREADY_THERE)
        if not foreign:
            keep = result.outcome is BindOutcome.RETRY
            self.engine.binding.finish(uid, bound, self._clock(), keep_booking=keep)
        if bound:
            log.info("bound %s/%s to %s", namespace, name, node, extra={"uid": uid})
            return ""
        self._wake.set()
        log.warning("bind of %s/%s to %s failed: %s", namespace, name, node, result.text)
        return result.text or result.outcome.value

    # -- the end -----------------------------------------------------------------------------------------------

    async def drain(self, timeout_s: float) -> None:
        """Stops taking work and waits for the binds that were accepted."""
        self._stopping = True
        if self._binds:
            await asyncio.wait(list(self._binds), timeout=timeout_s)
