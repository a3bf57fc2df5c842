"""`tangram simulate philly FILE`: a job list like those of Microsoft's Philly clusters."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.simulate.scenario import Scenario


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The list, and the nodes."""
    parser.add_argument("file", type=Path, metavar="FILE", help="CSV (or .csv.gz): vc, arrival_s, gpus, duration_s")
    parser.add_argument("--nodes", type=int, default=80, metavar="N", help="how many nodes there are (80)")
    parser.add_argument("--gpus", type=int, default=8, metavar="N", help="GPUs of each node (8)")
    parser.add_argument("--days", type=float, default=30.0, metavar="N", help="jobs of the first N days (30)")


def scenario(arguments: argparse.Namespace) -> Scenario:
    """The scenario of the options. Raises ScenarioError."""
    from scheduler.simulate.philly import PhillyCluster, philly

    return philly(arguments.file, PhillyCluster(arguments.nodes, arguments.gpus, arguments.days))
