"""What is noted along the way of a simulation."""

from __future__ import annotations

from typing import Final

from scheduler.kernels.fgd import fragmentation_in_all
from scheduler.packing.fgd_mix import fgd_tasks
from scheduler.packing.survey import hardware_of
from scheduler.simulate.demand import demand_of
from scheduler.simulate.forms import PodForms
from scheduler.simulate.result import JobOutcome, Result, Sample
from scheduler.simulate.scenario import Scenario
from scheduler.simulate.site import Site

SAMPLES: Final = 200
"""About so many over a run."""
LAST_BUCKET: Final = 130


class Sampler:
    """Notes the state of a run now and then, and the curve of allocation against demand.

    The curve is that of the fragmentation paper: after each arrival the allocation in percent, rounded to 2 digits; for
    each whole percent of arrived demand (rounded half to even) the mean of it.
    """

    def __init__(self, scenario: Scenario, site: Site, result: Result, forms: PodForms) -> None:
        self._site = site
        self._result = result
        self._curved = not scenario.waits and all(job.duration_ms is None for job in scenario.jobs)
        self._every_jobs = max(len(scenario.jobs) // SAMPLES, 1)
        self._every_ms = max(max((job.arrival_ms for job in scenario.jobs), default=0) // SAMPLES, 1)
        self._now_ms = 0
        self._held = 0
        self._arrivals = 0
        self._arrived = 0
        self._wanted = 0
        self._taken_at: int | None = None
        self._sums = [0.0] * (LAST_BUCKET + 1)
        self._counts = [0] * (LAST_BUCKET + 1)
        mix = scenario.mix or demand_of(scenario, forms, site.cluster)
        measured = bool(mix.classes) and result.gpu_capacity_milli > 0
        self._tasks = fgd_tasks(mix, hardware_of(site.cluster.state)) if measured else None

    def arrived(self, outcome: JobOutcome) -> None:
        """A job came."""
        self._arrivals += 1
        self._arrived += outcome.gpu_milli
        self._wanted += 0 if outcome.lost else outcome.gpu_milli
        if self._curved and self._result.gpu_capacity_milli:
            bucket = round(100 * self._arrived / self._result.gpu_capacity_milli)
            if bucket <= LAST_BUCKET:
                share = 100 * self._site.allocated_gpu_milli / self._result.gpu_capacity_milli
                self._sums[bucket] += round(share, 2)
                self._counts[bucket] += 1

    def ended(self, outcome: JobOutcome) -> None:
        """A job is over, or lost after all."""
        self._wanted -= outcome.gpu_milli

    def look(self, now_ms: int) -> None:
        """Takes a sample if it is time. To be called after everything that happens."""
        self._pass(now_ms)
        at = self._arrivals // self._every_jobs if self._curved else now_ms // self._every_ms
        if at != self._taken_at:
            self._taken_at = at
            self._take(now_ms)

    def last(self, now_ms: int) -> None:
        """The run is over."""
        self._pass(now_ms)
        self._take(now_ms)
        if self._curved:
            pairs = zip(self._sums, self._counts, strict=True)
            self._result.curve = [round(total / count, 2) if count else None for total, count in pairs]

    def _pass(self, now_ms: int) -> None:
        """Time goes by with what was allocated until now."""
        self._result.gpu_milli_ms += self._held * (now_ms - self._now_ms)
        self._now_ms, self._held = now_ms, self._site.allocated_gpu_milli

    def _take(self, now_ms: int) -> None:
        fragmented = None
        if self._tasks is not None:
            state = self._site.cluster.state
            fragmented = round(fragmentation_in_all(state.arrays, self._tasks, len(state.inventories)))
        self._result.samples.append(
            Sample(
                now_ms,
                self._arrived,
                self._wanted,
                self._site.allocated_gpu_milli,
                fragmented,
                self._site.usage_by_queue(),
            )
        )
