"""`tangram simulate openb`: the published trace, with pods that only come or with pods that come and go."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.simulate.scenario import Scenario


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which trace, and how its pods come."""
    parser.add_argument("trace", metavar="TRACE", help="default, cpu250, gpushare60, gpuspec33, multigpu50, ...")
    parser.add_argument(
        "--load", type=float, metavar="LOAD",
        help="pods come and go at so much of the capacity, e.g. 1.0, and are lost where they find no place; without, "
        "none leaves and they come until they ask for 1.3 times the cluster",
    )  # fmt: skip
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the traces are (benchmarks/data/openb)")
    parser.add_argument("--learn", action="store_true", help="let the policy learn the demand instead of knowing it")


def scenario(arguments: argparse.Namespace) -> Scenario:
    """The scenario of the options. Raises ScenarioError."""
    from dataclasses import replace

    from scheduler.simulate import openb

    folder = arguments.data or openb.FOLDER
    if arguments.load is None:
        found = openb.inflation(arguments.trace, arguments.seed, folder)
    else:
        found = openb.churn(arguments.trace, arguments.seed, arguments.load, folder)
    return replace(found, mix=None) if arguments.learn else found
