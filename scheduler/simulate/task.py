"""One run of a sweep: which experiment, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from scheduler.kernels.warm import warm
from scheduler.packing.named import policy_named
from scheduler.simulate import openb
from scheduler.simulate.run import Simulation

INFLATION: Final = "inflation"
CHURN: Final = "churn"

Run = Callable[["Task", Path], dict[str, Any]]


class SweepError(ValueError):
    """A sweep that cannot be; the text says why, and what to do."""


class Task(NamedTuple):
    """One experiment with an openb trace. `load` belongs to churn; `candidates` (None: all) is how many nodes are seen.

    `policy` is one of `scheduler.packing.named.NAMES`.
    """

    kind: str
    trace: str
    policy: str
    seed: int
    load: float | None = None
    candidates: int | None = None

    @property
    def key(self) -> str:
        """The task in words, the same for ever: files of results know it by them."""
        words = [self.kind, self.trace, self.policy, f"seed-{self.seed}"]
        if self.load is not None:
            words.append(f"load-{self.load:g}")
        if self.candidates is not None:
            words.append(f"candidates-{self.candidates}")
        return "/".join(words)


def inflations(
    traces: Iterable[str], policies: Iterable[str], seeds: Iterable[int], candidates: Sequence[int | None] = (None,)
) -> Iterator[Task]:
    """Every trace under every policy, by seeds."""
    for trace, policy, seen, seed in product(traces, policies, candidates, seeds):
        yield Task(INFLATION, trace, policy, seed, candidates=seen)


def churns(
    traces: Iterable[str], policies: Iterable[str], seeds: Iterable[int], loads: Iterable[float]
) -> Iterator[Task]:
    """Every trace at every load under every policy, by seeds."""
    for trace, load, policy, seed in product(traces, loads, policies, seeds):
        yield Task(CHURN, trace, policy, seed, load)


def check(task: Task) -> None:
    """Raises SweepError, TraceError or PolicyError where a task makes no sense, before anything runs."""
    if task.kind not in (INFLATION, CHURN):
        raise SweepError(f'"{task.kind}" is no experiment: {INFLATION} and {CHURN} are')
    openb.check_trace(task.trace)
    policy_named(task.policy)
    if task.kind == CHURN and task.load is None:
        raise SweepError(f"{task.key}: churn has a load, e.g. 1.0")
    if task.kind == INFLATION and task.load is not None:
        raise SweepError(f"{task.key}: a load belongs to churn; inflation goes on until 1.3 times the cluster is asked")
    if task.candidates is not None and task.candidates < 1:
        raise SweepError(f"{task.key}: at least one node is seen")


def run_task(task: Task, folder: Path = openb.FOLDER) -> dict[str, Any]:
    """The result without its series, with `wallSeconds`: making the scenario and simulating it.

    Compiles the kernels first, once in a process. Raises TraceError and PolicyError.
    """
    _ready()
    began = time.perf_counter()
    if task.load is None:
        scenario = openb.inflation(task.trace, task.seed, folder)
    else:
        scenario = openb.churn(task.trace, task.seed, task.load, folder)
    result = Simulation(scenario, policy_named(task.policy), task.policy, candidates=task.candidates).run()
    return result.to_dict(series=False) | {"wallSeconds": round(time.perf_counter() - began, 3)}


@cache
def _ready() -> float:
    return warm()
