"""Workers elsewhere: a Dask or a Ray cluster that is there already. Both are extras, loaded only when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from scheduler.simulate.sweep import SweepError, Task, Workers, attempt

RAY: Final = "ray://"
DASK: Final = ("tcp://", "tls://", "ucx://")


def cluster_at(address: str) -> Workers:
    """The cluster behind an address. Raises SweepError for one that makes no sense or whose library is not there."""
    if address.startswith(RAY):
        return RayCluster(address)
    if address.startswith(DASK):
        return DaskCluster(address)
    raise SweepError(
        f'"{address}" is no address of a cluster: tcp://HOST:PORT is a Dask scheduler, ray://HOST:PORT is Ray'
    )


class DaskCluster:
    """A Dask scheduler and its workers. The same Tangram has to be there, and the traces under the same path."""

    def __init__(self, address: str) -> None:
        """Raises SweepError."""
        self._address = address
        self._library = _imported("distributed", "dask")

    def results(self, tasks: Iterable[Task], folder: Path) -> Iterator[tuple[Task, dict[str, Any] | str]]:
        """See `Workers.results`. Raises SweepError when nobody answers."""
        try:
            client = self._library.Client(self._address, timeout="15s", set_as_default=False)
        except (OSError, TimeoutError) as err:
            raise SweepError(f"no Dask scheduler answers at {self._address}: {err}") from None
        with client:
            futures = {client.submit(attempt, task, folder, pure=False): task for task in tasks}
            for future in self._library.as_completed(futures):
                trouble = future.exception()
                yield futures[future], future.result() if trouble is None else f"{type(trouble).__name__}: {trouble}"


class RayCluster:
    """A Ray cluster, reached through its client port. The same holds as for Dask."""

    def __init__(self, address: str) -> None:
        """Raises SweepError."""
        self._address = address
        self._library = _imported("ray", "ray")

    def results(self, tasks: Iterable[Task], folder: Path) -> Iterator[tuple[Task, dict[str, Any] | str]]:
        """See `Workers.results`. Raises SweepError when nobody answers."""
        ray = self._library
        try:
            ray.init(self._address, log_to_driver=False)
        except (ConnectionError, TimeoutError) as err:
            raise SweepError(f"no Ray cluster answers at {self._address}: {err}") from None
        try:
            remote = ray.remote(num_cpus=1)(attempt)
            left = {remote.remote(task, folder): task for task in tasks}
            while left:
                done, _ = ray.wait(list(left))
                for reference in done:
                    task = left.pop(reference)
                    try:
                        yield task, ray.get(reference)
                    except ray.exceptions.RayError as err:
                        yield task, f"{type(err).__name__}: {str(err).splitlines()[0]}"
        finally:
            ray.shutdown()


def _imported(library: str, extra: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        raise SweepError(
            f"{library} is not installed here: pip install 'tangram-scheduler[{extra}]' brings it"
        ) from None
