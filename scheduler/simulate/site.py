"""Where jobs go in a simulation: the live code behind a small door."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from scheduler.cluster import Cluster
from scheduler.simulate.result import Place
from scheduler.simulate.scenario import Job


class Started(NamedTuple):
    """All pods of a job run now, or of a gang as many as it needs. `places` are theirs, in the order of its pods."""

    job: Job
    places: tuple[Place, ...]


class Stopped(NamedTuple):
    """A job that ran was evicted; its pods are made anew and wait again."""

    job: Job


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

    def settle(self, now_ms: int) -> Iterable[Started | Stopped]:
        """Decides until nothing more follows; returns what became of jobs, in order."""
        ...

    def next_ms(self, now_ms: int) -> int | None:
        """When something is to be decided although nothing happens."""
        ...

    def reasons(self, now_ms: int) -> dict[str, str]:
        """Why jobs wait that do not run: job → code of the reason, empty where nothing is in the way any more."""
        ...

    def usage_by_queue(self) -> dict[str, int]:
        """Milli-GPU by queue."""
        ...
