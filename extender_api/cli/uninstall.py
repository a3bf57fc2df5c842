"""`tangram uninstall`: the policies that change pods first, then the gates of waiting pods; pods that run stay."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any

from extender_api.cli import connection, output

if TYPE_CHECKING:
    from extender_api.uninstall import UninstallReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The cluster, and how far to go."""
    connection.add_arguments(parser)
    connection.add_config_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--everything", action="store_true",
        help="also remove the rest of the base, unless pods still wait for a scheduler of our name; definitions of "
        "Queue, Topology and PodGroup stay while there are objects of them",
    )  # fmt: skip
    parser.add_argument(
        "--delete-objects", "--delete-queues", action="store_true", dest="delete_objects",
        help="with --everything: delete all Queues, Topologies and PodGroups and their definitions, too",
    )  # fmt: skip
    output.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0: no pod is left with our gate, or nothing was to be done; 1: some are, and the command is to be repeated."""
    from extender_api.doctor.listing import ListError
    from extender_api.errors import TangramError
    from extender_api.uninstall import uninstall

    if arguments.delete_objects and not arguments.everything:
        raise TangramError("--delete-objects needs --everything")
    settings = connection.settings_of(arguments)
    for_programs = arguments.output == "json"

    def say(line: str) -> None:
        print(line, file=sys.stderr if for_programs else sys.stdout, flush=True)

    try:
        report = asyncio.run(
            connection.with_client(
                settings,
                lambda client: uninstall(
                    client,
                    settings,
                    dry_run=arguments.dry_run,
                    say=say,
                    everything=arguments.everything,
                    delete_objects=arguments.delete_objects,
                ),
            )
        )
    except ListError as err:
        raise TangramError(str(err)) from None
    if for_programs:
        output.print_json(document(report, dry_run=arguments.dry_run))
    return 0 if report.complete or arguments.dry_run else 1


def document(report: UninstallReport, *, dry_run: bool) -> dict[str, Any]:
    """The report for programs; pods and PodGroups are `namespace/name`."""
    from extender_api.uninstall import OURS

    return {
        "dryRun": dry_run,
        "complete": report.complete,
        "removed": report.removed,
        "ungated": report.ungated,
        "stuck": [{"pod": pod, "why": why} for pod, why in report.stuck],
        "gated": [pod.key for pod in report.plan.gated],
        "waiting": list(report.plan.waiting),
        "shares": list(report.plan.shares),
        "running": report.plan.running,
        **{definition.plural: list(report.written.get(definition, ())) for definition in OURS},
    }
