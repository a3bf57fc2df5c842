"""Numbers from samples."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks.measure import cpu_seconds, percentile, process_seconds, times


@pytest.mark.parametrize(("part", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_are_samples(part: float, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 101)], part) == expected


def test_times_are_microseconds() -> None:
    summed = times([0.003, 0.001, 0.002])
    assert (summed.calls, summed.min_us, summed.p50_us, summed.p99_us) == (3, 1000, 2000, 3000)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        times([])


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_cpu_time_grows_with_work() -> None:
    before = cpu_seconds(os.getpid()), process_seconds(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        sum(range(1000))
    for was, now in zip(before, (cpu_seconds(os.getpid()), process_seconds(os.getpid())), strict=True):
        assert was is not None
        assert now is not None
        assert 0.08 < now - was < 5


def test_no_process_is_none() -> None:
    assert cpu_seconds(2**22 + 1) is None
