"""The demo from start to end: creates the pods of the trace, shows what becomes of them, sums up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from extender_api import listeners
from extender_api.demo.embedded import EmbeddedCluster
from extender_api.demo.kubelet import Kubelets
from extender_api.demo.objects import Arrival, Object, Pace, arrivals, demo_nodes, mistakes
from extender_api.demo.recorder import Recorder
from extender_api.demo.screen import Frame, Screen, screen_for
from extender_api.demo.stock import StockScheduler
from extender_api.demo.summary import Summary, Usage, print_summary, sum_up
from extender_api.demo.trace import DEFAULT_TRACE, read_trace
from extender_api.demo.transport import Transport
from extender_api.demo.wiring import tangram

FRAME_S: Final = 0.25
PRODUCT: Final = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How much, how fast, and how many seconds after the last arrival to give up."""

    trace: Path = DEFAULT_TRACE
    pods: int = 400
    pace: Pace = field(default_factory=Pace)
    give_up_s: float = 60.0


def run_demo(options: DemoOptions, console: Console) -> int:
    """Runs, prints, returns the exit status. Raises TraceError when there is no trace."""
    summary = listeners.run(Demo(options, console).run())
    print_summary(console, summary)
    return 0 if summary.ok else 1


class Demo:
    """One run on one event loop."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        rows = read_trace(options.trace, limit=options.pods)
        self._arrivals = arrivals(rows, options.pace)
        self._options = options
        self._console = console
        self._nodes = demo_nodes()
        self._cluster = EmbeddedCluster()
        self._runs_s: dict[str, float] = {}
        self._kubelets = Kubelets(self._cluster, self._runs_s)
        self._recorder = Recorder()
        self._usage = Usage()
        self._mistakes: frozenset[str] = frozenset()

    async def run(self) -> Summary:
        """Plays the whole trace."""
        self._console.print(
            f"{len(self._arrivals)} pods of {self._options.trace.name} within {self._options.pace.arrive_s:.0f} s "
            f"on {len(self._nodes)} nodes. Compiling kernels (once) …",
            soft_wrap=True,
        )
        for node in self._nodes:
            self._cluster.add_node(node)
        self._cluster.watch(self._recorder.changed)
        async with tangram(self._cluster) as port:
            self._console.print(f"Tangram answers on http://127.0.0.1:{port}/v1\n")
            transport = Transport("127.0.0.1", port)
            scheduler = StockScheduler(self._cluster, transport)
            tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(self._create_all())]
            try:
                with screen_for(self._console) as screen:
                    await self._show_until_done(screen, tasks)
            finally:
                await _stop(tasks)
                transport.close()
        return sum_up(self._recorder, self._kubelets, self._usage, scheduler.times, self._mistakes)

    async def _create_all(self) -> None:
        """Creates every pod at its time."""
        start = time.monotonic()
        self._mistakes = frozenset(self._cluster.create_pod(pod) for pod in mistakes())
        for arrival in self._arrivals:
            await asyncio.sleep(max(start + arrival.at_s - time.monotonic(), 0))
            self._create(arrival)
        await asyncio.sleep(self._options.give_up_s)

    def _create(self, arrival: Arrival) -> None:
        self._runs_s[self._cluster.create_pod(arrival.pod)] = arrival.runs_s

    async def _show_until_done(self, screen: Screen, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Shows frames until every pod that can run has ended, or it takes too long.

        Raises what a task raised.
        """
        start = time.monotonic()
        while not self._done():
            elapsed = time.monotonic() - start
            if elapsed <= self._options.pace.arrive_s:
                self._usage.note(self._kubelets)
            screen.show(self._frame(elapsed))
            finished, _ = await asyncio.wait(tasks, timeout=FRAME_S, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                task.result()
                return
        screen.show(self._frame(time.monotonic() - start))

    def _done(self) -> bool:
        expected = len(self._arrivals) + len(self._mistakes)
        return self._recorder.created == expected and self._recorder.ended == len(self._arrivals)

    def _frame(self, elapsed_s: float) -> Frame:
        recorder = self._recorder
        return Frame(
            elapsed_s=elapsed_s,
            created=recorder.created,
            total=len(self._arrivals) + len(self._mistakes),
            placed=recorder.placed,
            running=self._kubelets.running,
            ended=recorder.ended,
            nodes=self._kubelets.use,
            products={_name(node): _product(node) for node in self._nodes},
            waiting=recorder.waiting(),
        )


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _product(node: Object) -> str:
    return str(node["metadata"]["labels"].get(PRODUCT, "virtual"))


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
