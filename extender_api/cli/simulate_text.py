"""The result of a simulation for people."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.table import Table

from extender_api.text import PHRASES
from scheduler.reason import Code
from scheduler.simulate.result import Result

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def show(result: Result) -> None:
    """Prints a summary: what was allocated and served, and how long jobs waited by their size."""
    console = Console(highlight=False)
    document = result.to_dict(series=False)
    console.print(f"[bold]{result.scenario}[/bold] under {result.policy}, seed {result.seed}", soft_wrap=True)
    console.print(_summary(document))
    if document["waiting"]:
        console.print("\njobs that wait at the end")
        console.print(_waiting(document["waiting"]))
    if any(entry["max"] for entry in document["waitsMs"].values()):
        console.print("\nwaiting time by size")
        console.print(_waits(document["waitsMs"]))


def _summary(document: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    rows = {
        "nodes": f"{document['nodes']:,}",
        "GPUs": f"{document['gpuCapacityMilli'] / 1000:,.0f}",
        "pods that came": f"{document['arrivals']:,}",
        "pods refused": f"{document['refused']:,}",
        "GPUs asked for": f"{document['gpuDemandMilli'] / 1000:,.1f}",
        "GPUs allocated at the end": f"{document['gpuAllocatedMilli'] / 1000:,.1f}",
        "allocated at the end": f"{document['endGpuAllocationPercent']:.2f} %",
        "allocated on average": f"{document['meanGpuAllocationPercent']:.2f} %",
        "work served": _percent(document["servedPercent"]),
        "work served of 8-GPU jobs": _percent(document["servedEightGpuPercent"]),
        "jobs stopped by failures": f"{document['restarts']:,}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _waiting(reasons: dict[str, int]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for code, count in reasons.items():
        table.add_row(PHRASES[Code(code)], f"{count:,}")
    return table


def _waits(waits: dict[str, dict[str, float]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("size")
    for name in ("jobs", "mean", "p50", "p95", "max"):
        table.add_column(name, justify="right")
    for size, entry in waits.items():
        times = (duration(entry[name]) for name in ("mean", "p50", "p95", "max"))
        table.add_row(size[2:], f"{entry['jobs']:,}", *times)
    return table


def duration(milliseconds: float) -> str:
    """A time in its largest unit, with one digit behind the point."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds / size:.1f} {unit}"
    return f"{milliseconds:.0f} ms"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} %"
