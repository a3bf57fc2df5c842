"""How long it takes to decide where one pod goes, by policy, cold and with remembered costs; and to make tables anew.

Nodes and pods are those of the openb trace, in proportion to the number of nodes. The cluster is filled to the load and
then lives on: for each pod that comes another one goes. Only the decision is timed. Policies take turns in one run, so
that a busy moment of the machine hits all of them. Run: `python -m benchmarks.decisions`.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

import numpy as np

from benchmarks import report
from benchmarks.measure import Times, times
from scheduler import placement
from scheduler.allocation import DeviceShare
from scheduler.kernels.warm import warm
from scheduler.packing.mix import Mix
from scheduler.packing.named import policy_named
from scheduler.packing.refresh import learner_of, teach
from scheduler.packing.survey import hardware_of
from scheduler.request import Request, parse_request
from scheduler.simulate import openb
from scheduler.state import ClusterState
from topology.inventory import InventorySettings, describe

POLICIES: Final = ("bestfit", "fgd", "rsv")
NODES: Final = (1213, 5000, 20_000)
LOADS: Final = (0.5, 0.85)
WARM_UP: Final = 300
COLUMNS: Final = ("nodes, load", "policy", "cold p50 µs", "p99", "known p50 µs", "mean", "p99", "known / bestfit cold")
TABLE_COLUMNS: Final = ("trace", "classes", "p50 ms", "worst ms")
TRACES: Final = ("default", "gpuspec33")


class _Held(NamedTuple):
    slot: int
    request: Request
    devices: tuple[DeviceShare, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on one cluster."""

    nodes: int
    load: float
    policy: str
    cold: Times
    known: Times
    known_mean_us: float


class Life:
    """A cluster under one policy to which pods come and from which they go."""

    def __init__(self, nodes: int, policy: str, mix: Mix, seed: int = 1) -> None:
        scenario = openb.inflation("default", 42)
        self.policy = policy
        self.state = ClusterState(policy_named(policy))
        settings = InventorySettings(shares_by_default=True)
        for number in range(nodes):
            facts = scenario.nodes[number % len(scenario.nodes)]
            renamed = type(facts)(f"{number:06}", labels=facts.labels, allocatable=facts.allocatable)
            self.state.set_node(describe(renamed, settings))
        teach(self.state, mix)
        forms: dict[int, Request] = {}
        for job in scenario.jobs:
            pod = job.pods[0]
            forms.setdefault(id(pod.containers), parse_request(pod, settings.device_resources))
        self._requests = [forms[id(job.pods[0].containers)] for job in scenario.jobs]
        self._mask = np.ones(nodes, np.bool_)
        self._rng = random.Random(seed)
        self._held: list[_Held] = []
        self._milli = 0

    def fill(self, load: float) -> None:
        """Pods come until the devices are so full."""
        wanted = load * 1000 * float(self.state.arrays.device_count.sum())
        while self._milli < wanted:
            self.step(leave=False)

    def step(self, *, leave: bool = True, cold: bool = False) -> float:
        """A pod goes and one comes. Returns the seconds that the decision took."""
        if leave:
            gone = self._held.pop(self._rng.randrange(len(self._held)))
            self._count(gone, -1)
            self.state.give(*gone)
        request = self._rng.choice(self._requests)
        if cold:
            self.state.forget_costs()
        began = time.perf_counter()
        found = placement.place(self.state, request, self._mask)
        took = time.perf_counter() - began
        if found is not None:
            held = _Held(self.state.slot_of[found.node], request, found.devices)
            self.state.take(*held)
            self._held.append(held)
            self._count(held, 1)
        return took

    def _count(self, held: _Held, sign: int) -> None:
        self._milli += sign * sum(share.milli for share in held.devices)


def measure(nodes: int, load: float, calls: int) -> list[Row]:
    """All policies on clusters of one size, in turn."""
    mix = openb.read("default").mix
    lives = [Life(nodes, policy, mix) for policy in POLICIES]
    for life in lives:
        life.fill(load)
    cold: list[list[float]] = [[] for _ in lives]
    known: list[list[float]] = [[] for _ in lives]
    for turn in range(calls // 10):
        for life, found in zip(lives, cold, strict=True):
            took = life.step(cold=True)
            if turn:
                found.append(took)
    for turn in range(WARM_UP + calls):
        for life, found in zip(lives, known, strict=True):
            took = life.step()
            if turn >= WARM_UP:
                found.append(took)
    return [
        Row(nodes, load, life.policy, times(slow), times(fast), 1e6 * sum(fast) / len(fast))
        for life, slow, fast in zip(lives, cold, known, strict=True)
    ]


def tables(trace: str, calls: int) -> tuple[int, Times]:
    """Classes of a trace, and how long the tables of rsv take to make."""
    mix = openb.read(trace).mix
    life = Life(1213, "rsv", mix)
    learner, hardware = learner_of(life.state.policy), hardware_of(life.state)
    assert learner is not None
    samples = []
    for _ in range(calls + 1):
        began = time.perf_counter()
        learner.build(mix, hardware)
        samples.append(time.perf_counter() - began)
    return len(mix.classes), times(samples[1:])  # the first loads the solver


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--calls", type=int, default=2000, help="decisions of each policy with remembered costs")
    options = parser.parse_args(arguments)
    warm()
    rows = [row for nodes in options.nodes for load in LOADS for row in measure(nodes, load, options.calls)]
    best = {(row.nodes, row.load): row.cold.p50_us for row in rows if row.policy == "bestfit"}
    report.table("one decision", COLUMNS, [_cells(row, best[row.nodes, row.load]) for row in rows], words=2)
    made = {trace: tables(trace, 20) for trace in TRACES}
    report.table(
        "making tables anew",
        TABLE_COLUMNS,
        [[trace, classes, took.p50_us / 1000, took.p99_us / 1000] for trace, (classes, took) in made.items()],
    )
    refreshes = {trace: {"classes": classes} | asdict(took) for trace, (classes, took) in made.items()}
    report.write("decisions", {"rows": [asdict(row) for row in rows], "tables": refreshes})
    return 0


def _cells(row: Row, best_fit_us: float) -> list[object]:
    return [
        f"{row.nodes:,}, {row.load}",
        row.policy,
        row.cold.p50_us,
        row.cold.p99_us,
        row.known.p50_us,
        row.known_mean_us,
        row.known.p99_us,
        row.known.p50_us / best_fit_us,
    ]


if __name__ == "__main__":
    raise SystemExit(main())
