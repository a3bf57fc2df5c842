"""`tangram simulate`: what would happen, in virtual time, decided by the code that decides live."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast, get_args

from extender_api.cli import output
from extender_api.errors import TangramError
from extender_api.settings import PolicyName

if TYPE_CHECKING:
    from scheduler.simulate.result import Result
    from scheduler.simulate.scenario import Scenario

POLICIES: Final = get_args(PolicyName)


class BadScenario(TangramError):
    """What is to be simulated cannot be read; the text says what to change."""


class Input(NamedTuple):
    """Where a scenario comes from; `extender_api.cli.simulate_NAME` is its `InputModule`."""

    name: str
    about: str


class InputModule(Protocol):
    """What the module of an input has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds its options. Must not import much: `--help` does it."""

    def scenario(self, arguments: argparse.Namespace) -> Scenario:
        """The scenario that the options say. Raises ScenarioError."""


SWEEP: Final = "sweep"
SWEEP_ABOUT: Final = "many runs of openb: policies × traces × seeds, on all cores or on a cluster, kept as they finish"
INPUTS: Final = (
    Input("openb", "the published trace of 1,213 nodes with 6,212 GPUs"),
    Input("philly", "a job list: who, when, how many GPUs, for how long"),
    Input("manifests", "Kubernetes objects with times"),
    Input("generate", "a cluster and jobs made up from options: what if"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sub-command for each kind of input."""
    kinds = parser.add_subparsers(dest="kind", metavar="INPUT", required=True)
    for kind in INPUTS:
        sub = kinds.add_parser(kind.name, help=kind.about, description=kind.about)
        _module(kind.name).add_arguments(sub)
        _add_common(sub)
    _module(SWEEP).add_arguments(kinds.add_parser(SWEEP, help=SWEEP_ABOUT, description=SWEEP_ABOUT))


def _module(name: str) -> InputModule:
    return cast(InputModule, importlib.import_module(f"extender_api.cli.simulate_{name}"))


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy", action="append", metavar="NAME",
        help=f"{', '.join(POLICIES)} (rsv); may be repeated to compare: -o json then is a list",
    )  # fmt: skip
    parser.add_argument("--seed", type=_seed, default=42, metavar="N", help="of all that is random (42)")
    parser.add_argument(
        "--candidates", type=_positive, metavar="K",
        help="see only K nodes with room, as kube-scheduler samples nodes; only where nothing waits",
    )  # fmt: skip
    parser.add_argument("--jobs", action="store_true", help="with -o json: every job, not only the sums")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write pictures there: of all policies in one")
    parser.add_argument("--plots-as", choices=("svg", "png"), default="svg", help="the form of the pictures (svg)")
    parser.add_argument("--no-series", action="store_true", help="with -o json: leave the time series out")
    output.add_arguments(parser)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no seed: write a whole number, 0 or more")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """0: it was simulated; 2: bad input."""
    if arguments.kind == SWEEP:
        from extender_api.cli import simulate_sweep

        return simulate_sweep.run(arguments)
    from scheduler.policy import PolicyError
    from scheduler.simulate.plots import PlotError
    from scheduler.simulate.scenario import ScenarioError

    try:
        results = _simulated(arguments)
        _draw(arguments, results)
    except PolicyError as err:
        raise BadScenario(f"--policy: {err}") from None
    except PlotError as err:
        raise BadScenario(f"--plots: {err}") from None
    except ScenarioError as err:
        raise BadScenario(str(err)) from None
    if arguments.output == "json":
        documents = [one.to_dict(jobs=arguments.jobs, series=not arguments.no_series) for one in results]
        output.print_json(documents[0] if len(documents) == 1 else documents)
    else:
        from extender_api.cli import simulate_text

        for result in results:
            simulate_text.show(result)
    return 0


def _simulated(arguments: argparse.Namespace) -> list[Result]:
    from scheduler.packing.named import policy_named
    from scheduler.simulate.run import Simulation

    names = list(dict.fromkeys(arguments.policy or ["rsv"]))
    policies = [policy_named(name) for name in names]
    scenario = _module(arguments.kind).scenario(arguments)
    if scenario.waits and arguments.candidates is not None:
        raise BadScenario("--candidates: jobs that wait are placed by the planner, which sees all nodes; drop it")
    results = []
    for name, policy in zip(names, policies, strict=True):
        with _progress(len(scenario.jobs)) as progress:
            simulation = Simulation(scenario, policy, name, candidates=arguments.candidates, progress=progress)
            results.append(simulation.run())
    return results


def _draw(arguments: argparse.Namespace, results: list[Result]) -> None:
    if arguments.plots is None:
        return
    from scheduler.simulate import plots

    for path in plots.save_all([one.to_dict() for one in results], arguments.plots, arguments.plots_as):
        print(f"written to {path}", file=sys.stderr)


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
