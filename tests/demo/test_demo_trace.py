"""The trace: what is read, and what happens when it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender_api.demo.objects import GPU, Pace, arrivals, demo_nodes, trace_pod
from extender_api.demo.trace import DEFAULT_TRACE, TraceError, TracePod, read_trace
from topology import vocabulary

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"


def row(*, gpu_count: int = 1, gpu_milli: int = 1000, duration_s: int = 1000) -> TracePod:
    return TracePod("p", 4000, 8192, gpu_count, gpu_milli, 0, duration_s)


def test_the_shipped_slice_is_as_its_source_says() -> None:
    pods = read_trace()
    assert len(pods) == 600
    assert len({pod.name for pod in pods}) == 600
    assert [pod.created_s for pod in pods] == sorted(pod.created_s for pod in pods)
    assert (pods[0].name, pods[-1].name) == ("openb-pod-2000", "openb-pod-2599")
    assert sum(pod.shares for pod in pods) > 100
    assert sum(pod.gpu_count == 8 for pod in pods) == 17
    source = (DEFAULT_TRACE.parent / "SOURCE.md").read_text()
    assert "7a6c496e" in source
    assert "Apache-2.0" in source
    assert DEFAULT_TRACE.stat().st_size < 100_000


def test_a_missing_trace_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"source checkout.*--trace FILE"):
        read_trace(tmp_path / "none.csv")


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEADER + "a,1,1,0,0,,0,5\nb,x,1,0,0,,0,5\n")
    with pytest.raises(TraceError, match="line 3"):
        read_trace(path)


def test_a_short_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEADER + "a,1,1\n")
    with pytest.raises(TraceError, match="line 2"):
        read_trace(path)


def test_rows_come_in_order_of_creation_and_no_more_than_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEADER + "late,1,1,0,0,,9,12\nearly,1,1,0,0,,2,12\nlast,1,1,0,0,,10,12\n")
    assert [pod.name for pod in read_trace(path, limit=2)] == ["early", "late"]


def test_arrivals_keep_the_proportions_of_the_trace() -> None:
    pods = [TracePod(str(at), 1, 1, 0, 0, at, 100) for at in (100, 150, 200)]
    assert [arrival.at_s for arrival in arrivals(pods, Pace(arrive_s=10))] == [0, 5, 10]
    assert arrivals([], Pace()) == []


@pytest.mark.parametrize(("duration_s", "expected"), [(1, 1.0), (2000, 4.0), (10**7, 12.0)])
def test_run_times_are_scaled_within_bounds(duration_s: int, expected: float) -> None:
    assert Pace(speed=500, shortest_s=1, longest_s=12).runs_s(row(duration_s=duration_s)) == expected


def test_a_share_is_written_as_fraction_or_as_memory() -> None:
    fraction = trace_pod(row(gpu_milli=470), 1)
    memory = trace_pod(row(gpu_milli=500), 5)
    assert fraction["metadata"]["annotations"] == {vocabulary.GPU_FRACTION.key: "0.47"}
    assert memory["metadata"]["annotations"] == {vocabulary.GPU_MEMORY.key: "20480"}
    assert GPU not in fraction["spec"]["containers"][0]["resources"]["limits"]


def test_whole_devices_are_written_as_limits_and_some_may_leave_the_cluster() -> None:
    stays, leaves = trace_pod(row(gpu_count=4), 1), trace_pod(row(gpu_count=4), 3)
    assert stays["spec"]["containers"][0]["resources"]["limits"][GPU] == "4"
    assert stays["spec"]["tolerations"] == []
    keys = {item["key"] for item in leaves["spec"]["tolerations"]}
    taints = {taint["key"] for node in demo_nodes() for taint in node["spec"].get("taints", [])}
    assert keys == taints
