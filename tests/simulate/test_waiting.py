"""Jobs that wait: who starts when, worked out by hand, with queues, gangs and nodes that fail."""

from __future__ import annotations

from typing import Any

import pytest

from queues.spec import QueueSpec, Terms
from scheduler.instruction import Instruction
from scheduler.object_index import ObjectIndex
from scheduler.packing.named import policy_named
from scheduler.pod import PodAffinityTerm, PodFacts
from scheduler.simulate.run import Simulation
from scheduler.simulate.scenario import Job, Outage, Scenario
from scheduler.simulate.waiting_site import WaitingSite
from tests.engine.gang_world import KINDS, group, members
from tests.simulate.builders import job, node, outcome, outcomes, pod, scenario, share, simulate
from topology import vocabulary
from topology.selector import Requirement

QUEUE = vocabulary.QUEUE.key


def queued(name: str, queue: str, **other: object) -> PodFacts:
    return pod(name, labels={QUEUE: queue}, **other)  # type: ignore[arg-type]


def alone(name: str) -> PodFacts:
    """A pod that bears no other of its kind on its node."""
    apart = PodAffinityTerm("kubernetes.io/hostname", (Requirement("kind", "In", ("alone",)),), ("default",))
    return pod(name, whole=1, labels={"kind": "alone"}, pod_anti_affinity=(apart,))


# -- the order of time ---------------------------------------------------------------------------------------------
def test_one_after_the_other() -> None:
    given = scenario(
        [node("n1", 2)],
        job("a", 0, 100, whole=2),
        job("b", 10, 50, whole=1),
        job("c", 20, 50, whole=1),
        job("d", 30, None, whole=2),
    )
    assert outcomes(given) == {"a": (0, 100), "b": (100, 150), "c": (100, 150), "d": (150, None)}


def test_an_end_makes_room_for_an_arrival_of_the_same_moment() -> None:
    given = scenario([node("n1", 1)], job("a", 0, 100, whole=1), job("b", 100, 100, whole=1))
    assert outcomes(given) == {"a": (0, 100), "b": (100, 200)}


def test_jobs_of_one_moment_are_decided_together() -> None:
    """Of two that come at once, the one of higher priority goes first, whichever comes first in the list."""
    given = scenario(
        [node("n1", 1)],
        job("low", 5, 10, whole=1, priority=1),
        job("high", 5, 10, whole=1, priority=2),
    )
    assert outcomes(given) == {"low": (15, 25), "high": (5, 15)}


def test_jobs_that_take_no_time() -> None:
    given = scenario([node("n1", 1)], *(job(f"j{at}", 7, 0, whole=1) for at in range(5)))
    assert outcomes(given) == {f"j{at}": (7, 7) for at in range(5)}


def test_one_that_never_fits_stays() -> None:
    result = simulate(scenario([node("n1", 1)], job("large", 0, 10, whole=2), job("small", 0, 10, whole=1)))
    assert outcomes(result) == {"large": (None, None), "small": (0, 10)}
    assert result.end_ms == 10
    assert result.to_dict()["waiting"] == {"INSUFFICIENT_WHOLE_GPUS": 1}
    assert not any(one.lost for one in result.jobs)


def test_a_pod_that_contradicts_itself_stays() -> None:
    wrong = pod("wrong", whole=1, annotations={"gpu-fraction": "0.5"})
    assert outcomes(scenario([node("n1", 1)], job("j", 0, 10, wrong))) == {"j": (None, None)}


def test_a_job_counts_from_when_all_its_pods_run() -> None:
    given = scenario(
        [node("n1", 2)],
        job("first", 0, 100, whole=1),
        job("pair", 10, 50, pod("p1", whole=1), pod("p2", whole=1)),
    )
    assert outcomes(given) == {"first": (0, 100), "pair": (100, 150)}


def test_what_is_tried_again_only_after_a_while() -> None:
    """A pod that is like no other is searched for ever more rarely; when room comes last of all, it still starts."""
    passing = [job(f"p{at}", 0, 910 + 10 * at, cpu_milli=1) for at in range(8)]
    result = simulate(scenario([node("n1", 8)], job("b", 0, 1000, alone("b")), *passing, job("a", 900, 5, alone("a"))))
    started = outcome(result, "a").started_ms
    assert started is not None
    assert 1000 < started <= 2000
    assert result.end_ms == started + 5


def test_many_that_do_not_fit_before_one_that_does() -> None:
    """More searches in vain than one round makes: rounds go on until everyone has had a turn."""
    large = [job(f"large{at}", 0, 10, whole=4, cpu_milli=1000 + at, priority=1) for at in range(100)]
    assert outcomes(scenario([node("n1", 2)], *large, job("small", 0, 10, whole=1)))["small"] == (0, 10)


# -- queues --------------------------------------------------------------------------------------------------------
def test_a_limit_holds_back() -> None:
    queues = (QueueSpec("a", gpu=Terms(quota=1000, limit=1000)), QueueSpec("b", gpu=Terms(quota=3000)))
    given = scenario(
        [node("n1", 4)],
        *(job(f"a{at}", 0, 10, queued(f"a{at}", "a", whole=1)) for at in range(3)),
        job("b", 0, 10, queued("b", "b", whole=3)),
        queues=queues,
    )
    assert outcomes(given) == {"a0": (0, 10), "a1": (10, 20), "a2": (20, 30), "b": (0, 10)}


def test_queues_get_their_share_by_turns() -> None:
    """Two queues of equal weight, one with ten jobs before the other's: each gets half of the devices."""
    queues = (QueueSpec("a"), QueueSpec("b"))
    jobs = [job(f"a{at}", 0, 100, queued(f"a{at}", "a", whole=1)) for at in range(10)]
    jobs += [job(f"b{at}", 0, 100, queued(f"b{at}", "b", whole=1)) for at in range(2)]
    result = simulate(scenario([node("n1", 4)], *jobs, queues=queues))
    first = sorted(one.name for one in result.jobs if one.started_ms == 0)
    assert first == ["a0", "a1", "b0", "b1"]
    assert result.samples[0].by_queue_gpu_milli == {"a": 2000, "b": 2000}


def test_nobody_takes_a_pod_of_an_unknown_queue() -> None:
    given = scenario([node("n1", 1)], job("j", 0, 1, queued("j", "nowhere", whole=1)), queues=(QueueSpec("a"),))
    assert outcomes(given) == {"j": (None, None)}


# -- gangs ---------------------------------------------------------------------------------------------------------
def gang(name: str, count: int, at_ms: int, runs_ms: int, minimum: int | None = None) -> tuple[Job, ObjectIndex]:
    return Job(name, tuple(members(name, count)), at_ms, runs_ms), ObjectIndex(KINDS, [group(name, minimum or count)])


def test_a_gang_starts_whole() -> None:
    """Of four devices one is taken: a gang of four waits for all of them, and holds none meanwhile."""
    wide, objects = gang("wide", 4, 10, 50)
    given = scenario(
        [node("n1", 2), node("n2", 2)],
        job("first", 0, 100, whole=1),
        wide,
        job("behind", 20, 30, whole=1),
        objects=objects,
    )
    result = simulate(given)
    assert outcomes(result) == {"first": (0, 100), "wide": (100, 150), "behind": (20, 50)}
    assert max(sample.allocated_gpu_milli for sample in result.samples if sample.at_ms < 100) == 2000


def test_a_gang_that_waits_beside_a_reservation_is_not_searched_for_all_the_time() -> None:
    """Three devices of four are taken for hours. A pod that wants two has a reservation by then, and a gang waits."""
    hour_ms = 3_600_000
    objects = ObjectIndex(KINDS, [group("g", 3)])
    says = {vocabulary.EXPECTED_RUNTIME.key: "1h"}
    given = scenario(
        [node("n1", 2), node("n2", 2)],
        job("full", 0, 10 * hour_ms, whole=2),
        job("half", 0, 5 * hour_ms, whole=1),
        job("two", 1000, hour_ms, whole=2),
        Job("g", tuple(members("g", 3, annotations=says)), 2000, hour_ms),
        *(job(f"small{at}", hour_ms + 5000 * at, 1000, cpu_milli=at) for at in range(1, 9)),
        objects=objects,
    )
    simulation = Simulation(given, policy_named("binpack"), "binpack")
    site = simulation._site
    assert isinstance(site, WaitingSite)
    plan, rounds = site._engine.plan, 0

    def counted(now_ms: int) -> tuple[list[Instruction], bool]:
        nonlocal rounds
        rounds += 1
        return plan(now_ms)

    site._engine.plan = counted  # type: ignore[method-assign]
    found = outcomes(simulation.run())
    assert found["two"] == (5 * hour_ms, 6 * hour_ms)
    assert found["g"] == (10 * hour_ms, 11 * hour_ms)
    assert rounds < 100


# -- failures ------------------------------------------------------------------------------------------------------
def test_a_failure_begins_a_job_anew() -> None:
    """Fails at 60 after 60 of 100; back at 80: all of it is done again."""
    given = scenario([node("n1", 1)], job("j", 0, 100, whole=1), outages=(Outage("n1", 60, 80),))
    result = simulate(given)
    assert outcomes(result) == {"j": (0, 180)}
    assert outcome(result, "j").restarts == 1


def test_a_failed_job_goes_elsewhere() -> None:
    nodes = [node("n1", 1), node("n2", 1)]
    given = scenario(nodes, job("j", 0, 100, whole=1), outages=(Outage("n1", 30), Outage("n2", 130)))
    result = simulate(given)
    # binpack takes n1 first, by name; at 130 the job has just ended
    assert outcomes(result) == {"j": (0, 130)}
    assert result.allocated_gpu_milli == 0


def test_a_node_that_stays_away() -> None:
    given = scenario([node("n1", 1)], job("j", 0, 100, whole=1), outages=(Outage("n1", 30),))
    result = simulate(given)
    assert outcomes(result) == {"j": (0, None)}
    assert result.allocated_gpu_milli == 0
    assert result.end_ms == 30


def test_a_failure_begins_a_whole_gang_anew() -> None:
    pair, objects = gang("pair", 2, 0, 100)
    nodes = [node("n1", 1), node("n2", 1)]
    result = simulate(scenario(nodes, pair, objects=objects, outages=(Outage("n2", 40, 50),)))
    assert outcomes(result) == {"pair": (0, 150)}
    assert outcome(result, "pair").restarts == 1


def test_failures_before_and_after_deadlines_keep_their_order() -> None:
    """Outages without an end beside ends, waits and many deadlines: time never runs backwards."""
    nodes = [node(f"n{at}", 2) for at in range(4)]
    jobs = [job(f"j{at}", 10 * at, 1000, alone(f"p{at}")) for at in range(12)]
    given = scenario(nodes, *jobs, outages=(Outage("n0", 2000), Outage("n1", 3000)))
    result = simulate(given)
    times = [sample.at_ms for sample in result.samples]
    assert times == sorted(times)
    assert all(one.ended_ms is not None for one in result.jobs)


def two_jobs_of_a_gang(first_ms: int, **other: Any) -> Scenario:
    pods = members("g", 4)
    jobs = Job("a", tuple(pods[:2]), 0, first_ms), Job("b", tuple(pods[2:]), 0, 500_000)
    objects = ObjectIndex(KINDS, [group("g", 4)])
    return scenario([node("n1", 2), node("n2", 2)], *jobs, objects=objects, **other)


def test_members_that_ended_have_done_their_part() -> None:
    assert outcomes(two_jobs_of_a_gang(1000)) == {"a": (0, 1000), "b": (0, 500_000)}


def test_what_is_left_of_a_gang_is_evicted_after_its_grace() -> None:
    """Half of the gang loses its node for good: a minute later the other half is evicted, and all of them wait."""
    result = simulate(two_jobs_of_a_gang(500_000, outages=(Outage("n2", 5000),)))
    assert outcomes(result) == {"a": (0, None), "b": (0, None)}
    assert [one.restarts for one in result.jobs] == [1, 1]
    assert (result.end_ms, result.allocated_gpu_milli) == (65_000, 0)


def test_an_evicted_gang_starts_anew_when_its_node_is_back() -> None:
    result = simulate(two_jobs_of_a_gang(500_000, outages=(Outage("n2", 5000, 100_000),)))
    assert outcomes(result) == {"a": (0, 600_000), "b": (0, 600_000)}
    assert [one.restarts for one in result.jobs] == [1, 1]


# -- the rest ------------------------------------------------------------------------------------------------------
def test_shares_wait_for_room_on_a_device() -> None:
    given = scenario(
        [node("n1", 1)],
        job("a", 0, 100, share("a", "0.6")),
        job("b", 0, 100, share("b", "0.4")),
        job("c", 0, 100, share("c", "0.5")),
    )
    assert outcomes(given) == {"a": (0, 100), "b": (0, 100), "c": (100, 200)}


@pytest.mark.parametrize("policy", ["binpack", "spread", "fgd", "rsv"])
def test_the_same_twice(policy: str) -> None:
    wide, objects = gang("wide", 4, 10, 50)
    jobs = [job(f"j{at}", 7 * at, 40 + at, whole=1 + at % 3) for at in range(30)]
    given = scenario([node("n1", 4), node("n2", 4)], wide, *jobs, objects=objects, outages=(Outage("n1", 60, 200),))
    one, other = (simulate(given, policy).to_dict(jobs=True) for _ in range(2))
    assert one == other
