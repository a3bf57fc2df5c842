"""Pods per second on a real control plane: kube-scheduler with Tangram beside kube-scheduler alone.

How the pods are released is said in `benchmarks.releases`. Calls per pod come from the API server's own
metrics, CPU seconds from the system. Run: `python -m benchmarks.throughput --nodes 500 5000`.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks import report
from benchmarks.api_calls import ApiCall, counted, per_pod
from benchmarks.arena import SIDES, STOCK, Arena, Side, arena
from benchmarks.measure import percentile
from benchmarks.releases import WAYS, Sightings, release_at_once, release_created, remove_pods
from tests.controlplane.binaries import Binaries

SIZES: Final = (500, 5000)
SETTLE_S: Final = 3.0


class Kind(NamedTuple):
    """What repeated measurements have in common."""

    side: str
    release: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One measurement. Waits are seconds from release (`at once`) or first sight (`created`) to the node.

    `calls` are calls of the API server per pod, those of the benchmark included; `cpu_s` seconds by process.
    """

    nodes: int
    side: str
    way: str
    pods: int
    seconds: float
    wait_p50_s: float
    wait_p99_s: float
    calls: dict[str, float]
    writes: float
    cpu_s: dict[str, float]

    @property
    def pods_per_s(self) -> float:
        """The rate."""
        return self.pods / self.seconds

    @property
    def kind(self) -> Kind:
        """What it is a measurement of."""
        return Kind(self.side, self.way, self.nodes)


class Meter:
    """What is read at the start and at the end of a measurement."""

    def __init__(self, place: Arena) -> None:
        self._place = place
        self._calls: Counter[ApiCall] = Counter()
        self._cpu_s: dict[str, float] = {}

    async def begin(self) -> None:
        """Reads the counters."""
        self._calls = await self._read_calls()
        self._cpu_s = self._read_cpu()

    async def end(self, pods: int) -> tuple[dict[ApiCall, float], dict[str, float]]:
        """Calls per pod and CPU seconds by process since `begin`."""
        now = self._read_cpu()
        calls = per_pod(self._calls, await self._read_calls(), pods)
        return calls, {name: now[name] - self._cpu_s.get(name, 0.0) for name in now}

    async def _read_calls(self) -> Counter[ApiCall]:
        return counted(str(await self._place.plane.kube.client.request("GET", "/metrics")))

    def _read_cpu(self) -> dict[str, float]:
        return {name: process.cpu_seconds() for name, process in self._place.processes().items()} | {
            "benchmark": time.process_time()
        }


async def measure(place: Arena, nodes: int, pods: int, way: str) -> Outcome:
    """One measurement on an arena without pods; leaves it without pods."""
    sightings = Sightings(pods)
    client = place.plane.kube.client
    follower = asyncio.create_task(sightings.follow(client))
    meter = Meter(place)
    try:
        release = release_at_once if way == "at once" else release_created
        start = await release(place, sightings, meter.begin)
        calls, cpu_s = await meter.end(pods)
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
    since = sightings.released if way == "at once" else sightings.seen
    waits = sorted(sightings.bound[name] - since[name] for name in sightings.bound)
    outcome = Outcome(
        nodes=nodes,
        side=place.side.name,
        way=way,
        pods=pods,
        seconds=max(sightings.bound.values()) - start,
        wait_p50_s=percentile(waits, 0.50),
        wait_p99_s=percentile(waits, 0.99),
        calls={str(call): rate for call, rate in calls.items()},
        writes=sum(rate for call, rate in calls.items() if call.writes),
        cpu_s=cpu_s,
    )
    await remove_pods(client)
    await asyncio.sleep(SETTLE_S)
    return outcome


def run(
    sizes: Sequence[int], pods: int, sides: Iterable[Side], ways: Sequence[str], logs: Path, repeat: int = 1
) -> list[Outcome]:
    """Every side at every size, one control plane after the other; prints as it goes."""
    binaries = Binaries.built()
    outcomes: list[Outcome] = []
    for nodes in sizes:
        for _ in range(repeat):
            for side in sides:
                outcomes += _one_side(side, nodes, pods, ways, binaries, logs)
    return outcomes


def _one_side(side: Side, nodes: int, pods: int, ways: Sequence[str], binaries: Binaries, logs: Path) -> list[Outcome]:
    outcomes = []
    with arena(side, binaries, logs) as place:
        report.console.print(f"{side.name}: creating {nodes:,} nodes")
        place.add_nodes(nodes)
        time.sleep(SETTLE_S)
        for way in ways:
            outcome = place.plane.kube.loop.run(measure(place, nodes, pods, way))
            report.console.print(f"  {way}: {outcome.pods_per_s:.1f} pods/s")
            outcomes.append(outcome)
    return outcomes


def show(outcomes: Sequence[Outcome]) -> None:
    """The tables: rates with their ratio to stock, CPU by process, calls by kind; medians where repeated."""
    kinds = list(dict.fromkeys(one.kind for one in outcomes))
    groups = {kind: [one for one in outcomes if one.kind == kind] for kind in kinds}
    names = sorted({name for one in outcomes for name in one.cpu_s})
    calls = sorted({call for one in outcomes for call in one.calls if one.calls[call] >= 0.05})
    rates, cpu, called = [], [], []
    for kind in kinds:
        group, stock = groups[kind], groups.get(kind._replace(side=STOCK.name), [])
        rate = median(one.pods_per_s for one in group)
        ratio = rate / median(one.pods_per_s for one in stock) if stock else None
        waits = [median(one.wait_p50_s for one in group), median(one.wait_p99_s for one in group)]
        rates.append([*kind, rate, ratio, *waits, median(one.writes for one in group)])
        cpu.append([*kind, *(_middle(one.cpu_s.get(name) for one in group) for name in names)])
        called.append([*kind, *(_middle(one.calls.get(call) for one in group) for call in calls)])
    columns = ("pods/s", "of stock", "wait p50 s", "wait p99 s", "writes per pod")
    report.table("Throughput", (*Kind._fields, *columns), rows=rates, words=2)
    report.table("CPU seconds", (*Kind._fields, *names), cpu, words=2)
    report.table("API calls per pod, the benchmark's own included", (*Kind._fields, *calls), called, words=2)


def _middle(values: Iterable[float | None]) -> float | None:
    """The median of what is there."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def document(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(one) | {"pods_per_s": one.pods_per_s} for one in outcomes]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(SIZES), help="numbers of nodes")
    parser.add_argument("--pods", type=int, default=1000, help="pods of each measurement")
    parser.add_argument("--nomination", choices=("on", "off", "both"), default="both", help="Tangram's setting")
    parser.add_argument("--release", choices=(*WAYS, "both"), default="both", help="how pods are let loose")
    parser.add_argument("--repeat", type=int, default=1, help="measurements of each kind")
    parser.add_argument("--logs", type=Path, help="folder for the logs of all processes")
    options = parser.parse_args(arguments)
    wanted = {"on": (True,), "off": (False,), "both": (False, True)}[options.nomination]
    sides = [side for side in SIDES.values() if side.nominate is None or side.nominate in wanted]
    ways = WAYS if options.release == "both" else (options.release,)
    logs = options.logs or Path(tempfile.mkdtemp(prefix="tangram-throughput-"))
    logs.mkdir(parents=True, exist_ok=True)
    report.console.print(f"logs in {logs}")
    outcomes = run(options.nodes, options.pods, sides, ways, logs, options.repeat)
    show(outcomes)
    report.write("throughput", document(outcomes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
