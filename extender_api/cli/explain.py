"""`tangram explain POD`: where a pod is on its way, where it goes, or why it waits."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from extender_api.cli import ops_client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """POD and where to ask."""
    parser.add_argument("pod", metavar="[NAMESPACE/]POD")
    parser.add_argument("-n", "--namespace", default="default", help="namespace of the pod (default)")
    ops_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0: bound or on its way; 1: waits, refused or unknown."""
    namespace, _, name = arguments.pod.rpartition("/")
    namespace = namespace or arguments.namespace
    status, answer = ops_client.ask(arguments, f"/api/v1/workloads/{namespace}/{name}")
    if status != 200:
        detail = answer.get("detail") if isinstance(answer, dict) else None
        print(f"tangram explain: {detail or f'status {status}'}", file=sys.stderr)
        return 1
    if arguments.output == "json":
        print(json.dumps(answer, indent=2))
    else:
        print("\n".join(lines(answer)))
    return 1 if answer["stage"] in ("waiting", "refused", "held") else 0


def lines(answer: dict[str, Any]) -> list[str]:
    """The answer for people."""
    out = [f"{answer['namespace']}/{answer['name']}: {answer['stage']}"]
    if answer["node"]:
        out.append(f"  node     {answer['node']}")
    out += [
        f"  device   {device['index']}: {device['milli'] / 10:g} % of compute, {device['memoryMiB']:,} MiB"
        for device in answer["devices"]
    ]
    if answer["reason"]:
        out.append(f"  reason   {answer['reason']['message']}  [{answer['reason']['code']}]")
    if answer["ahead"] is not None:
        out.append(
            f"  position {answer['ahead'] + 1} of those that wait; waiting for {answer['waitingMs'] / 1000:.0f} s"
        )
    if answer["difference"]:
        out.append(f"  note     {answer['difference']}")
    if not answer.get("active", True):
        out.append("  note     answered by the standby replica, which knows no plans")
    for step in answer["story"]:
        moment = datetime.fromtimestamp(step["atMs"] / 1000, UTC)
        out.append(f"  {moment:%H:%M:%S}.{step['atMs'] % 1000:03d} {step['stage']:<9} {step['cause']}")
    return out
