"""Who runs the tasks of a sweep: processes of this machine, or of a Dask or Ray cluster."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Any, NamedTuple, Protocol

from scheduler.kernels.warm import warm
from scheduler.simulate.task import Task

Call = Callable[[Task], dict[str, Any]]
"""What workers do with a task; it travels to other processes."""


class Done(NamedTuple):
    """A task is over: with a result, or with what went wrong in one line."""

    task: Task
    result: dict[str, Any] | None
    error: str = ""


class Workers(Protocol):
    """They get tasks once, and tell of each when it is done, in any order."""

    def submit(self, call: Call, tasks: Sequence[Task]) -> None:
        """Begins with the tasks."""

    def finished(self) -> Iterator[Done]:
        """All tasks as they finish. One that fails does not end the others."""
        ...

    def close(self) -> None:
        """Ends; what still runs is given up."""


class LocalWorkers:
    """Processes of this machine, one for each core unless told otherwise.

    Each is a pool of its own: one that is killed, as for memory, takes nothing with it but its task.
    """

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes or cores()
        self._call: Call | None = None
        self._waiting: deque[Task] = deque()
        self._idle: list[ProcessPoolExecutor] = []
        self._running: dict[Future[dict[str, Any]], tuple[Task, ProcessPoolExecutor]] = {}

    def submit(self, call: Call, tasks: Sequence[Task]) -> None:
        """See `Workers.submit`. Compiles the kernels first, once for all processes."""
        warm()
        self._call = call
        self._waiting.extend(tasks)

    def finished(self) -> Iterator[Done]:
        """See `Workers.finished`."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self.processes:
                self._start(self._waiting.popleft())
            for future in wait(self._running, return_when=FIRST_COMPLETED).done:
                task, pool = self._running.pop(future)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    _end([pool])
                else:
                    self._idle.append(pool)
                yield Done(task, future.result()) if error is None else Done(task, None, in_one_line(error))

    def close(self) -> None:
        """See `Workers.close`."""
        pools = [*self._idle, *(pool for _, pool in self._running.values())]
        self._waiting.clear()
        self._idle.clear()
        self._running.clear()
        _end(pools)

    def _start(self, task: Task) -> None:
        assert self._call is not None
        while self._idle:
            pool = self._idle.pop()
            try:
                self._running[pool.submit(self._call, task)] = task, pool
            except BrokenProcessPool:  # killed while it had nothing to do
                _end([pool])
            else:
                return
        pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_prepare)
        self._running[pool.submit(self._call, task)] = task, pool


def _end(pools: Sequence[ProcessPoolExecutor]) -> None:
    for pool in pools:
        for process in list((pool._processes or {}).values()):
            process.terminate()
    for pool in pools:
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_one_line(error: BaseException) -> str:
    """The end of its traceback."""
    return " ".join(traceback.format_exception_only(error)[-1].split())


def _prepare() -> None:
    """In a process of the pool: Ctrl-C is the parent's business, and without a parent there is nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
