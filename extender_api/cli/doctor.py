"""`tangram doctor`: looks at an installation and says what is wrong and how to mend it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from extender_api.cli import connection, output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The cluster, and a scheduler's configuration that no installation of ours holds."""
    connection.add_arguments(parser)
    connection.add_config_argument(parser)
    parser.add_argument(
        "--scheduler-config", metavar="FILE", type=Path,
        help="also check this KubeSchedulerConfiguration, of a kube-scheduler that calls Tangram",
    )  # fmt: skip
    output.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0: it works, perhaps with warnings; 1: something does not."""
    from rich.console import Console

    from extender_api.doctor import render
    from extender_api.doctor.finding import Level, worst
    from extender_api.doctor.run import run_doctor

    settings = connection.settings_of(arguments)
    findings = asyncio.run(
        connection.with_client(settings, lambda client: run_doctor(client, settings, arguments.scheduler_config))
    )
    if arguments.output == "json":
        output.print_json(render.for_programs(findings))
    else:
        Console(highlight=False).print(render.for_people(findings))
    return 1 if worst(findings) is Level.ERROR else 0
