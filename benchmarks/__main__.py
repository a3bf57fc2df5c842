"""Runs the benchmarks: kernels and webhooks, with `--cluster` also throughput on a real control plane.

Tables go to the screen, numbers to benchmarks/out/NAME.json. Each benchmark also runs alone, with more options:
`python -m benchmarks.NAME --help`.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import Final

from benchmarks.report import console

ALONE: Final = ("decisions", "gangs", "kernels", "queues", "queue_rounds", "webhooks")
WITH_CLUSTER: Final = ("throughput", "gang_cluster")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which ones: {', '.join(ALONE + WITH_CLUSTER)}")
    parser.add_argument("--cluster", action="store_true", help="also those that need a real control plane")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {*ALONE, *WITH_CLUSTER}
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    names = options.names or (ALONE + WITH_CLUSTER if options.cluster else ALONE)
    failed = 0
    for name in names:
        console.print(f"\n[bold]{name}[/bold]")
        failed |= importlib.import_module(f"benchmarks.{name}").main([])
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
