"""`tangram simulate`: what would happen, in virtual time, decided by the code that decides live."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from extender_api.cli import output
from extender_api.errors import TangramError
from extender_api.settings import PolicyName

if TYPE_CHECKING:
    from scheduler.simulate.result import Result
    from scheduler.simulate.scenario import Scenario

POLICIES: Final = get_args(PolicyName)


class BadScenario(TangramError):
    """What is to be simulated cannot be read; the text says what to change."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sub-command for each kind of input."""
    kinds = parser.add_subparsers(dest="kind", metavar="INPUT", required=True)
    openb = kinds.add_parser("openb", help="the published trace of 1,213 nodes with 6,212 GPUs")
    openb.add_argument("trace", metavar="TRACE", help="default, cpu250, gpushare60, gpuspec33, multigpu50, ...")
    openb.add_argument(
        "--load", type=float, metavar="LOAD",
        help="pods come and go at so much of the capacity, e.g. 1.0, and are lost where they find no place; without, "
        "none leaves and they come until they ask for 1.3 times the cluster",
    )  # fmt: skip
    openb.add_argument("--data", type=Path, metavar="DIR", help="where the traces are (benchmarks/data/openb)")
    openb.add_argument(
        "--candidates", type=_positive, metavar="K", help="see only K nodes with room, as kube-scheduler samples nodes"
    )
    openb.add_argument("--learn", action="store_true", help="let the policy learn the demand instead of knowing it")
    _add_common(openb)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", default="rsv", metavar="NAME", help=f"{', '.join(POLICIES)} (rsv)")
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="of all that is random (42)")
    parser.add_argument("--jobs", action="store_true", help="with -o json: every job, not only the sums")
    parser.add_argument("--no-series", action="store_true", help="with -o json: leave the time series out")
    output.add_arguments(parser)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def run(arguments: argparse.Namespace) -> int:
    """0: it was simulated; 2: bad input."""
    from scheduler.policy import PolicyError

    try:
        result = _simulated(arguments, _scenario(arguments))
    except PolicyError as err:
        raise BadScenario(f"--policy: {err}") from None
    if arguments.output == "json":
        output.print_json(result.to_dict(jobs=arguments.jobs, series=not arguments.no_series))
    else:
        from extender_api.cli import simulate_text

        simulate_text.show(result)
    return 0


def _scenario(arguments: argparse.Namespace) -> Scenario:
    from dataclasses import replace

    from scheduler.simulate import openb

    folder = arguments.data or openb.FOLDER
    try:
        if arguments.load is None:
            scenario = openb.inflation(arguments.trace, arguments.seed, folder)
        else:
            scenario = openb.churn(arguments.trace, arguments.seed, arguments.load, folder)
    except openb.TraceError as err:
        raise BadScenario(str(err)) from None
    return replace(scenario, mix=None) if arguments.learn else scenario


def _simulated(arguments: argparse.Namespace, scenario: Scenario) -> Result:
    from scheduler.packing.named import policy_named
    from scheduler.simulate.run import Simulation

    policy = policy_named(arguments.policy)
    candidates = getattr(arguments, "candidates", None)
    with _progress(len(scenario.jobs)) as progress:
        return Simulation(scenario, policy, arguments.policy, candidates=candidates, progress=progress).run()


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error while people watch."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=total)
        step = max(total // 200, 1)

        def tell(done: int, more: Any = None) -> None:
            if done % step == 0:
                bar.update(task, completed=done)

        yield tell
