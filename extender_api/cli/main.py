"""Which sub-commands there are. Each loads its own module only when it runs, so that `--help` stays quick."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, cast

from extender_api import __version__, siblings
from extender_api.errors import TangramError


class Command(NamedTuple):
    """A sub-command; `extender_api.cli.NAME` is its `CommandModule`."""

    name: str
    about: str


class CommandModule(Protocol):
    """What the module of a sub-command has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds its options. Must not import much: `--help` does it."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Does it; returns the exit status."""


COMMANDS: Final = (
    Command("serve", "run Tangram beside kube-scheduler (or --offline: only the stateless API)"),
    Command("plan", "plan Kubernetes objects from files, without a cluster"),
    Command("simulate", "what would happen: traces, job lists or manifests in virtual time"),
    Command("explain", "why a pod waits, or where it goes"),
    Command("queues", "the tree of queues, with bars: quota, share, used, waiting"),
    Command("queue", "queues by what they use now, refreshed: tangram queue top"),
    Command("nodes", "nodes and their devices, with bars"),
    Command("doctor", "check an installation and say how to mend it"),
    Command("uninstall", "remove Tangram from a cluster in the safe order"),
    Command("demo", "a stream of GPU pods through the webhooks, without a cluster"),
)
KUBECTL_PLUGIN: Final = "kubectl-tangram"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a sub-command; returns the exit status: 0 well, 1 the answer is no, 2 trouble."""
    argv = list(sys.argv[1:] if argv is None else argv)
    name = _program()
    try:
        siblings.check()
        _say_what_can_be_said()
        arguments = _parser(name, argv).parse_args(argv)
        name = f"{name} {arguments.command}"
        status = _module(arguments.command).run(arguments)
        sys.stdout.flush()
        return status
    except TangramError as err:
        for line in str(err).splitlines():
            print(f"{name}: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # who read our output has seen enough; what is left would fail once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:
        traceback.print_exc()
        return 2


def _parser(name: str, argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser. Only the sub-command that is called gets its options."""
    parser = argparse.ArgumentParser(prog=name, description="GPU scheduling for the kube-scheduler you have.")
    parser.add_argument("--version", action="version", version=f"tangram {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = next((word for word in argv if not word.startswith("-")), None)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.about, description=command.about)
        if command.name == wanted:
            _module(command.name).add_arguments(sub)
    return parser


def _module(name: str) -> CommandModule:
    return cast(CommandModule, importlib.import_module(f"extender_api.cli.{name}"))


def _program() -> str:
    return "kubectl tangram" if Path(sys.argv[0]).name == KUBECTL_PLUGIN else "tangram"


def _say_what_can_be_said() -> None:
    """A terminal that lacks a character shows another one; that is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
