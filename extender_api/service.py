"""The running Tangram: one engine, one event loop, and the hands that carry out what the engine decides.

The only writer of engine state. Everything that arrives (watch, webhooks, results of API calls) is handled on the loop
that runs `run`; nothing here blocks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Final

from extender_api import metrics
from extender_api.actuator import Actuator
from extender_api.binds import Binds
from extender_api.role import Role
from queues.spec import QueueSpec
from scheduler.engine import Engine
from scheduler.instruction import (
    Evict,
    Expose,
    Instruction,
    Nominate,
    Release,
    Tell,
)
from scheduler.object_facts import ObjectFacts
from scheduler.packing.refresh import TablesQuestion
from scheduler.pod import PodFacts
from scheduler.second_look import Question
from scheduler.verdict import FilterVerdict
from topology.node import NodeFacts
from topology.topology import Topology

log = logging.getLogger(__name__)

COALESCE_S: Final = 0.003
"""A round waits so long for more news after the first: a burst of pods costs a few rounds, not one each."""
IDLE_S: Final = 5.0
LONGEST_RECOVERY_S: Final = 5.0
"""Rounds that fail are repeated, after waits that double up to this."""


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
        catch_up: Callable[[], Awaitable[None]] | None = None,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        """`unready` says why this replica could not act even if it had to. `catch_up` reads what the replica that acted
        before has written; `forget` drops what the actuator was told and has not done. Without `set_active` it acts.
        """
        self.engine = engine
        self.role = Role(self._take_over, self._stand_down, catch_up)
        self._actuator = actuator
        self._clock = clock
        self._unready = unready
        self._forget = forget
        self._stopping = False
        self._failed_in_a_row = 0
        self._wake = asyncio.Event()
        self._binds = Binds(engine, actuator, clock=clock, wake=self._wake.set)
        self._solving: set[asyncio.Task[None]] = set()

    # -- whether we act ----------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether this replica is the one that writes."""
        return self.role.active

    def set_active(self, active: bool) -> None:
        """Called when kube-scheduler's Lease changes hands."""
        self.role.set(active)

    def _take_over(self) -> None:
        log.info("this replica acts")
        self.engine.take_over(self._clock())
        self._wake.set()

    def _stand_down(self) -> None:
        log.info("this replica is the standby")
        self._forget()
        self.engine.stand_down(self._clock())
        self._wake.set()

    def unready(self) -> str | None:
        """Why this replica could not act even if it had to, or None. A standby that could is ready."""
        if self._stopping:
            return "Tangram is stopping"
        return self._unready() or self.role.unready()

    def ready(self) -> str | None:
        """Why webhooks cannot be answered, or None."""
        if self.role.active:
            return self.unready()
        return self.unready() or "this Tangram is the standby: the kube-scheduler beside it does not hold the Lease"

    # -- the watch ---------------------------------------------------------------------------------------------

    def on_pod(self, old: PodFacts | None, new: PodFacts | None) -> None:
        """A pod was added, changed (`new`) or went (`new` is None)."""
        if new is not None:
            self.engine.apply_pod(new, self._clock())
        elif old is not None:
            self.engine.remove_pod(old.uid, self._clock())
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
        self.engine.set_namespace(name, labels, self._clock())
        self._wake.set()

    def on_object(self, old: ObjectFacts | None, new: ObjectFacts | None) -> None:
        """An owner or a group was added, changed or went."""
        self.engine.object_changed(old, new, self._clock())
        self._wake.set()

    def set_topologies(self, topologies: tuple[Topology, ...]) -> None:
        """All topologies there are, of every source."""
        self.engine.set_topologies(topologies)
        self._wake.set()

    def set_queues(self, specs: tuple[QueueSpec, ...]) -> None:
        """All queues there are, of every source."""
        self.engine.set_queues(specs, self._clock())
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
            self._wake.clear()
            pause_s = self._round()
            if pause_s == 0:
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(COALESCE_S)

    def _round(self) -> float:
        """A round, if one may be made now. Returns in how many seconds the next is due if nothing happens."""
        try:
            if self.ready() is None:
                pause_s = self._plan()
            else:
                pause_s = IDLE_S
                if not self.role.active:
                    self.engine.keep_quiet()
        except Exception:
            # a fault here must not end the process that answers webhooks
            metrics.planning_errors.inc()
            log.exception("planning round failed")
            self._failed_in_a_row += 1
            return min(0.1 * 2.0 ** min(self._failed_in_a_row, 10), LONGEST_RECOVERY_S)
        self._failed_in_a_row = 0
        return pause_s

    def _plan(self) -> float:
        started = time.perf_counter()
        now_ms = self._clock()
        instructions, more = self.engine.plan(now_ms)
        for instruction in instructions:
            self._carry_out(instruction)
        question = self.engine.question()
        if question is not None:
            self._beside(self._solve(question))
        tables = self.engine.packing.question(now_ms)
        if tables is not None:
            self._beside(self._build(tables))
        metrics.planning_round_seconds.observe(time.perf_counter() - started)
        metrics.pods_waiting.set(len(self.engine.roster.waiting))
        metrics.pods_in_flight.set(self.engine.in_flight)
        if more:
            return 0
        deadline_ms = self.engine.next_deadline_ms(now_ms)
        return IDLE_S if deadline_ms is None else min(max((deadline_ms - now_ms) / 1000, COALESCE_S), IDLE_S)

    def _carry_out(self, instruction: Instruction) -> None:
        self._actuator.submit(instruction)
        if isinstance(instruction, Release | Nominate):
            metrics.count_decision("planned")
            log.info(
                "planned %s/%s on %s", instruction.namespace, instruction.name, instruction.node,
                extra={"uid": instruction.uid},
            )  # fmt: skip
        elif isinstance(instruction, Evict):
            metrics.count_decision("evicted")
            log.warning(
                "evicting %s/%s: %s", instruction.namespace, instruction.name, instruction.why,
                extra={"uid": instruction.uid},
            )  # fmt: skip
        elif isinstance(instruction, Expose):
            metrics.count_decision("exposed")
            log.info(
                "released %s/%s without a place: autoscalers shall see it", instruction.namespace, instruction.name,
                extra={"uid": instruction.uid},
            )  # fmt: skip
        elif isinstance(instruction, Tell):
            metrics.count_decision("waits", instruction.reason.code)

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._solving.add(task)
        task.add_done_callback(self._solving.discard)

    async def _solve(self, question: Question) -> None:
        """Answers in a thread: what takes long there holds no GIL."""
        solution = None
        try:
            solution = await asyncio.to_thread(question.answer, self.engine.settings.exact_limit)
        except Exception:
            log.exception("no exact answer about %s", question.gang)
        self.engine.answered(question, solution)
        self._wake.set()

    async def _build(self, question: TablesQuestion) -> None:
        """Makes the policy's tables anew in a thread. Plans wait for nothing: they go by the old ones until then."""
        built = None
        began = time.perf_counter()
        try:
            built = await asyncio.to_thread(question.answer)
        except Exception:
            log.exception("the tables of the placement policy could not be made; the old ones stay")
        self.engine.packing.answered(question, built)
        metrics.packing_tables_seconds.observe(time.perf_counter() - began)

    # -- webhooks ----------------------------------------------------------------------------------------------

    def is_ours(self, pod: PodFacts) -> bool:
        ours = self.engine.ours(pod)
        if not ours:
            self.engine.meet(pod, self._clock())  # it may come to bind before the watch shows it
        return ours

    def known(self, uid: str) -> PodFacts | None:
        """A pod of ours that the watch has shown already."""
        record = self.engine.roster.records.get(uid)
        return None if record is None or self.engine.hearsay.is_only_heard_of(uid) else record.facts

    def filter(self, pod: PodFacts, offered: Sequence[str], nominated: str | None) -> FilterVerdict:
        verdict = self.engine.filter(pod, offered, self._clock(), nominated)
        if verdict.nodes:
            metrics.count_decision("passed")
        elif verdict.error:
            metrics.count_decision("error")
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
        return await self._binds.bind(namespace, name, uid, node)

    # -- the end -----------------------------------------------------------------------------------------------

    async def drain(self, timeout_s: float) -> None:
        """Stops taking work and waits for the binds that were accepted."""
        self._stopping = True
        await self._binds.drain(timeout_s)
