"""Where jobs go in a simulation: the live code behind a small door."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from scheduler.cluster import Cluster
from scheduler.simulate.scenario import Job


class Started(NamedTuple):
    """All pods of a job that its start needs run now. `nodes` are where its pods are, in the order of their names."""

    job: Job
    nodes: tuple[str, ...]


class Site(Protocol):
    """Takes jobs, failures and the passing of time; says who starts."""

    @property
    def cluster(self) -> Cluster:
        """What is taken of the cluster."""
        ...

    @property
    def allocated_gpu_milli(self) -> int:
        """What runs."""
        ...

    def arrive(self, job: Job, now_ms: int) -> bool:
        """A job comes. False when it is lost at once."""
        ...

    def end(self, job: Job, now_ms: int) -> None:
        """A job that runs has done its work."""
        ...

    def fail(self, node: str, now_ms: int) -> Iterable[Job]:
        """A node is gone. Returns the jobs that it stopped; their pods are made anew and wait again, or are lost."""
        ...

    def recover(self, node: str, now_ms: int) -> None:
        """The node is back."""
        ...

    def settle(self, now_ms: int) -> Iterable[Started]:
        """Decides until nothing more follows; returns the jobs that started."""
        ...

    def next_ms(self, now_ms: int) -> int | None:
        """When something is to be decided although nothing happens."""
        ...

    def usage_by_queue(self) -> dict[str, int]:
        """Milli-GPU by queue."""
        ...
