"""`tangram queues`: the tree of queues with bars."""

from __future__ import annotations

import argparse
import sys

from extender_api.cli import ops_client, output, queue_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to ask."""
    ops_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0: all is well; 1: something is wrong with the tree, or there is no answer."""
    status, answer = ops_client.ask(arguments, "queues")
    if status != 200:
        print(f"tangram queues: {ops_client.refusal(status, answer)}", file=sys.stderr)
        return 1
    if arguments.output == "json":
        output.print_json(answer)
    else:
        if not answer["active"]:
            print(f"tangram queues: {ops_client.STANDBY}", file=sys.stderr)
        if answer["implicit"]:
            print("no Queues are defined: everything is in one, unlimited")
        print("\n".join(queue_lines.tree(answer)))
    return 1 if answer["findings"] else 0
