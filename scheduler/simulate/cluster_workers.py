"""Workers that are a Dask or a Ray cluster. Tangram is installed there too, in the same version, with its traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, Final

from scheduler.simulate.task import SweepError, Task
from scheduler.simulate.workers import Call, Done, LocalWorkers, Workers, in_one_line

DASK_SCHEMES: Final = ("tcp", "tls", "ws", "wss", "ucx")
DASK_PATIENCE: Final = "20s"
"""So long a Dask scheduler may take to answer."""


def workers_at(cluster: str | None = None, processes: int | None = None) -> Workers:
    """Those of a cluster, else processes of this machine (all cores). Nothing is connected yet. Raises SweepError.

    `cluster`: `tcp://HOST:PORT` of a Dask scheduler, `ray://HOST:PORT` of a Ray cluster's door for clients, or
    `ray:HOST:PORT` (`ray:auto`) on one of its nodes.
    """
    if cluster is None:
        return LocalWorkers(processes)
    if processes is not None:
        raise SweepError("the number of workers is a cluster's own: give it only without a cluster")
    if cluster.startswith("ray://"):
        return RayWorkers(cluster)
    if cluster.startswith("ray:"):
        return RayWorkers(cluster.removeprefix("ray:"))
    scheme, _, rest = cluster.partition("://")
    if scheme in DASK_SCHEMES and rest:
        return DaskWorkers(cluster)
    raise SweepError(f'"{cluster}" is no cluster: tcp://HOST:PORT (Dask), ray://HOST:PORT or ray:HOST:PORT (Ray) are')


class DaskWorkers:
    """The workers of a Dask scheduler."""

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError:
            raise SweepError(_missing("Dask", "dask")) from None
        self._dask: Any = distributed
        self._address = address
        self._client: Any = None
        self._tasks: dict[Any, Task] = {}

    def submit(self, call: Call, tasks: Sequence[Task]) -> None:
        """See `Workers.submit`. Raises SweepError where nobody answers."""
        try:
            self._client = self._dask.Client(self._address, timeout=DASK_PATIENCE, set_as_default=False)
        except (OSError, ValueError) as err:
            raise SweepError(f"no Dask scheduler answers at {self._address}: {err}") from None
        futures = self._client.map(call, tasks, pure=False, key="tangram")
        self._tasks = dict(zip(futures, tasks, strict=True))

    def finished(self) -> Iterator[Done]:
        """See `Workers.finished`."""
        for future in self._dask.as_completed(list(self._tasks), loop=self._client.loop):
            task = self._tasks.pop(future)
            try:
                result = future.result()
            except (Exception, CancelledError) as err:
                yield Done(task, None, in_one_line(err))
            else:
                yield Done(task, result)
            future.release()

    def close(self) -> None:
        """See `Workers.close`. The cluster stays."""
        client, self._client = self._client, None
        if client is not None:
            if self._tasks and client.status == "running":
                client.cancel(list(self._tasks))
            self._tasks.clear()
            client.close()


class RayWorkers:
    """The workers of a Ray cluster."""

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError:
            raise SweepError(_missing("Ray", "ray")) from None
        self._ray: Any = ray
        self._address = address
        self._tasks: dict[Any, Task] = {}

    def submit(self, call: Call, tasks: Sequence[Task]) -> None:
        """See `Workers.submit`. Raises SweepError where nobody answers."""
        try:
            self._ray.init(address=self._address, log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError, self._ray.exceptions.RayError) as err:
            raise SweepError(f"no Ray cluster answers at {self._address}: {err}") from None
        remote = self._ray.remote(_apply)
        shared = self._ray.put(call)
        self._tasks = {remote.remote(shared, task): task for task in tasks}

    def finished(self) -> Iterator[Done]:
        """See `Workers.finished`."""
        while self._tasks:
            (over, *_), _ = self._ray.wait(list(self._tasks))
            task = self._tasks.pop(over)
            try:
                result = self._ray.get(over)
            except Exception as err:
                cause = getattr(err, "cause", None)  # what was raised there; the error itself has the text of both
                yield Done(task, None, in_one_line(cause if isinstance(cause, BaseException) else err))
            else:
                yield Done(task, result)

    def close(self) -> None:
        """See `Workers.close`. The cluster stays."""
        if self._ray.is_initialized():
            for reference in self._tasks:
                self._ray.cancel(reference, force=True)
            self._tasks.clear()
            self._ray.shutdown()


def _apply(call: Call, task: Task) -> dict[str, Any]:
    return call(task)


def _missing(what: str, extra: str) -> str:
    return f"{what} is not installed: pip install 'tangram-scheduler[{extra}]'"
