"""Names that dashboards rely on, and what counts."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from extender_api import metrics


def value(name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def test_names_are_a_promise() -> None:
    metrics.observe_request("filter", 0.001)
    metrics.count_api_call("bind", 201)
    names = {family.name for family in metrics.registry.collect()}
    assert names >= {
        f"tangram_{name}"
        for name in (
            "extender_request_seconds", "extender_errors", "decisions", "binds", "planning_round_seconds",
            "planning_errors", "pods_waiting", "pods_in_flight", "pods_bound", "nodes", "devices", "device_milli",
            "device_memory_mib", "ledger_differences", "api_calls", "watch_lag_seconds", "watch_relists",
            "watch_events", "kernel_compile_seconds", "event_loop_lag_seconds", "gc_pause_seconds",
        )
    }  # fmt: skip
    body, content_type = metrics.exposition()
    assert b'tangram_extender_request_seconds_count{verb="filter"}' in body
    assert content_type.startswith("text/plain")


@pytest.mark.parametrize(
    ("count", "sample", "labels"),
    [
        (lambda: metrics.count_error("bind"), "tangram_extender_errors_total", {"verb": "bind"}),
        (
            lambda: metrics.count_decision("placed"),
            "tangram_decisions_total",
            {"outcome": "placed", "reason": ""},
        ),
        (lambda: metrics.count_bind("bound"), "tangram_binds_total", {"outcome": "bound"}),
        (lambda: metrics.count_api_call("ungate", 409), "tangram_api_calls_total", {"call": "ungate", "code": "409"}),
        (lambda: metrics.observe_request("x", 1), "tangram_extender_request_seconds_count", {"verb": "x"}),
    ],
)
def test_counting(count: object, sample: str, labels: dict[str, str]) -> None:
    assert callable(count)
    before = value(sample, **labels)
    count()
    count()
    assert value(sample, **labels) == before + 2


def test_devices_are_sums_by_state() -> None:
    metrics.set_devices({"free": 3, "shared": 2}, milli={"total": 5000}, memory_mib={"taken": 77})
    metrics.set_devices({"free": 1, "shared": 4}, milli={"total": 5000}, memory_mib={"taken": 78})
    assert value("tangram_devices", state="free") == 1
    assert value("tangram_devices", state="shared") == 4
    assert value("tangram_device_milli", state="total") == 5000
    assert value("tangram_device_memory_mib", state="taken") == 78


def test_pauses_of_the_collector_are_measured_until_told_to_stop() -> None:
    stop = metrics.watch_gc()
    before = value("tangram_gc_pause_seconds_count")
    gc.collect()
    assert value("tangram_gc_pause_seconds_count") > before
    stop()
    after = value("tangram_gc_pause_seconds_count")
    gc.collect()
    assert value("tangram_gc_pause_seconds_count") == after


async def test_lag_of_the_loop_is_measured() -> None:
    before = value("tangram_event_loop_lag_seconds_count")
    task = asyncio.create_task(metrics.watch_event_loop(0.001))
    await asyncio.sleep(0.05)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert value("tangram_event_loop_lag_seconds_count") > before
