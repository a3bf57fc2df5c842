"""What came of a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler.allocation import DeviceShare

PERCENT_DIGITS = 4


class Place(NamedTuple):
    """Where a pod was."""

    pod: str
    node: str
    devices: tuple[DeviceShare, ...]


class Run(NamedTuple):
    """From when to when a job ran (None: to the end of the simulation), and where its pods were as it started."""

    started_ms: int
    ended_ms: int | None
    places: tuple[Place, ...]


@dataclass(slots=True)
class JobOutcome:
    """What became of a job. Times are virtual milliseconds, None for what did not happen.

    `gpu_milli` and `devices` are what all its pods ask for; `restarts` counts how often a failure or an eviction
    stopped it. `runs` are all its runs, those that were stopped among them.
    """

    name: str
    queue: str
    pods: int
    devices: int
    gpu_milli: int
    arrival_ms: int
    duration_ms: int | None
    counted: bool = True
    started_ms: int | None = None
    ended_ms: int | None = None
    lost: bool = False
    restarts: int = 0
    runs: list[Run] = field(default_factory=list)
    reason: str = ""
    """Why it does not run at the end of the simulation: the code of a reason."""

    def runs_no_more(self, now_ms: int) -> None:
        """It ended, or was stopped, if it ran."""
        if self.runs and self.runs[-1].ended_ms is None:
            self.runs[-1] = self.runs[-1]._replace(ended_ms=now_ms)

    @property
    def work(self) -> int:
        """Milli-GPU times milliseconds; of jobs that run for ever their milli-GPU."""
        return self.gpu_milli * (1 if self.duration_ms is None else self.duration_ms)


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment: milli-GPU that came so far and is there (running or waiting) or was lost, that is allocated, and that
    is free and of no use to the demand there is on average (None: not measured).
    """

    at_ms: int
    arrived_gpu_milli: int
    wanted_gpu_milli: int
    allocated_gpu_milli: int
    fragmented_gpu_milli: int | None
    by_queue_gpu_milli: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Result:
    """What came of one run. `gpu_milli_ms` is what was allocated over time, in milli-GPU times ms; `places` are the
    nodes of the first pods that were placed.
    """

    scenario: str
    policy: str
    seed: int
    nodes: int
    gpu_capacity_milli: int
    allocated_gpu_milli: int = 0
    gpu_milli_ms: int = 0
    end_ms: int = 0
    candidates: int | None = None
    jobs: list[JobOutcome] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    curve: list[float | None] = field(default_factory=list)

    @property
    def end_gpu_allocation_percent(self) -> float:
        """What of all devices is allocated at the end."""
        return percent(self.allocated_gpu_milli, self.gpu_capacity_milli)

    @property
    def gpu_allocation_percent(self) -> float:
        """The same by the published measure where there is a curve: its last point, a mean over the last arrivals."""
        known = [value for value in self.curve if value is not None]
        return known[-1] if known else self.end_gpu_allocation_percent

    @property
    def mean_gpu_allocation_percent(self) -> float:
        """What of all devices was allocated, in the mean over the time until the last thing happened."""
        return percent(self.gpu_milli_ms, self.gpu_capacity_milli * self.end_ms)

    def served_percent(self, devices: int | None = None) -> float | None:
        """The part of the work that came which was served, of jobs with so many devices (None: all); None of none."""
        jobs = [job for job in self.jobs if job.counted and (devices is None or job.devices == devices)]
        work = sum(job.work for job in jobs)
        served = sum(job.work for job in jobs if job.started_ms is not None and not job.lost)
        return percent(served, work) if work else None

    def waits_ms(self) -> dict[str, list[int]]:
        """How long counted jobs waited that started, by their size in devices."""
        found: dict[str, list[int]] = {}
        for job in self.jobs:
            if job.counted and job.started_ms is not None:
                found.setdefault(size_of(job), []).append(job.started_ms - job.arrival_ms)
        return found

    def to_dict(self, *, jobs: bool = False, series: bool = True) -> dict[str, Any]:
        """The result as JSON has it; `jobs` adds every job, `series` the samples."""
        document: dict[str, Any] = {
            "scenario": self.scenario,
            "policy": self.policy,
            "seed": self.seed,
            "candidates": self.candidates,
            "nodes": self.nodes,
            "gpuCapacityMilli": self.gpu_capacity_milli,
            "gpuAllocatedMilli": self.allocated_gpu_milli,
            "gpuAllocationPercent": self.gpu_allocation_percent,
            "endGpuAllocationPercent": self.end_gpu_allocation_percent,
            "meanGpuAllocationPercent": self.mean_gpu_allocation_percent,
            "endMs": self.end_ms,
            "arrivals": sum(job.pods for job in self.jobs),
            "refused": sum(job.pods for job in self.jobs if job.lost),
            "gpuDemandMilli": sum(job.gpu_milli for job in self.jobs),
            "servedPercent": self.served_percent(),
            "servedEightGpuPercent": self.served_percent(8),
            "restarts": sum(job.restarts for job in self.jobs),
            "waiting": dict(sorted(Counter(job.reason for job in self.jobs if job.reason).items())),
            "waitsMs": {size: _summary(waits) for size, waits in sorted(self.waits_ms().items())},
            "firstPlaces": self.places,
        }
        if self.curve:
            document["curve"] = self.curve
        if series:
            document["series"] = [_sample(sample) for sample in self.samples]
        if jobs:
            document["jobs"] = [_job(job) for job in self.jobs]
        return document


def percent(part: int, whole: int) -> float:
    """A part in percent, 0 of nothing."""
    return round(100 * part / whole, PERCENT_DIGITS) if whole else 0.0


def size_of(job: JobOutcome) -> str:
    """The size class of a job, in words that sort by size."""
    if job.gpu_milli == 0:
        return "0 cpu"
    if job.gpu_milli < 1000:
        return "1 share"
    if job.devices == 1:
        return "2 one GPU"
    if job.devices < 8:
        return "3 up to 7 GPUs"
    return "4 up to 15 GPUs" if job.devices < 16 else "5 16 GPUs and more"


def quantile(values: Iterable[int], part: float) -> int:
    """The value below which that part of the values lies, 0 of none."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0


def _summary(waits: list[int]) -> dict[str, int | float]:
    return {
        "jobs": len(waits),
        "mean": round(sum(waits) / len(waits), 1),
        "p50": quantile(waits, 0.5),
        "p95": quantile(waits, 0.95),
        "max": max(waits),
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "atMs": sample.at_ms,
        "arrivedGpuMilli": sample.arrived_gpu_milli,
        "wantedGpuMilli": sample.wanted_gpu_milli,
        "allocatedGpuMilli": sample.allocated_gpu_milli,
        "fragmentedGpuMilli": sample.fragmented_gpu_milli,
        "byQueueGpuMilli": dict(sample.by_queue_gpu_milli),
    }


def _job(job: JobOutcome) -> dict[str, Any]:
    return {
        "name": job.name,
        "queue": job.queue,
        "pods": job.pods,
        "devices": job.devices,
        "gpuMilli": job.gpu_milli,
        "arrivalMs": job.arrival_ms,
        "durationMs": job.duration_ms,
        "startedMs": job.started_ms,
        "endedMs": job.ended_ms,
        "lost": job.lost,
        "restarts": job.restarts,
        "places": [_place(place) for place in job.runs[-1].places] if job.runs else [],
        "reason": job.reason or None,
    }


def _place(place: Place) -> dict[str, Any]:
    devices = [{"index": share.index, "milli": share.milli} for share in place.devices]
    return {"pod": place.pod, "node": place.node, "devices": devices}
