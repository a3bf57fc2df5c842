"""A simulation: events in virtual time, until nothing is left to happen."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

from scheduler.policy import Policy
from scheduler.simulate.forms import PodForms
from scheduler.simulate.loss_site import LossSite
from scheduler.simulate.result import JobOutcome, Result, Run
from scheduler.simulate.sampling import Sampler
from scheduler.simulate.scenario import Job, Outage, Scenario
from scheduler.simulate.site import Site, Started
from scheduler.simulate.waiting_site import WaitingSite
from topology import vocabulary

FIRST_PLACES: Final = 8
PATIENCE_MS: Final = 3_600_000
"""When nothing will happen any more, decisions are still made for so long: waits, graces and retries come to an end."""
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
        forms = PodForms(scenario.inventory.device_resources)
        self._site: Site = (
            WaitingSite(scenario, policy) if scenario.waits else LossSite(scenario, policy, candidates, forms)
        )
        self._progress = progress
        self._outcomes = {job.name: outcome_of(job, scenario, forms) for job in scenario.jobs}
        self._generation: dict[str, int] = {}
        self._events: list[_Event] = []
        self._number = 0
        self._arrived = 0
        self._deadline_ms: int | None = None
        self._last_ms = 0
        """When anything happened last: to jobs or to nodes."""
        resources = scenario.inventory.device_resources
        capacity = sum(facts.allocatable.get(name, 0) for facts in scenario.nodes for name in resources)
        self.result = Result(
            scenario.name, policy_name, scenario.seed, len(scenario.nodes), 1000 * capacity, candidates=candidates
        )
        self._sampler = Sampler(scenario, self._site, self.result, forms)

    def run(self) -> Result:
        """Runs to the end; to be called once."""
        for job in self._scenario.jobs:
            self._push(job.arrival_ms, _Kind.ARRIVAL, job)
        for outage in self._scenario.outages:
            self._push(outage.begin_ms, _Kind.FAILURE, outage)
            if outage.end_ms is not None:
                self._push(outage.end_ms, _Kind.RECOVERY, outage)
        now_ms = 0
        while self._events:
            now_ms = self._events[0].at_ms
            self._pass(now_ms)
        self._sampler.last(self._last_ms)
        self.result.end_ms = self._last_ms
        self.result.allocated_gpu_milli = self._site.allocated_gpu_milli
        for name, reason in self._site.reasons(now_ms).items():
            self._outcomes[name].reason = reason
        self.result.jobs = list(self._outcomes.values())
        return self.result

    def _push(self, at_ms: int, kind: _Kind, what: Job | Outage | None = None, generation: int = 0) -> None:
        self._number += 1
        heapq.heappush(self._events, _Event(at_ms, kind, self._number, what, generation))

    def _pass(self, now_ms: int) -> None:
        """All that happens at one moment. It is decided together, but for lost jobs: each of them decides by itself."""
        decides = False
        while self._events and self._events[0].at_ms == now_ms:
            event = heapq.heappop(self._events)
            if not self._is_due(event):
                continue
            if event.kind is not _Kind.DEADLINE:
                self._last_ms = now_ms
                self._happens(event)
            decides = self._scenario.waits
            if not decides:
                self._settle(now_ms)
        if decides:
            self._settle(now_ms)

    def _is_due(self, event: _Event) -> bool:
        """Whether the event still means something: a job may have been stopped since, a deadline moved."""
        if event.kind is _Kind.DEADLINE:
            return event.at_ms == self._deadline_ms
        return not isinstance(event.what, Job) or event.generation == self._generation.get(event.what.name, 0)

    def _happens(self, event: _Event) -> None:
        what, now_ms = event.what, event.at_ms
        if isinstance(what, Job):
            outcome = self._outcomes[what.name]
            if event.kind is _Kind.ARRIVAL:
                outcome.lost = not self._site.arrive(what, now_ms)
                self._sampler.arrived(outcome)
                self._arrived += 1
                if self._progress is not None:
                    self._progress(self._arrived)
            else:
                self._site.end(what, now_ms)
                outcome.ended_ms = now_ms
                outcome.runs_no_more(now_ms)
                self._sampler.ended(outcome)
        elif isinstance(what, Outage):
            if event.kind is _Kind.RECOVERY:
                self._site.recover(what.node, now_ms)
            else:
                for job in self._site.fail(what.node, now_ms):
                    self._stopped(job, now_ms)

    def _stopped(self, job: Job, now_ms: int) -> None:
        """What the job did is lost: it begins anew, or is lost itself."""
        outcome = self._outcomes[job.name]
        outcome.runs_no_more(now_ms)
        self._generation[job.name] = self._generation.get(job.name, 0) + 1
        outcome.restarts += 1
        outcome.lost = not self._scenario.waits
        if outcome.lost:
            self._sampler.ended(outcome)

    def _settle(self, now_ms: int) -> None:
        for change in self._site.settle(now_ms):
            self._last_ms = now_ms
            if isinstance(change, Started):
                self._started(change, now_ms)
            else:
                self._stopped(change.job, now_ms)
        if self._last_ms == now_ms:
            self._sampler.look(now_ms)
        self._wait_for(self._site.next_ms(now_ms), now_ms)

    def _started(self, started: Started, now_ms: int) -> None:
        job, outcome = started.job, self._outcomes[started.job.name]
        if outcome.started_ms is None:
            outcome.started_ms = now_ms
        if len(self.result.places) < FIRST_PLACES:
            self.result.places.extend(place.node for place in started.places)
        outcome.runs.append(Run(now_ms, None, started.places))
        if job.duration_ms is not None:
            self._push(now_ms + job.duration_ms, _Kind.END, job, self._generation.get(job.name, 0))

    def _wait_for(self, due_ms: int | None, now_ms: int) -> None:
        """Sees to it that there is a decision at that time. What waits for nothing but time may do so for a while."""
        if due_ms is None or (not self._events and due_ms > self._last_ms + PATIENCE_MS):
            self._deadline_ms = None
            return
        due_ms = max(due_ms, now_ms + 1)
        if due_ms != self._deadline_ms:
            self._deadline_ms = due_ms
            self._push(due_ms, _Kind.DEADLINE)


def outcome_of(job: Job, scenario: Scenario, forms: PodForms) -> JobOutcome:
    """The outcome of a job to which nothing has happened. A pod that makes no sense counts as one that asks nothing."""
    found = [forms.of(pod) for pod in job.pods]
    return JobOutcome(
        job.name,
        next((job.pods[0].labels[key] for key in vocabulary.QUEUE.spellings if key in job.pods[0].labels), ""),
        len(job.pods),
        sum(form.devices for form in found),
        sum(form.gpu_milli for form in found),
        job.arrival_ms,
        job.duration_ms,
        counted=job.arrival_ms >= scenario.counted_from_ms,
    )
