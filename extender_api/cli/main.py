"""Which sub-commands there are. Each loads its own module only when it runs, so that `--help` stays quick."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from extender_api import __version__
from extender_api.errors import TangramError


class Command(NamedTuple):
    """A sub-command: its module has `add_arguments(parser)` and `run(arguments) -> exit status`."""

    name: str
    about: str


COMMANDS: Final = (
    Command("serve", "run Tangram beside kube-scheduler (or --offline: only the stateless API)"),
    Command("plan", "plan Kubernetes objects from files, without a cluster"),
    Command("explain", "why a pod waits, or where it goes"),
    Command("nodes", "nodes and their devices, with bars"),
    Command("doctor", "check an installation and say how to mend it"),
    Command("uninstall", "remove Tangram from a cluster in the safe order"),
    Command("demo", "a stream of GPU pods through the webhooks, without a cluster"),
)


def _module(name: str) -> object:
    return importlib.import_module(f"extender_api.cli.{name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a sub-command; returns the exit status: 0 well, 1 the answer is no, 2 trouble."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="tangram", description="GPU scheduling for the kube-scheduler you have.")
    parser.add_argument("--version", action="version", version=f"tangram {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = next((word for word in argv if not word.startswith("-")), None)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.about, description=command.about)
        if command.name == wanted:
            _module(command.name).add_arguments(sub)  # type: ignore[attr-defined]
    arguments = parser.parse_args(argv)
    try:
        status: int = _module(arguments.command).run(arguments)  # type: ignore[attr-defined]
        return status
    except TangramError as err:
        print(f"tangram {arguments.command}: {err}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
