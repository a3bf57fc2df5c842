"""The demo without a cluster, from start to end: creates the pods of the trace, shows what becomes of them, sums up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from extender_api import listeners
from extender_api.demo.accounts import Accounts
from extender_api.demo.embedded import EmbeddedCluster
from extender_api.demo.kubelet import Kubelets
from extender_api.demo.objects import Arrival, Pace, arrivals, demo_nodes, mistakes
from extender_api.demo.recorder import Recorder
from extender_api.demo.show import Show
from extender_api.demo.stock import StockScheduler
from extender_api.demo.summary import Summary, Usage, print_summary, sum_up
from extender_api.demo.trace import DEFAULT_TRACE, read_trace
from extender_api.demo.transport import Transport
from extender_api.demo.wiring import tangram


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How much, how fast, and how many seconds after the last arrival to give up."""

    trace: Path = DEFAULT_TRACE
    pods: int = 400
    pace: Pace = field(default_factory=Pace)
    give_up_s: float = 60.0


def run_demo(options: DemoOptions, console: Console) -> int:
    """Runs, prints, returns the exit status. Raises TraceError when there is no trace."""
    todo = arrivals(read_trace(options.trace, limit=options.pods), options.pace)
    console.print(
        f"{len(todo)} pods of {options.trace.name} within {options.pace.arrive_s:.0f} s. Compiling kernels (once) …",
        soft_wrap=True,
    )
    summary = listeners.run(play(todo, options, console))
    print_summary(console, summary)
    return 0 if summary.ok else 1


async def play(todo: Sequence[Arrival], options: DemoOptions, console: Console) -> Summary:
    """One run on an embedded cluster."""
    cluster, accounts = EmbeddedCluster(), Accounts()
    runs_s: dict[str, float] = {}
    Kubelets(cluster, accounts, runs_s)
    recorder = Recorder(lambda uid, message: cluster.told.get(uid, message))
    cluster.watch(recorder.changed)
    for node in demo_nodes():
        cluster.add_node(node)
    impossible = mistakes()
    show = Show(recorder, accounts, Usage(), len(todo), len(impossible), options.pace.arrive_s)
    async with tangram(cluster) as port:
        console.print(f"Tangram answers on http://127.0.0.1:{port}/v1\n")
        transport = Transport("127.0.0.1", port)
        scheduler = StockScheduler(cluster, transport)
        wrong = frozenset(cluster.create_pod(pod) for pod in impossible)
        tasks = [
            asyncio.create_task(scheduler.run()),
            asyncio.create_task(_create_all(cluster, todo, runs_s, options.give_up_s)),
        ]
        try:
            await show.until_over(console, tasks)
        finally:
            await _stop(tasks)
            transport.close()
    return sum_up(recorder, accounts, show.usage, scheduler.times, wrong)


async def _create_all(
    cluster: EmbeddedCluster, todo: Sequence[Arrival], runs_s: dict[str, float], give_up_s: float
) -> None:
    """Creates every pod at its time; then ends after a while, which ends the run."""
    start = time.monotonic()
    for arrival in todo:
        await asyncio.sleep(max(start + arrival.at_s - time.monotonic(), 0))
        runs_s[cluster.create_pod(arrival.pod)] = arrival.runs_s
    await asyncio.sleep(give_up_s)


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
