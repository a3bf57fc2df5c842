"""Random gangs, some of which need fewer pods than they have, in queues with limits and on nodes that fail."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queues.spec import QueueSpec, Terms
from scheduler.object_index import ObjectIndex
from scheduler.simulate.scenario import Job, Scenario
from scheduler.simulate.site import Started, Stopped
from tests.engine.gang_world import KINDS, group
from tests.simulate.naive import wish_of
from tests.simulate.strategies import scenarios
from tests.simulate.test_replay import Watched
from topology import vocabulary

SETTINGS = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LIMIT_MILLI = 3000


@st.composite
def gangs(draw: st.DrawFn) -> tuple[Scenario, dict[str, int]]:
    """A scenario whose jobs are gangs where they have several pods, and how many of its pods each job needs."""
    plain = draw(scenarios(waits=True, most_pods=4))
    needs: dict[str, int] = {}
    jobs, groups = [], []
    for job in plain.jobs:
        queue = {vocabulary.QUEUE.key: draw(st.sampled_from(("free", "limited")))}
        needs[job.name] = len(job.pods)
        if len(job.pods) > 1:
            needs[job.name] = draw(st.integers(1, len(job.pods)))
            groups.append(group(job.name, needs[job.name]))
            queue[vocabulary.POD_GROUP.key] = job.name
        jobs.append(replace(job, pods=tuple(replace(pod, labels=queue) for pod in job.pods)))
    queues = (QueueSpec("free"), QueueSpec("limited", gpu=Terms(limit=LIMIT_MILLI)))
    return replace(plain, jobs=tuple(jobs), queues=queues, objects=ObjectIndex(KINDS, groups)), needs


class Observed(Watched):
    """Follows besides which jobs run, and how much of the limited queue is in use."""

    def __init__(self, given: Scenario, policy: str, needs: dict[str, int]) -> None:
        super().__init__(given, policy)
        self.needs = needs
        self.running: set[str] = set()
        site = self.simulation._site
        settle, end = site.settle, site.end

        def observed(now_ms: int) -> list[Started | Stopped]:
            changes = list(settle(now_ms))
            for change in changes:
                if isinstance(change, Started):
                    assert change.job.name not in self.running, "a job that runs started"
                    assert self.needs[change.job.name] <= len(change.places) <= len(change.job.pods)
                    self.running.add(change.job.name)
                else:
                    self.running.discard(change.job.name)
            self.check()
            return changes

        def ended(job: Job, now_ms: int) -> None:
            self.running.remove(job.name)
            end(job, now_ms)
            assert not any(uid.partition(".")[0] in {pod.uid for pod in job.pods} for uid in self.naive.held)

        def failed(node: str, now_ms: int) -> list[Job]:
            stopped = list(fail(node, now_ms))
            self.running.difference_update(job.name for job in stopped)
            return stopped

        fail = site.fail
        site.settle, site.end, site.fail = observed, ended, failed  # type: ignore[method-assign]

    def check(self) -> None:
        """Whoever holds anything runs, with as many pods as it needs; the limit is kept."""
        held: dict[str, int] = {}
        limited = 0
        pods = {pod.uid: (job.name, pod) for job in self.simulation._scenario.jobs for pod in job.pods}
        for uid in self.naive.held:
            name, pod = pods[uid.partition(".")[0]]
            held[name] = held.get(name, 0) + 1
            wish = wish_of(pod)
            if pod.labels[vocabulary.QUEUE.key] == "limited":
                limited += 1000 * wish.whole + wish.share_milli
        assert held.keys() == self.running
        assert all(count >= self.needs[name] for name, count in held.items())
        assert limited <= LIMIT_MILLI


@pytest.mark.parametrize("policy", ["binpack", "spread", "bestfit", "fgd", "rsv"])
@SETTINGS
@given(data=st.data())
def test_gangs_that_wait(policy: str, data: st.DataObject) -> None:
    scenario, needs = data.draw(gangs())
    result = Observed(scenario, policy, needs).run()
    for one in result.jobs:
        if one.ended_ms is not None:
            assert one.started_ms is not None
            assert one.restarts or one.ended_ms == one.started_ms + (one.duration_ms or 0)
        elif one.started_ms is not None and one.duration_ms is not None:
            assert one.restarts, "a job that runs ends, unless a failure stops it"
