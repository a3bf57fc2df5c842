"""Many simulations: policies × traces × seeds. What is done is kept, so that a sweep goes on where it was stopped."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

from scheduler.kernels.warm import warm
from scheduler.packing.named import policy_named
from scheduler.simulate import openb
from scheduler.simulate.run import Simulation

SOURCES: Final = ("queues", "scheduler", "topology")


class SweepError(ValueError):
    """A sweep that cannot go on; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run of an openb trace. `load` None: inflation, else churn at that load; `candidates`: see `LossSite`.

    `learn`: the policy learns the demand instead of knowing it.
    """

    trace: str
    policy: str
    seed: int
    load: float | None = None
    candidates: int | None = None
    learn: bool = False

    @property
    def key(self) -> str:
        """Names the task."""
        parts = [self.trace, self.policy, str(self.seed)]
        parts += [] if self.load is None else [f"load={self.load:g}"]
        parts += [] if self.candidates is None else [f"candidates={self.candidates}"]
        return " ".join([*parts, "learn"] if self.learn else parts)


class Workers(Protocol):
    """Where tasks are done: processes here, or a cluster elsewhere."""

    def results(self, tasks: Iterable[Task], folder: Path) -> Iterator[tuple[Task, dict[str, Any] | str]]:
        """Does the tasks in any order; gives each with its result, or with what went wrong as one line."""
        ...


def run_task(task: Task, folder: Path = openb.FOLDER) -> dict[str, Any]:
    """Does a task; the result as JSON has it, without its time series. Raises TraceError or PolicyError."""
    began = time.perf_counter()
    if task.load is None:
        scenario = openb.inflation(task.trace, task.seed, folder)
    else:
        scenario = openb.churn(task.trace, task.seed, task.load, folder)
    if task.learn:
        scenario = openb.unknown(scenario)
    policy = policy_named(task.policy)
    result = Simulation(scenario, policy, task.policy, candidates=task.candidates).run()
    return {**result.to_dict(series=False), "wallSeconds": round(time.perf_counter() - began, 3)}


def attempt(task: Task, folder: Path) -> dict[str, Any] | str:
    """The same, with what goes wrong as one line: for workers, whose exceptions would end the sweep."""
    warm()
    try:
        return run_task(task, folder)
    except Exception as err:
        return f"{type(err).__name__}: {err}"


class Store:
    """Results in a file, one JSON object a line. A line that was cut off when its writer was killed does not count."""

    def __init__(self, path: Path, *, anew: bool = False) -> None:
        """Reads what is there. Raises SweepError when other code made it and `anew` does not say to drop it."""
        self._path = path
        self.done: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if anew:
            path.unlink(missing_ok=True)
        mine = fingerprint()
        for line in _lines(path):
            if line["code"] != mine:
                raise SweepError(f"{path} was made by other code than this: move it away, or begin anew with --anew")
            self.done[line["key"]] = line["result"]
        self._code = mine

    def add(self, task: Task, result: dict[str, Any]) -> None:
        """Keeps a result, safe from a crash afterwards."""
        line = {"key": task.key, "task": asdict(task), "code": self._code, "result": result}
        torn = self._path.exists() and self._path.stat().st_size > 0 and not self._path.read_bytes().endswith(b"\n")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(("\n" if torn else "") + json.dumps(line, separators=(",", ":")) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.done[task.key] = result


def sweep(
    tasks: Iterable[Task],
    store: Store,
    workers: Workers,
    folder: Path = openb.FOLDER,
    progress: Callable[[int, int, str], None] = lambda done, total, key: None,
) -> dict[str, str]:
    """Does the tasks that the store has no results of. Returns what went wrong, by the tasks' keys.

    `progress` is told how many are done, how many there are, and which one was the last.
    """
    every = list({task.key: task for task in tasks}.values())
    left = [task for task in every if task.key not in store.done]
    failed: dict[str, str] = {}
    for task, result in workers.results(left, folder):
        if isinstance(result, str):
            failed[task.key] = result
        else:
            store.add(task, result)
        progress(
            len(every) - len(left) + sum(one.key in store.done for one in left) + len(failed), len(every), task.key
        )
    return failed


def fingerprint() -> str:
    """Changes with every edit to what decides."""
    root = Path(__file__).parents[2]
    digest = sha256()
    for storey in SOURCES:
        for path in sorted((root / storey).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            with suppress(json.JSONDecodeError):
                yield json.loads(line)
