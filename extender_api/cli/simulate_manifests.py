"""`tangram simulate manifests -f FILE…`: Kubernetes objects with times."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.simulate.scenario import Scenario


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files."""
    parser.add_argument(
        "-f", "--filename", action="append", required=True, metavar="FILE",
        help="YAML or JSON as tangram plan takes it; - is standard input; may be repeated. Pods come at their "
        "creationTimestamp and run for tangram.scheduler/simulated-duration, else tangram.scheduler/expected-runtime, "
        'else for ever; nodes are gone during tangram.scheduler/simulated-outage, e.g. "2h-3h30m,10h-"',
    )  # fmt: skip
    parser.add_argument(
        "--shares", action="store_true", help="let nodes without the label tangram.scheduler/shares take device shares"
    )


def scenario(arguments: argparse.Namespace) -> Scenario:
    """The scenario of the files. Raises ScenarioError."""
    from extender_api.cli.plan import gathered
    from extender_api.simulate_manifests import read
    from topology.inventory import InventorySettings

    objects, _ = gathered(arguments.filename)
    return read(objects, InventorySettings(shares_by_default=arguments.shares))
