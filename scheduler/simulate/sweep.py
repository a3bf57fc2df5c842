"""Many simulations: policies × traces × seeds, on all cores or on a cluster, kept as they finish."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from scheduler.simulate.fingerprint import Fingerprint, fingerprint
from scheduler.simulate.openb import FOLDER
from scheduler.simulate.store import Store
from scheduler.simulate.task import Run, SweepError, Task, check, run_task
from scheduler.simulate.workers import LocalWorkers, Workers

Progress = Callable[[int, int, str], None]
"""Told of each task that is over: how many are, of how many, and the key of this one."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What came of a sweep. `ran` counts the tasks that this sweep ran itself; failures are no results."""

    results: dict[Task, dict[str, Any]] = field(default_factory=dict)
    failures: dict[Task, str] = field(default_factory=dict)
    ran: int = 0


def sweep(
    tasks: Iterable[Task],
    path: Path,
    *,
    folder: Path = FOLDER,
    workers: Workers | None = None,
    anew: bool = False,
    progress: Progress | None = None,
    run: Run = run_task,
) -> Swept:
    """Runs the tasks of which `path` has no result, and keeps results there one by one; `anew` forgets what it has.

    `workers` (default: all cores) are closed at the end. Interrupted, it goes on with the next call. Raises SweepError,
    TraceError and PolicyError before anything runs; what goes wrong in a task is among the failures.
    """
    wanted = {task.key: task for task in tasks}
    for task in wanted.values():
        check(task)
    ours = fingerprint(folder)
    with Store(path, ours, anew=anew) as store:
        missing = [task for key, task in wanted.items() if key not in store.results]
        done = len(wanted) - len(missing)
        failures: dict[Task, str] = {}
        if missing:
            call = partial(_called, run=run, folder=None if folder == FOLDER else folder.resolve(), expected=ours)
            crew = LocalWorkers() if workers is None else workers
            try:
                crew.submit(call, missing)
                for task, result, error in crew.finished():
                    if result is None:
                        failures[task] = error
                    else:
                        store.add(task, result)
                    done += 1
                    if progress is not None:
                        progress(done, len(wanted), task.key)
            finally:
                crew.close()
        results = {task: store.results[key] for key, task in wanted.items() if key in store.results}
        return Swept(results, failures, len(missing))


def _called(task: Task, *, run: Run, folder: Path | None, expected: Fingerprint) -> dict[str, Any]:
    """At the worker, which may be another machine: without `folder` the traces of the checkout there."""
    there = FOLDER if folder is None else folder
    if fingerprint(there) != expected:
        raise SweepError(f"{socket.gethostname()} has another Tangram or other traces: install the same everywhere")
    return run(task, there)
