"""How full the placement policies fill a cluster: the openb experiments beside the published and expected numbers.

Inflation: 17 traces × 10 seeds × 7 policies. Fresh: seeds that were not looked at while the policies were made. Churn:
pods that come and go. Sampling: few nodes are seen. About 1,900 simulations of 3 to 30 seconds, on all cores; what is
interrupted goes on with the next call (benchmarks/out/packing/*.jsonl). Run: `python -m benchmarks.packing`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import packing_tables, report
from benchmarks.packing_expected import Expected
from scheduler.simulate.cluster_workers import workers_at
from scheduler.simulate.openb import FOLDER, TRACES, TraceError
from scheduler.simulate.sweep import Progress, Swept, sweep
from scheduler.simulate.task import SweepError, Task, churns, inflations

POLICIES: Final = ("dotprod", "gpu-clustering", "gpu-packing", "bestfit", "fgd", "rsv", "rsv-max")
FRESH_POLICIES: Final = ("fgd", "rsv", "rsv-max")
CHURN_POLICIES: Final = ("bestfit", "gpu-packing", "fgd", "rsv", "rsv-max")
CHURN_TRACES: Final = ("default", "gpushare100", "gpuspec33", "multigpu20", "multigpu50", "cpu250")
LOADS: Final = (0.9, 1.0, 1.3)
CANDIDATES: Final = (490, 60, 20)
INTERRUPTED: Final = 130

Numbers = Callable[[packing_tables.Results, Expected], tuple[dict[str, Any], list[packing_tables.View]]]


class Part(NamedTuple):
    """Experiments that go together, and what is told of them."""

    tasks: list[Task]
    numbers: Numbers


def parts(expected: Expected, *, quick: bool = False) -> dict[str, Part]:
    """All experiments by their names; `quick` takes two traces, two seeds and one load."""

    def few(values: Sequence[Any]) -> Sequence[Any]:
        return values[:2] if quick else values

    loads = (1.0,) if quick else LOADS
    return {
        "inflation": Part(list(inflations(few(TRACES), POLICIES, few(range(42, 52)))), packing_tables.inflation),
        "fresh": Part(
            list(inflations(few(expected.fresh_traces), FRESH_POLICIES, few(range(100, 110)))), packing_tables.fresh
        ),
        "churn": Part(list(churns(few(CHURN_TRACES), CHURN_POLICIES, few(range(4)), loads)), packing_tables.churn),
        "sampling": Part(
            list(inflations(few(TRACES), ("rsv",), few(range(42, 45)), CANDIDATES)), packing_tables.sampling
        ),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packing", description=__doc__)
    parser.add_argument("--only", choices=("inflation", "fresh", "churn", "sampling"), help="one of the experiments")
    parser.add_argument("--quick", action="store_true", help="two traces, two seeds; kept apart in out/packing-quick")
    parser.add_argument("--workers", type=_positive, metavar="N", help="processes (all cores)")
    parser.add_argument("--cluster", metavar="ADDRESS", help="tcp://HOST:PORT of Dask, ray://HOST:PORT of Ray")
    parser.add_argument("--data", type=Path, default=FOLDER, metavar="DIR", help="where the traces are")
    parser.add_argument("--anew", action="store_true", help="forget the results that are there")
    options = parser.parse_args(arguments)
    expected = Expected(FOLDER)
    chosen = parts(expected, quick=options.quick)
    if options.only:
        chosen = {options.only: chosen[options.only]}
    folder = report.OUT / ("packing-quick" if options.quick else "packing")
    failed = 0
    try:
        for name, part in chosen.items():
            failed += run(name, part, expected, folder, options)
    except KeyboardInterrupt:
        report.console.print("\nstopped; the same command goes on from here")
        return INTERRUPTED
    except (SweepError, TraceError) as err:
        report.console.print(f"[red]error:[/red] {err} (--anew forgets the results that are there)")
        return 2
    return 1 if failed else 0


def run(name: str, part: Part, expected: Expected, folder: Path, options: argparse.Namespace) -> int:
    """Runs what is missing of one part, and tells. Returns how many tasks failed."""
    with progress(name) as tell:
        swept = sweep(
            part.tasks,
            folder / f"{name}.jsonl",
            folder=options.data,
            workers=workers_at(options.cluster, options.workers),
            anew=options.anew,
            progress=tell,
        )
    numbers, views = part.numbers(swept.results, expected)
    for view in views:
        report.table(view.title, view.columns, view.rows)
    path = folder / f"{name}.md"
    path.write_text(packing_tables.markdown(views), encoding="utf-8")
    report.console.print(f"written to {path}")
    report.write(name, numbers | _effort(swept), folder)
    for task, error in swept.failures.items():
        report.console.print(f"[red]failed:[/red] {task.key}: {error}", markup=True)
    return len(swept.failures)


@contextmanager
def progress(name: str) -> Iterator[Progress]:
    """Says how far a part is: in one line where people watch, else now and then."""
    console = report.console
    if console.is_terminal:
        with console.status(name) as status:
            yield lambda done, total, key: status.update(f"{name}: {done} of {total}, {key}")
        return

    def tell(done: int, total: int, key: str) -> None:
        if done == total or done % max(total // 20, 1) == 0:
            console.print(f"{name}: {done} of {total}, {key}")

    yield tell


def _effort(swept: Swept) -> dict[str, Any]:
    walls = [result["wallSeconds"] for result in swept.results.values()]
    return {
        "simulations": len(walls),
        "simulationSeconds": round(sum(walls), 1),
        "failures": {task.key: error for task, error in swept.failures.items()},
    }


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


if __name__ == "__main__":
    raise SystemExit(main())
