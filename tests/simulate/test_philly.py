"""Job lists: what becomes of their rows, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from scheduler.packing.named import policy_named
from scheduler.simulate.philly import PhillyCluster, philly
from scheduler.simulate.run import Simulation
from scheduler.simulate.scenario import ScenarioError

HEAD = "vc,arrival_s,gpus,duration_s,model\n"
TWO = PhillyCluster(nodes=2, gpus=4, days=1)


def listed(tmp_path: Path, *rows: str, name: str = "jobs.csv", head: str = HEAD) -> Path:
    path = tmp_path / name
    text = head + "".join(f"{row}\n" for row in rows)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.csv.gz"])
def test_jobs_become_gangs_of_whole_nodes_and_a_rest(tmp_path: Path, name: str) -> None:
    path = listed(tmp_path, "b,100.5,1,60,x", "a,0.5,6,10,y", "a,86401,1,1,z", name=name)
    scenario = philly(path, TWO)
    assert [(job.arrival_ms, job.duration_ms, len(job.pods)) for job in scenario.jobs] == [
        (0, 10_000, 2),
        (100_000, 60_000, 1),
    ]
    assert [pod.containers[0].limits["nvidia.com/gpu"] for pod in scenario.jobs[0].pods] == [4, 2]
    assert {queue.name: queue.gpu.quota for queue in scenario.queues} == {"vc-a": 4000, "vc-b": 4000}
    assert len(scenario.nodes) == 2


def arrivals(path: Path, **of: float | None) -> list[tuple[int, int]]:
    """When jobs come, and with how many GPUs."""
    scenario = philly(path, PhillyCluster(nodes=2, gpus=4, **of))  # type: ignore[arg-type]
    return [(job.arrival_ms, job.pods[0].containers[0].limits["nvidia.com/gpu"]) for job in scenario.jobs]


def test_some_days_of_a_list(tmp_path: Path) -> None:
    """One, two and three GPUs come 1, 2.5 and 4 days after zero."""
    path = listed(tmp_path, "a,86400,1,60", "a,216000,2,60", "a,345600,3,60", head="vc,arrival_s,gpus,duration_s\n")
    day = 86_400_000
    assert arrivals(path, days=None) == [(0, 1), (day * 3 // 2, 2), (day * 3, 3)]
    assert arrivals(path, days=3) == [(0, 1), (day * 3 // 2, 2)]
    assert arrivals(path, days=2, start_days=1.5) == [(0, 2), (day * 3 // 2, 3)]
    assert arrivals(path, days=1.5, start_days=1) == [(day // 2, 2)]
    assert arrivals(path, days=None, scale=3) == [(0, 1), (day // 2, 2), (day, 3)]
    with pytest.raises(ScenarioError, match=r"the last one comes 3\.0 days after the first"):
        arrivals(path, start_days=3.5)


def test_quotas_that_are_given(tmp_path: Path) -> None:
    path = listed(tmp_path, "a,0,1,60,x", "b,0,1,60,x")
    scenario = philly(path, PhillyCluster(nodes=2, gpus=4, quotas={"b": 3}))
    assert {queue.name: queue.gpu.quota for queue in scenario.queues} == {"vc-a": 0, "vc-b": 3000}
    with pytest.raises(ScenarioError, match="a quota of c, of which no job comes: a, b have jobs"):
        philly(path, PhillyCluster(nodes=2, gpus=4, quotas={"c": 3}))


def test_a_packed_list_of_which_the_end_is_missing(tmp_path: Path) -> None:
    path = listed(tmp_path, *(f"a,{at},1,{at * at},x" for at in range(2000)), name="jobs.csv.gz")
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(ScenarioError, match=r"jobs\.csv\.gz: Compressed file ended"):
        philly(path, TWO)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ({"days": 0}, "days are more than 0"),
        ({"days": float("nan")}, "days are more than 0"),
        ({"start_days": -1}, "0 or more"),
        ({"scale": 0}, "a scale of 0: it is more than 0"),
        ({"quotas": {"a": -1}}, "quotas are 0 or more"),
    ],
)
def test_clusters_that_cannot_be(of: dict[str, float], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        PhillyCluster(**of)  # type: ignore[arg-type]


def test_a_gang_that_is_too_large_for_now_waits_and_then_starts_whole(tmp_path: Path) -> None:
    path = listed(tmp_path, "a,0,5,100,x", "a,10,8,50,x", "b,20,3,40,x")
    result = Simulation(philly(path, TWO), policy_named("binpack"), "binpack").run()
    first, gang, small = result.jobs
    assert (first.started_ms, first.ended_ms) == (0, 100_000)
    assert (small.started_ms, small.ended_ms) == (20_000, 60_000)
    assert (gang.started_ms, gang.ended_ms) == (100_000, 150_000)


@pytest.mark.parametrize(
    ("rows", "head", "words"),
    [
        ((), HEAD, "has no jobs"),
        (
            ("a,0,1,1",),
            "vc,arrival,gpus,duration_s\n",
            "has no column arrival_s: vc, arrival_s, gpus, duration_s are read",
        ),
        (("a,0,x,1,m",), HEAD, "line 2: invalid literal"),
        (("a,0,0,1,m",), HEAD, "line 2: a job has a vc, at least one GPU"),
        (("a,nan,1,1,m",), HEAD, "line 2: cannot convert"),
        ((",0,1,1,m",), HEAD, "line 2: a job has a vc"),
        (("a,0,9,1,m",), HEAD, "a job of 9 GPUs is larger than the 8 of all nodes: add nodes"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, rows: tuple[str, ...], head: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        philly(listed(tmp_path, *rows, head=head), TWO)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        philly(tmp_path / "none.csv", TWO)
    with pytest.raises(ScenarioError, match="more than 0"):
        PhillyCluster(nodes=0)
