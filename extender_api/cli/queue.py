"""`tangram queue top`: who uses how much now, again and again."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from extender_api.cli import ops_client, output, queue_lines

CLEAR: Final = "\x1b[H\x1b[2J"
SHORTEST_S: Final = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, how often, and where to ask."""
    parser.add_argument("what", choices=["top"], help="top: leaves by the GPUs they use")
    parser.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between looks (2)")
    parser.add_argument("--once", action="store_true", help="look once; so it is, too, where the output is no terminal")
    ops_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; 1: there is no answer."""
    again = sys.stdout.isatty() and not arguments.once and arguments.output == "text"
    while True:
        status, answer = ops_client.ask(arguments, "queues")
        if status != 200:
            print(f"tangram queue top: {ops_client.refusal(status, answer)}", file=sys.stderr)
            return 1
        if arguments.output == "json":
            output.print_json([queue for queue in answer["queues"] if queue["leaf"]])
        else:
            print((CLEAR if again else "") + "\n".join(queue_lines.ranking(answer)), flush=True)
        if not again:
            return 0
        time.sleep(max(arguments.every, SHORTEST_S))
