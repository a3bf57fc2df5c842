"""Pods of a recorded trace: what they asked for, when they came, how long they ran."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WHOLE_MILLI: Final = 1000
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
DEFAULT_TRACE: Final = _CHECKOUT / "benchmarks" / "data" / "openb_pods.csv"


class TraceError(ValueError):
    """A trace that is not there or cannot be read; the text says what to do."""


@dataclass(frozen=True, slots=True)
class TracePod:
    """One row.

    `gpu_milli` is per device (1000 is a whole one); times are seconds since the start of the trace.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpu_count: int
    gpu_milli: int
    created_s: int
    duration_s: int

    @property
    def shares(self) -> bool:
        """Asks for a part of a device."""
        return self.gpu_count > 0 and self.gpu_milli < WHOLE_MILLI


def read_trace(path: Path = DEFAULT_TRACE, *, limit: int | None = None) -> tuple[TracePod, ...]:
    """The first `limit` pods of the file in order of creation.

    Raises TraceError when the file is missing or a row cannot be read; it names the row.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            pods = [_pod(row, number) for number, row in enumerate(csv.DictReader(file), start=2)]
    except FileNotFoundError:
        raise TraceError(
            f"{path} is not there. The trace is part of the source checkout, not of the installed package: "
            "run `make demo` in a checkout, or name a trace with --trace FILE."
        ) from None
    pods.sort(key=lambda pod: (pod.created_s, pod.name))
    return tuple(pods[:limit])


def _pod(row: Mapping[str, str], number: int) -> TracePod:
    try:
        created, deleted = int(row["creation_time"]), int(row["deletion_time"])
        return TracePod(
            name=row["name"],
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            gpu_count=int(row["num_gpu"]),
            gpu_milli=int(row["gpu_milli"]),
            created_s=created,
            duration_s=max(deleted - created, 0),
        )
    except (KeyError, TypeError, ValueError) as err:
        raise TraceError(f"line {number} of the trace cannot be read: {err!r}") from None
