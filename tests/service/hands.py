"""An actuator whose results a test decides, and a service on a small cluster that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from extender_api.actuator import BindOutcome, BindResult
from extender_api.service import Service
from scheduler.engine import Engine
from scheduler.instruction import BindOrder, Instruction, Release
from scheduler.pod import PodFacts
from tests.engine.world import engine, node

BOUND = BindResult(BindOutcome.BOUND)


class Hands:
    """Keeps what it was told. Binds end as `result` says, once `may_end` is set."""

    def __init__(self) -> None:
        self.told: list[Instruction] = []
        self.orders: list[BindOrder] = []
        self.result: BindResult | Exception = BOUND
        self.may_end = asyncio.Event()
        self.may_end.set()

    def submit(self, instruction: Instruction) -> None:
        self.told.append(instruction)

    async def bind(self, order: BindOrder) -> BindResult:
        self.orders.append(order)
        await self.may_end.wait()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    @property
    def released(self) -> list[str]:
        return [item.name for item in self.told if isinstance(item, Release)]


class Clock:
    """Time that moves by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Stage:
    """A service, its hands, its clock, and one node with four devices."""

    def __init__(
        self, catch_up: Callable[[], Awaitable[None]] | None = None, hands: Hands | None = None, **settings: Any
    ) -> None:
        self.hands = hands or Hands()
        self.clock = Clock()
        self.not_ready: str | None = None
        self.forgot = 0
        self.engine: Engine = engine(**settings)
        self.service = Service(
            self.engine,
            self.hands,
            clock=self.clock,
            unready=lambda: self.not_ready,
            catch_up=catch_up,
            forget=self._forget,
        )
        self.service.on_node(None, node("n1", gpus=4))

    def _forget(self) -> None:
        self.forgot += 1

    def create(self, *pods: PodFacts) -> None:
        for facts in pods:
            self.service.on_pod(None, facts)

    def released(self, facts: PodFacts) -> PodFacts:
        """The pod after its gate went."""
        free = replace(facts, gates=())
        self.service.on_pod(facts, free)
        return free

    async def bind(self, facts: PodFacts, node_name: str = "n1") -> str:
        return await self.service.bind(facts.namespace, facts.name, facts.uid, node_name)


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[None]:
    """The planning loop at work; it must not have ended by itself."""
    task = asyncio.create_task(service.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settle(turns: int = 30) -> None:
    """Lets the loop do what is due, coalescing included."""
    for _ in range(turns):
        await asyncio.sleep(0.001)
