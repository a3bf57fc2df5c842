"""The command line of the demo: `tangram demo`, or `python -m extender_api.demo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from extender_api.demo.objects import Pace
from extender_api.demo.trace import DEFAULT_TRACE, TraceError

SPEED: Final = Pace().speed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    pace = Pace()
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE, help="CSV file with pods (see benchmarks/data)")
    parser.add_argument("--pods", type=_positive, default=400, help="how many pods of the trace (%(default)s)")
    parser.add_argument(
        "--seconds", type=_positive, default=int(pace.arrive_s), help="within how many they come (%(default)s)"
    )
    parser.add_argument("--plain", action="store_true", help="plain lines also on a terminal")


def run(options: argparse.Namespace) -> int:
    """Runs the demo; 0 when every pod that can run did, 1 when not, 2 when there is no trace."""
    from extender_api.demo.run import DemoOptions, run_demo  # so that --help stays quick

    demo = DemoOptions(trace=options.trace, pods=options.pods, pace=Pace(float(options.seconds), SPEED))
    console = Console(highlight=False, force_terminal=False if options.plain else None)
    try:
        return run_demo(demo, console)
    except TraceError as err:
        print(f"tangram demo: {err}", file=sys.stderr)
        return 2


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def main() -> int:
    """`python -m extender_api.demo`."""
    parser = argparse.ArgumentParser(prog="python -m extender_api.demo", description=__doc__)
    add_arguments(parser)
    try:
        return run(parser.parse_args())
    except KeyboardInterrupt:
        return 130
