"""The demo from start to end: creates the pods of the trace, shows what becomes of them, sums up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from extender_api.demo.embedded import EmbeddedCluster
from extender_api.demo.kubelet import Kubelets
from extender_api.demo.objects import Arrival, Pace, arrivals, demo_nodes, mistakes
from extender_api.demo.recorder import Recorder
from extender_api.demo.screen import Frame, Screen, print_summary, screen_for
from extender_api.demo.stock import CallTimes, StockScheduler
from extender_api.demo.summary import Summary, percentile
from extender_api.demo.trace import DEFAULT_TRACE, read_trace
from extender_api.demo.transport import Transport
from extender_api.demo.wiring import tangram

FRAME_S: Final = 0.25
PRODUCT: Final = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How much, how fast, and when to give up (seconds after the last arrival)."""

    trace: Path = DEFAULT_TRACE
    pods: int = 400
    pace: Pace = Pace()
    give_up_s: float = 60.0


@dataclass(slots=True)
class Usage:
    """Real devices in use over time, sampled while pods arrive."""

    samples: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return sum(self.samples) / max(len(self.samples), 1)

    @property
    def peak(self) -> float:
        return max(self.samples, default=0.0)


class Demo:
    """One run on one event loop."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._cluster = EmbeddedCluster()
        self._runs_s: dict[str, float] = {}
        self._recorder = Recorder()
        self._usage = Usage()
        self._mistakes: set[str] = set()
        nodes = demo_nodes()
        self._products = {
            node["metadata"]["name"]: node["metadata"]["labels"].get(PRODUCT, "virtual") for node in nodes
        }
        for node in nodes:
            self._cluster.add_node(node)
        self._kubelets = Kubelets(self._cluster, self._runs_s)

    async def run(self) -> Summary:
        """Runs to the end. Raises TraceError when there is no trace."""
        rows = read_trace(self._options.trace, limit=self._options.pods)
        todo = arrivals(rows, self._options.pace)
        self._cluster.watch(self._recorder.changed)
        self._console.print(
            f"{len(todo)} pods of {self._options.trace.name} in {self._options.pace.arrive_s:.0f} s on "
            f"{len(self._cluster.nodes)} nodes; preparing kernels …",
            soft_wrap=True,
        )
        async with tangram(self._cluster) as port, asyncio.TaskGroup() as group:
            transport = Transport("127.0.0.1", port)
            scheduler = StockScheduler(self._cluster, transport)
            tasks = [group.create_task(scheduler.run())]
            self._console.print(f"Tangram answers on http://127.0.0.1:{port}/v1")
            with screen_for(self._console) as screen:
                await self._play(todo, screen)
            for task in tasks:
                task.cancel()
            transport.close()
        return self._summary(scheduler.times)

    async def _play(self, todo: Sequence[Arrival], screen: Screen) -> None:
        start = time.monotonic()
        pending = list(reversed(todo))
        self._mistakes = {self._cluster.create_pod(pod) for pod in mistakes()}
        last_s = todo[-1].at_s if todo else 0.0
        while True:
            elapsed = time.monotonic() - start
            while pending and pending[-1].at_s <= elapsed:
                self._create(pending.pop())
            if elapsed <= last_s:
                self._usage.samples.append(self._use())
            screen.show(self._frame(elapsed, len(todo)))
            if (not pending and self._all_ended()) or elapsed > last_s + self._options.give_up_s:
                return
            await asyncio.sleep(min(FRAME_S, max(pending[-1].at_s - elapsed, 0.0)) if pending else FRAME_S)
