"""Workers on this machine: a process for each core."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from scheduler.simulate.sweep import Task, attempt


class Processes:
    """So many processes, which start anew and share nothing."""

    def __init__(self, count: int) -> None:
        self._count = count

    def results(self, tasks: Iterable[Task], folder: Path) -> Iterator[tuple[Task, dict[str, Any] | str]]:
        """See `Workers.results`. A process that dies takes the tasks with it that were not done."""
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self._count, mp_context=context) as pool:
            running: dict[Future[dict[str, Any] | str], Task] = {}
            left = iter(tasks)
            try:
                while True:
                    for task in left:
                        running[pool.submit(attempt, task, folder)] = task
                        if len(running) >= 2 * self._count:
                            break
                    if not running:
                        return
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        task, trouble = running.pop(future), future.exception()
                        yield task, future.result() if trouble is None else f"{type(trouble).__name__}: {trouble}"
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
