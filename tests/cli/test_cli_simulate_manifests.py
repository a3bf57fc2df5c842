"""Kubernetes objects with times through `tangram simulate manifests`, and sweeps and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender_api.cli import main
from tests.plan.documents import Object, node, pod
from tests.simulate.tiny_openb import tiny_openb


def at(item: Object, when: str, runs: str = "") -> Object:
    """The pod with the time at which it comes, and how long it runs."""
    metadata = {**item["metadata"], "creationTimestamp": when}
    if runs:
        metadata["annotations"] = {**metadata["annotations"], "tangram.scheduler/expected-runtime": runs}
    return {**item, "metadata": metadata}


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    status = main(["simulate", *arguments])
    found = capsys.readouterr()
    return status, json.loads(found.out) if found.out else None, found.err


def written(tmp_path: Path, *objects: Object) -> str:
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_pods_come_at_their_times_and_wait_for_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = node("n1", 2)
    gone["metadata"]["annotations"] = {"tangram.scheduler/simulated-outage": "5h-6h"}
    path = written(
        tmp_path,
        gone,
        at(pod("first", gpus=2), "2026-01-01T00:00:00Z", "1h"),
        at(pod("second", gpus=1, on="n1"), "2026-01-01T00:30:00Z", "30m"),
        at(pod("third", gpus=1), "2026-01-01T04:30:00Z", "1h"),
    )
    status, answer, _ = simulated(capsys, "manifests", "-f", path, "--policy", "rsv", "-o", "json", "--jobs")
    assert status == 0
    hours = {job["name"]: (job["startedMs"] / 3.6e6, job["endedMs"] / 3.6e6, job["restarts"]) for job in answer["jobs"]}
    assert hours == {"team/first": (0, 1, 0), "team/second": (1, 1.5, 0), "team/third": (4.5, 7, 1)}


def test_a_plan_document_with_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"objects": at(pod("p"), "2026-01-01T00:00:00Z")}))
    status, answer, _ = simulated(
        capsys, "manifests", "-f", str(path), "-f", written(tmp_path, node("n1")), "-o", "json"
    )
    assert (status, answer["waiting"]) == (0, {})
    path.write_text('{"objects": null}')
    status, _, error = simulated(capsys, "manifests", "-f", str(path))
    assert status == 2
    assert "objects[0] is no Kubernetes object but null" in error


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([node("n1", 1)], "no pod has schedulerName tangram"),
        ([at(pod("p", gpus=1), "2026-01-01T00:00:00Z", "soon")], "'soon' has no effect"),
        ([{**node("n1", 1), "metadata": {"name": "n1", "annotations": {"tangram.scheduler/simulated-outage": "2h"}}},
          at(pod("p"), "2026-01-01T00:00:00Z")], "node n1: tangram.scheduler/simulated-outage '2h': write it as"),
        ([{**node("n1", 1), "metadata": {"name": "n1", "annotations": {"tangram.scheduler/simulated-outage": "x-3h"}}},
          at(pod("p"), "2026-01-01T00:00:00Z")], "is not a duration"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], objects: list[Object], words: str
) -> None:
    status, answer, error = simulated(capsys, "manifests", "-f", written(tmp_path, *objects))
    assert (status, answer) == (2, None)
    assert words in error


def test_several_policies_in_one_list_and_in_one_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny_openb(tmp_path / "data")
    folder = tmp_path / "pictures"
    status, answer, error = simulated(
        capsys, "openb", "default", f"--data={data}", "--policy=fgd", "--policy=rsv", "-o", "json", f"--plots={folder}"
    )
    assert status == 0
    assert [one["policy"] for one in answer] == ["fgd", "rsv"]
    assert "allocation.svg" in error
    assert "fgd" in (folder / "allocation.svg").read_text()


def test_a_sweep_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny_openb(tmp_path / "data")
    store = tmp_path / "store.jsonl"
    common = ["sweep", f"--store={store}", f"--data={data}", "--policies=bestfit", "--workers=1", "-o", "json"]
    status, answer, _ = simulated(capsys, *common, "--seeds=42")
    assert (status, len(answer["results"]), answer["failures"]) == (0, 1, {})
    status, answer, _ = simulated(capsys, *common, "--seeds=42-43")
    assert (status, len(answer["results"])) == (0, 2)
    assert len(store.read_text().splitlines()) >= 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--cluster=nowhere"], '"nowhere" is no cluster'),
        (["--workers=0"], "--workers 0: there has to be one at least"),
        (["--policies=tetris"], "tetris"),
        (["--traces=none"], 'there is no trace "none"'),
    ],
)
def test_sweeps_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str) -> None:
    status, _, error = simulated(capsys, "sweep", f"--store={tmp_path / 'store.jsonl'}", *more)
    assert status == 2
    assert words in error


def test_a_job_list_in_another_time_and_with_quotas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("vc,arrival_s,gpus,duration_s\na,0,1,60\na,86400,1,60\nb,86500,2,60\n")
    common = ["philly", str(path), "--nodes=1", "-o", "json", "--jobs"]
    status, answer, _ = simulated(capsys, *common, "--start=1", "--scale=2", "--quota=a=4", "--quota=b=4")
    assert status == 0
    assert [(job["queue"], job["arrivalMs"]) for job in answer["jobs"]] == [("vc-a", 0), ("vc-b", 50_000)]
    status, _, error = simulated(capsys, *common, "--quota=c=4")
    assert (status, "c" in error) == (2, True)
    with pytest.raises(SystemExit):
        main(["simulate", *common, "--quota=a"])
    assert "write VC=GPUS" in capsys.readouterr().err


def test_run_times_may_be_spread_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    common = ["generate", "--nodes=2x4", "--span=6h", "-o", "json", "--jobs"]
    _, usual, _ = simulated(capsys, *common)
    _, spread, _ = simulated(capsys, *common, "--spread=0")
    assert len({job["durationMs"] for job in usual["jobs"]}) > len({job["durationMs"] for job in spread["jobs"]})
