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
    parser.add_argument("--days", type=float, default=30.0, metavar="N", help="jobs of N days (30)")
    parser.add_argument("--start", type=float, default=0.0, metavar="N", help="from N days after the first job on (0)")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="X times as many jobs in a day (1)")
    parser.add_argument(
        "--quota", action="append", type=_quota, metavar="VC=GPUS",
        help="GPUs guaranteed to a virtual cluster, others get none; may be repeated (each its part of the work)",
    )  # fmt: skip


def _quota(text: str) -> tuple[str, int]:
    vc, equals, gpus = text.partition("=")
    if not (vc and equals and gpus.isdecimal()):
        raise argparse.ArgumentTypeError(f'"{text}": write VC=GPUS, e.g. 0e4a51=64')
    return vc, int(gpus)


def scenario(arguments: argparse.Namespace) -> Scenario:
    """The scenario of the options. Raises ScenarioError."""
    from scheduler.simulate.philly import PhillyCluster, philly

    cluster = PhillyCluster(
        arguments.nodes,
        arguments.gpus,
        arguments.days,
        arguments.start,
        arguments.scale,
        None if arguments.quota is None else dict(arguments.quota),
    )
    return philly(arguments.file, cluster)
