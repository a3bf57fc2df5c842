"""The experiments of docs/packing.md: allocation, departures, sampling, learning; ours beside the published figures.

What is done is kept in benchmarks/out/packing, so that a run goes on where it was stopped. All of it takes about two
hours of one core. Run: `make bench-packing`, or `python -m benchmarks.packing --quick`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.progress import Progress

from benchmarks import packing_tables, report
from scheduler.simulate import openb
from scheduler.simulate.processes import Processes
from scheduler.simulate.sweep import Store, SweepError, Task, sweep

OUT: Final = report.OUT / "packing"
SEEDS: Final = tuple(range(42, 52))
FRESH_SEEDS: Final = tuple(range(100, 110))
FRESH: Final = ("default", "cpu250", "gpushare60", "gpuspec20", "multigpu30", "multigpu50")
CHURN: Final = ("default", "gpushare100", "gpuspec33", "multigpu20", "multigpu50", "cpu250")
LEARNED: Final = ("default", "cpu250", "gpushare100", "gpushare40", "gpuspec33", "multigpu20", "multigpu50")
CLASSIC: Final = ("dotprod", "gpu-clustering", "gpu-packing", "bestfit", "fgd")
PARTS: Final = ("inflation", "fresh", "churn", "sampling", "learned")


def tasks(part: str) -> Iterator[Task]:
    """The runs of one part."""
    if part == "inflation":
        for policy in ("rsv", "fgd", "rsv-max", *CLASSIC[:-1]):
            yield from (Task(trace, policy, seed) for trace in openb.TRACES for seed in SEEDS)
    elif part == "fresh":
        for policy in ("fgd", "rsv", "rsv-max"):
            yield from (Task(trace, policy, seed) for trace in FRESH for seed in FRESH_SEEDS)
    elif part == "churn":
        for policy in ("rsv", "fgd", "bestfit", "gpu-packing", "rsv-max"):
            for load in (0.9, 1.0, 1.3):
                yield from (Task(trace, policy, seed, load=load) for trace in CHURN for seed in range(4))
    elif part == "sampling":
        for candidates in (490, 60, 20):
            for trace in openb.TRACES:
                yield from (Task(trace, "rsv", seed, candidates=candidates) for seed in SEEDS[:3])
    else:
        yield from (Task(trace, "rsv", seed, learn=True) for trace in LEARNED for seed in SEEDS[:4])
        for load in (0.9, 1.0, 1.3):
            yield from (Task(trace, "rsv", seed, load=load, learn=True) for trace in CHURN for seed in range(4))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packing", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--quick", action="store_true", help="two traces and two seeds of each")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--anew", action="store_true", help="forget what was done")
    parser.add_argument("--out", type=Path, default=OUT, help=f"where results are kept ({OUT})")
    options = parser.parse_args(arguments)
    parts = [options.only] if options.only else list(PARTS)
    wanted = {part: [task for task in tasks(part) if not options.quick or _is_quick(task)] for part in parts}
    try:
        store = Store(options.out / "runs.jsonl", anew=options.anew)
    except SweepError as err:
        parser.error(str(err))
    failed = _run([task for part in parts for task in wanted[part]], store, options.workers)
    for key, trouble in failed.items():
        report.console.print(f"[red]failed[/red] {key}: {trouble}")
    found = {part: packing_tables.TABLES[part](wanted[part], store.done) for part in parts}
    _write(found, options.out)
    return 1 if failed else 0


def _is_quick(task: Task) -> bool:
    return task.trace in ("default", "cpu250") and task.seed in (*SEEDS[:2], *FRESH_SEEDS[:2], 0)


def _run(wanted: list[Task], store: Store, workers: int) -> dict[str, str]:
    with Progress(console=report.console, transient=True) as bar:
        line = bar.add_task("simulating", total=len(wanted))

        def progress(done: int, total: int, key: str) -> None:
            bar.update(line, completed=done, total=total, description=key)

        return sweep(wanted, store, Processes(workers), progress=progress)


def _write(found: dict[str, list[packing_tables.Table]], folder: Path) -> None:
    """Tables on the screen and as Markdown, their numbers as JSON."""
    pages, numbers = [], dict[str, Any]()
    for part, made in found.items():
        for table in made:
            report.table(table.title, table.columns, table.rows)
            pages.append(table.markdown())
            numbers.setdefault(part, []).append({"title": table.title, "columns": table.columns, "rows": table.rows})
    (folder / "tables.md").write_text("\n\n".join(pages) + "\n", encoding="utf-8")
    report.write("tables", numbers, folder)


if __name__ == "__main__":
    raise SystemExit(main())
