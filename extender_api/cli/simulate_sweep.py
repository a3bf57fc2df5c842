"""`tangram simulate sweep`: policies × traces × seeds of the openb experiments; goes on where it was stopped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extender_api.cli import output
from extender_api.errors import TangramError

if TYPE_CHECKING:
    from scheduler.simulate.sweep import Swept
    from scheduler.simulate.task import Task
    from scheduler.simulate.workers import Workers


class BadSweep(TangramError):
    """A sweep that cannot be; the text says what to change."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is run, where, and where it is kept."""
    parser.add_argument("--store", type=Path, required=True, metavar="FILE", help="where results are kept, one a line")
    parser.add_argument("--traces", default="default", metavar="A,B", help="traces, or all (default)")
    parser.add_argument("--policies", default="fgd,rsv", metavar="A,B", help="policies (fgd,rsv)")
    parser.add_argument("--seeds", type=_seeds, default=range(42, 52), metavar="FROM-TO", help="e.g. 42-51 (42-51)")
    parser.add_argument("--loads", type=_loads, default=(), metavar="A,B", help="churn at these loads, e.g. 0.9,1.0")
    parser.add_argument("--workers", type=int, metavar="N", help="processes on this machine (one for each core)")
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="run them on Dask (tcp://HOST:PORT) or Ray (ray://HOST:PORT)"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the traces are (benchmarks/data/openb)")
    parser.add_argument("--anew", action="store_true", help="forget what the file has")
    output.add_arguments(parser)


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise argparse.ArgumentTypeError(f'"{text}" are no seeds: write one, or FROM-TO as 42-51')
    return range(int(first), int(last or first) + 1)


def _loads(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" are no loads: write them as 0.9,1.0') from None


def run(arguments: argparse.Namespace) -> int:
    """0: all is done; 1: some runs failed; 2: bad input."""
    from scheduler.policy import PolicyError
    from scheduler.simulate.openb import FOLDER
    from scheduler.simulate.scenario import ScenarioError
    from scheduler.simulate.sweep import sweep
    from scheduler.simulate.task import SweepError

    try:
        swept = sweep(
            _tasks(arguments),
            arguments.store,
            folder=arguments.data or FOLDER,
            workers=_workers(arguments),
            anew=arguments.anew,
            progress=_tell if sys.stderr.isatty() else None,
        )
    except (SweepError, PolicyError, ScenarioError) as err:
        raise BadSweep(str(err)) from None
    except OSError as err:
        raise BadSweep(f"{arguments.store}: {err.strerror or err}") from None
    _show(arguments, swept)
    return 1 if swept.failures else 0


def _tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    from scheduler.simulate.openb import TRACES
    from scheduler.simulate.task import churns, inflations

    traces = TRACES if arguments.traces == "all" else arguments.traces.split(",")
    policies = arguments.policies.split(",")
    if arguments.loads:
        return churns(traces, policies, arguments.seeds, arguments.loads)
    return inflations(traces, policies, arguments.seeds)


def _workers(arguments: argparse.Namespace) -> Workers:
    if arguments.cluster:
        from scheduler.simulate.cluster_workers import workers_at

        return workers_at(arguments.cluster, arguments.workers)
    from scheduler.simulate.workers import LocalWorkers

    if arguments.workers is not None and arguments.workers < 1:
        raise BadSweep(f"--workers {arguments.workers}: there has to be one at least")
    return LocalWorkers(arguments.workers)


def _tell(done: int, total: int, key: str) -> None:
    print(f"\r{done} of {total}  {key:60}", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _show(arguments: argparse.Namespace, swept: Swept) -> None:
    rows: list[dict[str, Any]] = [
        {"task": task.key, **task._asdict(), **{key: result[key] for key in SHOWN}}
        for task, result in swept.results.items()
    ]
    if arguments.output == "json":
        output.print_json({"results": rows, "failures": {task.key: error for task, error in swept.failures.items()}})
        return
    for row in rows:
        served = row["servedPercent"]
        print(f"{row['task']:60} {row['gpuAllocationPercent']:8.2f} % allocated  {served or 0:8.2f} % served")
    for task, error in swept.failures.items():
        print(f"{task.key} failed: {error}", file=sys.stderr)


SHOWN = ("gpuAllocationPercent", "servedPercent", "servedEightGpuPercent", "refused")
