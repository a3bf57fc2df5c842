"""`tangram simulate`: answers for people and programs, the same for the same seed, and what is said to bad input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender_api.cli import main
from scheduler.simulate.openb import TRACES

SMALL = ("generate", "--nodes", "2x4", "--span", "6h", "--policy", "binpack")
BUSY = (*SMALL, "--load", "1.2", "--queue", "a=2:4", "--queue", "b=1", "--gangs", "0.5", "--failures", "3h")


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["simulate", *arguments, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def test_the_published_trace(capsys: pytest.CaptureFixture[str]) -> None:
    answer = simulated(capsys, "openb", "default", "--policy", "bestfit", "--seed", "42", "--no-series")
    assert answer["gpuAllocationPercent"] == pytest.approx(93.1, abs=0.2)
    assert answer["gpuAllocatedMilli"] == pytest.approx(answer["endGpuAllocationPercent"] * 62_120, abs=4)
    assert (answer["scenario"], answer["policy"], answer["seed"]) == ("openb-default", "bestfit", 42)
    assert (answer["arrivals"], answer["gpuDemandMilli"], answer["nodes"]) == (10_866, 8_075_080, 1213)
    assert len(answer["curve"]) == 131
    assert len(answer["firstPlaces"]) == 8
    assert "series" not in answer
    assert "jobs" not in answer


def test_the_same_seed_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        assert main(["simulate", *BUSY, "--seed", seed, "--jobs", "-o", "json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_series_and_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    answer = simulated(capsys, *BUSY, "--jobs")
    assert sum(job["pods"] for job in answer["jobs"]) == answer["arrivals"]
    assert {job["queue"] for job in answer["jobs"]} == {"a", "b"}
    sample = answer["series"][len(answer["series"]) // 2]
    assert set(sample["byQueueGpuMilli"]) == {"a", "b"}
    assert sample["fragmentedGpuMilli"] is not None
    assert 0 <= sample["allocatedGpuMilli"] <= 8000 == answer["gpuCapacityMilli"]
    assert answer["waiting"] == {}


def test_a_summary_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *BUSY, "--mix", "1=4@2h", "--mix", "4=2@2h", "--mix", "16=1"]) == 0
    out = capsys.readouterr().out
    assert "generated under binpack, seed 42" in out
    assert "allocated on average" in out
    assert "no room for its gang" in out
    assert "waiting time by size" in out
    assert "one GPU" in out


def test_jobs_that_are_lost_and_few_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    answer = simulated(capsys, *SMALL, "--load", "3", "--lost", "--candidates", "1")
    assert answer["refused"] > 0
    assert answer["servedPercent"] < 100
    assert answer["candidates"] == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("openb", "nonsense"), ", ".join(TRACES)),
        (("openb", "default", "--policy", "nonsense"), "binpack, spread, bestfit"),
        (("openb", "default", "--load", "0"), "offered GPU time over capacity"),
        (("openb", "default", "--data", "/nowhere"), "say where they are with --data"),
        ((*SMALL, "--mix", "6=1"), "no multiple of 4"),
        ((*SMALL, "--mix", "cpu=1"), "jobs that ask for some"),
        (("generate", "--nodes", "4x0"), "nodes with GPUs"),
        ((*SMALL, "--candidates", "2"), "--candidates"),
        ((*SMALL, "--span", "9y"), "duration"),
        ((*SMALL, "--span", "520w", "--mix", "0.001=1@1s"), "make the span shorter"),
    ],
)
def test_what_cannot_be_simulated(arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["simulate", *arguments])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nodes", "4"),
        ("--nodes", "0x8"),
        ("--nodes", "x8"),
        ("--mix", "half=1"),
        ("--mix", "1.5=1"),
        ("--mix", "0.0001=1"),
        ("--mix", "1"),
        ("--mix", "1=1@soon"),
        ("--queue", "a"),
        ("--queue", "a=1:x"),
        ("--load", "much"),
        ("--gangs", "-1"),
        ("--failures", "often"),
        ("--seed", "-1"),
        ("--candidates", "0"),
    ],
)
def test_options_say_how_they_are_written(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "generate", *arguments])
    assert ended.value.code == 2
    assert f"argument {arguments[0]}" in capsys.readouterr().err


def test_no_input_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate"])
    assert ended.value.code == 2
    assert "INPUT" in capsys.readouterr().err
