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
