"""A simulation: events in virtual time, until nothing is left to happen."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from scheduler.policy import Policy
from scheduler.request import RequestError, parse_request
from scheduler.simulate.loss_site import LossSite, gpu_milli_of
from scheduler.simulate.result import JobOutcome, Result
from scheduler.simulate.sampling import Sampler
from scheduler.simulate.scenario import Job, Outage, Scenario
from scheduler.simulate.site import Site
from scheduler.simulate.waiting_site import WaitingSite
from topology import vocabulary

FIRST_PLACES: Final = 8
Progress = Callable[[int], None]


class _Kind(IntEnum):
    """What happens, in the order of events of one time."""

    END = 0
    RECOVERY = 1
    FAILURE = 2
    ARRIVAL = 3
    DEADLINE = 4


class _Event(NamedTuple):
    at_ms: int
    kind: _Kind
    number: int
    what: Job | Outage | None
    generation: int = 0


class Simulation:
    """One run of a scenario under a policy."""

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        policy_name: str,
        *,
        candidates: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """`candidates`: see `LossSite`. `progress` is told how many jobs have come, now and then."""
        self._scenario = scenario
        self._site: Site = WaitingSite(scenario, policy) if scenario.waits else LossSite(scenario, policy, candidates)
        self._progress = progress
        self._outcomes = {job.name: outcome_of(job, scenario) for job in scenario.jobs}
        self._generation: dict[str, int] = {}
        self._events: list[_Event] = []
        self._number = 0
        self._deadline_ms: int | None = None
        resources = scenario.inventory.device_resources
        capacity = sum(facts.allocatable.get(name, 0) for facts in scenario.nodes for name in resources)
        self.result = Result(
            scenario.name, policy_name, scenario.seed, len(scenario.nodes), 1000 * capacity, candidates=candidates
        )
        self._sampler = Sampler(scenario, self._site, self.result)

    def run(self) -> Result:
        """Runs to the end; to be called once."""
        for job in self._scenario.jobs:
            self._push(job.arrival_ms, _Kind.ARRIVAL, job)
        for outage in self._scenario.outages:
            self._push(outage.begin_ms, _Kind.FAILURE, outage)
            if outage.end_ms is not None:
                self._push(outage.end_ms, _Kind.RECOVERY, outage)
        heapq.heapify(self._events)
        arrived = 0
        now_ms = 0
        while self._events:
            event = heapq.heappop(self._events)
            if event.kind is _Kind.DEADLINE and event.at_ms != self._deadline_ms:
                continue
            now_ms = event.at_ms
            arrived += event.kind is _Kind.ARRIVAL
            self._happens(event)
            # what comes at one time is decided together, but for lost jobs, each of which decides by itself
            if self._scenario.waits and self._events and self._events[0].at_ms == now_ms:
                continue
            self._settle(now_ms)
            if self._progress is not None and event.kind is _Kind.ARRIVAL:
                self._progress(arrived)
        self._sampler.last(now_ms)
        self.result.end_ms = now_ms
        self.result.allocated_gpu_milli = self._site.allocated_gpu_milli
        self.result.jobs = list(self._outcomes.values())
        return self.result

    def _push(self, at_ms: int, kind: _Kind, what: Job | Outage | None, generation: int = 0) -> None:
        self._number += 1
        event = _Event(at_ms, kind, self._number, what, generation)
        if self._number <= len(self._scenario.jobs) + 2 * len(self._scenario.outages) and kind is not _Kind.END:
            self._events.append(event)
        else:
            heapq.heappush(self._events, event)

    def _happens(self, event: _Event) -> None:
        what, now_ms = event.what, event.at_ms
        if isinstance(what, Job):
            outcome = self._outcomes[what.name]
            if event.kind is _Kind.ARRIVAL:
                outcome.lost = not self._site.arrive(what, now_ms)
                self._sampler.arrived(outcome)
            elif event.generation == self._generation.get(what.name, 0):
                self._site.end(what, now_ms)
                outcome.ended_ms = now_ms
                self._sampler.ended(outcome)
        elif isinstance(what, Outage):
            if event.kind is _Kind.RECOVERY:
                self._site.recover(what.node, now_ms)
            else:
                self._stopped(self._site.fail(what.node, now_ms))

    def _stopped(self, jobs: Iterable[Job]) -> None:
        """A failure stopped these: what they did is lost, and they begin anew or are lost themselves."""
        for job in jobs:
            outcome = self._outcomes[job.name]
            self._generation[job.name] = self._generation.get(job.name, 0) + 1
            outcome.restarts += 1
            outcome.lost = not self._scenario.waits
            if outcome.lost:
                self._sampler.ended(outcome)

    def _settle(self, now_ms: int) -> None:
        for started in self._site.settle(now_ms):
            outcome = self._outcomes[started.job.name]
            if outcome.started_ms is None:
                outcome.started_ms = now_ms
            if len(self.result.places) < FIRST_PLACES:
                self.result.places.extend(started.nodes)
            if started.job.duration_ms is not None:
                generation = self._generation.get(started.job.name, 0)
                self._push(now_ms + started.job.duration_ms, _Kind.END, started.job, generation)
        self._sampler.look(now_ms)
        next_ms = self._site.next_ms(now_ms)
        if next_ms is not None and next_ms != self._deadline_ms and self._waits_for_more():
            self._deadline_ms = max(next_ms, now_ms + 1)
            self._push(self._deadline_ms, _Kind.DEADLINE, None)

    def _waits_for_more(self) -> bool:
        """Whether anything is left that may change what waits; else deadlines would go on for ever."""
        return any(event.kind is not _Kind.DEADLINE for event in self._events)


def outcome_of(job: Job, scenario: Scenario) -> JobOutcome:
    """The outcome of a job to which nothing has happened. A pod that makes no sense counts as one that asks nothing."""
    devices = gpu_milli = 0
    for pod in job.pods:
        try:
            request = parse_request(pod, scenario.inventory.device_resources)
        except RequestError:
            continue
        devices += request.device_count
        gpu_milli += gpu_milli_of(request)
    return JobOutcome(
        job.name,
        next((job.pods[0].labels[key] for key in vocabulary.QUEUE.spellings if key in job.pods[0].labels), ""),
        len(job.pods),
        devices,
        gpu_milli,
        job.arrival_ms,
        job.duration_ms,
        counted=job.arrival_ms >= scenario.counted_from_ms,
    )
