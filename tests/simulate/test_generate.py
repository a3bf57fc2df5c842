"""Made-up scenarios: as much as was described, the same for the same seed, and refusals that say what to change."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from queues.spec import QueueSpec, Terms
from scheduler.simulate.generate import Description, Failures, QueueShape, generate
from scheduler.simulate.making import JobShape, NodeShape
from scheduler.simulate.result import Result
from scheduler.simulate.scenario import Job, Scenario, ScenarioError
from tests.simulate.builders import simulate
from topology import vocabulary

HOUR_MS = 3_600_000
GIB = 1 << 30
NODES = (NodeShape(4, 8, 96_000, 768 * GIB), NodeShape(1, 0, 32_000, 64 * GIB))
PLAIN = JobShape(2, 1, 0, 0, 2000, GIB, HOUR_MS)
SHARE = JobShape(4, 1, 1, 250, 2000, GIB, HOUR_MS)
FOUR = JobShape(3, 1, 4, 1000, 16_000, 64 * GIB, 2 * HOUR_MS)
WIDE = JobShape(1, 2, 8, 1000, 64_000, 256 * GIB, 3 * HOUR_MS)
DESCRIBED = Description(NODES, (PLAIN, SHARE, FOUR, WIDE), load_percent=80, span_ms=2000 * HOUR_MS)


def work(job: Job) -> int:
    """Milli-GPU times milliseconds."""
    milli = 0
    for pod in job.pods:
        milli += 1000 * pod.containers[0].limits.get("nvidia.com/gpu", 0)
        milli += round(1000 * float(pod.annotations.get("gpu-fraction", 0)))
    return milli * (job.duration_ms or 0)


def test_so_much_is_asked_for_as_was_described() -> None:
    scenario = generate(DESCRIBED, 1)
    offered = sum(map(work, scenario.jobs))
    assert offered == pytest.approx(0.8 * 32_000 * DESCRIBED.span_ms, rel=0.05)
    assert scenario.waits
    assert [job.arrival_ms for job in scenario.jobs] == sorted(job.arrival_ms for job in scenario.jobs)
    assert scenario.jobs[-1].arrival_ms < DESCRIBED.span_ms


def test_times_are_lognormal_where_that_is_described() -> None:
    """The load is the same; half of the jobs run for less than exp(-sigma² / 2) of the mean."""
    scenario = generate(replace(DESCRIBED, sigma_percent=100), 1)
    assert sum(map(work, scenario.jobs)) == pytest.approx(0.8 * 32_000 * DESCRIBED.span_ms, rel=0.05)
    four = sorted(job.duration_ms or 0 for job in scenario.jobs if job.pods[0].containers[0].requests["cpu"] == 16_000)
    assert four[len(four) // 2] == pytest.approx(2 * HOUR_MS * math.exp(-0.5), rel=0.05)
    same = generate(replace(DESCRIBED, jobs=(FOUR,), sigma_percent=0), 1)
    assert {job.duration_ms for job in same.jobs} == {2 * HOUR_MS}


def test_sizes_come_by_their_weights() -> None:
    counts = Counter(len(job.pods) for job in generate(DESCRIBED, 1).jobs)
    assert counts[2] / counts.total() == pytest.approx(0.1, abs=0.01)


def test_nodes_are_as_described() -> None:
    gpus = [facts.allocatable.get("nvidia.com/gpu", 0) for facts in generate(DESCRIBED, 1).nodes]
    assert gpus == [8, 8, 8, 8, 0]


def test_everything_follows_from_the_seed() -> None:
    described = replace(DESCRIBED, span_ms=50 * HOUR_MS, gang_percent=50, failures=Failures(20 * HOUR_MS, HOUR_MS))
    one, other = generate(described, 3), generate(described, 3)
    assert replace(one, objects=other.objects) == other
    assert one.jobs != generate(described, 4).jobs


def test_jobs_of_several_pods_are_gangs() -> None:
    scenario = generate(replace(DESCRIBED, span_ms=50 * HOUR_MS), 1)
    wide = next(job for job in scenario.jobs if len(job.pods) == 2)
    facts = scenario.objects.named(vocabulary.API_GROUP, "PodGroup", "simulated", wide.name)
    assert facts is not None
    assert facts.spec == {"minMember": 2}
    assert {pod.labels[vocabulary.POD_GROUP.key] for pod in wide.pods} == {wide.name}


def test_a_part_of_the_larger_jobs_is_split_into_gangs() -> None:
    scenario = generate(replace(DESCRIBED, gang_percent=25), 1)
    counts = Counter(len(job.pods) for job in scenario.jobs)
    whole = sum(job.pods[0].containers[0].limits.get("nvidia.com/gpu") == 4 for job in scenario.jobs)
    assert counts[4] / (counts[4] + whole) == pytest.approx(0.25, abs=0.03)
    split = next(job for job in scenario.jobs if len(job.pods) == 4)
    assert split.pods[0].containers[0].requests == {"cpu": 4000, "memory": 16 * GIB, "nvidia.com/gpu": 1}


def test_queues_get_their_parts() -> None:
    scenario = generate(replace(DESCRIBED, queues=(QueueShape("a", 3, 16_000), QueueShape("b", 1))), 1)
    owners = Counter(job.pods[0].labels[vocabulary.QUEUE.key] for job in scenario.jobs)
    assert owners["a"] / owners.total() == pytest.approx(0.75, abs=0.02)
    assert scenario.queues == (QueueSpec("a", gpu=Terms(quota=16_000)), QueueSpec("b"))


def test_nodes_fail_about_as_often_as_described() -> None:
    outages = generate(replace(DESCRIBED, failures=Failures(90 * HOUR_MS, 10 * HOUR_MS)), 1).outages
    assert len(outages) == pytest.approx(5 * 2000 / 100, rel=0.25)
    gone = sum(outage.end_ms - outage.begin_ms for outage in outages if outage.end_ms is not None)
    assert gone / len(outages) == pytest.approx(10 * HOUR_MS, rel=0.3)


def run(described: Description) -> tuple[Scenario, Result]:
    scenario = generate(described, 5)
    return scenario, simulate(scenario, "rsv")


def test_a_cluster_with_everything_is_worked_off() -> None:
    """Queues, gangs and failures together, and more than there is: in the end all that came has run."""
    described = Description(
        NODES, (PLAIN, SHARE, FOUR, WIDE), 130, 12 * HOUR_MS,
        queues=(QueueShape("a", 3, 16_000), QueueShape("b", 1, 16_000)),
        gang_percent=50, failures=Failures(10 * HOUR_MS, HOUR_MS),
    )  # fmt: skip
    scenario, result = run(described)
    assert scenario.outages
    assert any(one.restarts for one in result.jobs)
    assert all(one.ended_ms is not None and not one.lost for one in result.jobs)
    assert result.allocated_gpu_milli == 0
    assert max(sample.allocated_gpu_milli for sample in result.samples) <= 32_000


def test_jobs_may_be_lost_instead() -> None:
    _, result = run(replace(DESCRIBED, load_percent=200, span_ms=50 * HOUR_MS, waits=False))
    assert any(one.lost for one in result.jobs)
    assert all(one.lost or one.started_ms == one.arrival_ms for one in result.jobs)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"nodes": ()}, "no nodes"),
        ({"nodes": (NodeShape(2, 0, 1000, GIB),)}, "nodes with GPUs"),
        ({"jobs": (PLAIN,)}, "jobs that ask for some"),
        ({"jobs": ()}, "weights"),
        ({"jobs": (SHARE._replace(weight=-1), FOUR)}, "weights"),
        ({"load_percent": 0}, "load"),
        ({"span_ms": 10**15}, "make the span shorter"),
        ({"gang_percent": 101}, "from 0 to 100"),
        ({"sigma_percent": 301}, "from 0 to 300"),
        ({"nodes": (*NODES, NodeShape(-1, 8, 1000, GIB))}, "of nodes are 0 or more"),
        ({"jobs": (FOUR._replace(pods=0),)}, "one pod or more"),
        ({"jobs": (FOUR._replace(mean_ms=0),)}, "1 ms or more"),
        ({"jobs": (FOUR._replace(cpu_milli=-1),)}, "of jobs are 0 or more"),
        ({"jobs": (SHARE._replace(milli=1500),)}, "1500 milli of a device: it is from 1 to 1000"),
        ({"jobs": (FOUR._replace(devices=9),)}, "no node holds a pod of 9 devices"),
        ({"jobs": (FOUR, PLAIN._replace(memory_bytes=800 * GIB))}, "no node holds a pod of 0 devices"),
        ({"queues": (QueueShape("a", 0),)}, "part of a queue"),
        ({"failures": Failures(0, 1)}, "between failures"),
    ],
)
def test_what_makes_no_sense(change: dict[str, object], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        generate(replace(DESCRIBED, **change), 1)  # type: ignore[arg-type]
