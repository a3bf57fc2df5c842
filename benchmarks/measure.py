"""Times and CPU: how raw samples become the few numbers that are reported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds over `calls` samples."""

    calls: int
    min_us: float
    p50_us: float
    p99_us: float


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest sample that at least `part` (0 to 1) of the ascending, non-empty samples do not exceed."""
    rank = max(-(-len(ordered) * round(part * 10_000) // 10_000), 1)
    return ordered[rank - 1]


def times(seconds: Sequence[float]) -> Times:
    """Sums up samples in seconds. Raises ValueError when there is none."""
    if not seconds:
        raise ValueError("no samples")
    ordered = sorted(seconds)
    return Times(
        calls=len(ordered),
        min_us=ordered[0] * 1e6,
        p50_us=percentile(ordered, 0.50) * 1e6,
        p99_us=percentile(ordered, 0.99) * 1e6,
    )


def cpu_seconds(pid: int) -> float | None:
    """CPU time used so far by all threads of a process, or None where /proc does not tell.

    Taken from the scheduler's statistics (nanoseconds) where they are kept, which leaves out threads that
    ended; else from `stat` (hundredths of seconds).
    """
    folder = Path("/proc") / str(pid)
    try:
        tasks = list((folder / "task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except (OSError, IndexError, ValueError):
        return process_seconds(pid)


def process_seconds(pid: int) -> float | None:
    """User and system time of a process by /proc/<pid>/stat, ended threads included; else None."""
    try:
        text = (Path("/proc") / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold blanks
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
