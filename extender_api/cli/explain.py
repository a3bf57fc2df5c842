"""`tangram explain POD`: where a pod is on its way, where it goes, or why it waits."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any, Final

from extender_api.cli import ops_client, output, queue_lines

NOT_ON_ITS_WAY: Final = ("waiting", "unqueued", "refused", "held")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """POD and where to ask."""
    parser.add_argument("pod", metavar="[NAMESPACE/]POD")
    parser.add_argument("-n", "--namespace", default="default", help="namespace of the pod (default)")
    ops_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0: bound or on its way; 1: waits, refused or unknown."""
    namespace, _, name = arguments.pod.rpartition("/")
    status, answer = ops_client.ask(arguments, "workloads", namespace or arguments.namespace, name)
    if status != 200:
        print(f"tangram explain: {ops_client.refusal(status, answer)}", file=sys.stderr)
        return 1
    if arguments.output == "json":
        output.print_json(answer)
    else:
        print("\n".join(lines(answer)))
    return 1 if answer["stage"] in NOT_ON_ITS_WAY else 0


def lines(answer: dict[str, Any]) -> list[str]:
    """The answer for people."""
    out = [f"{answer['namespace']}/{answer['name']}: {answer['stage']}"]
    if answer["node"]:
        out.append(f"  node     {answer['node']}")
    out += [f"  device   {device['index']}: {_share(device)}" for device in answer["devices"]]
    if answer["reason"]:
        out.append(f"  reason   {answer['reason']['message']}  [{answer['reason']['code']}]")
    out += _gang(answer.get("gang"))
    out += _wait(answer)
    if answer["difference"]:
        out.append(f"  note     {answer['difference']}")
    if not answer["active"]:
        out.append(f"  note     {ops_client.STANDBY}")
    return out + [_step(step) for step in answer["story"]]


def _gang(gang: dict[str, Any] | None) -> list[str]:
    """Its gang, where it has one."""
    if gang is None:
        return []
    needs = gang["missing"] or f"needs {gang['minimum']:,}"
    leaf = f", in {gang['leaf']['name']}" if gang["leaf"]["name"] else ""
    return [f"  gang     {gang['key']}{leaf}: {gang['present']:,} pods, {gang['placed']:,} with a place, {needs}"]


def _wait(answer: dict[str, Any]) -> list[str]:
    """The queue, level by level, and what is known about the end of the wait."""
    out = [f"  queue    {answer['queue']}"] if answer["queue"] else []
    if answer["ahead"] is None:
        return out
    out += [f"  level    {queue_lines.level(level)}" for level in answer["levels"]]
    out += [f"  needs    {remedy['message']}" for remedy in answer["remedies"]]
    waits_s = answer["waitingMs"] / 1000
    out.append(f"  position {answer['ahead'] + 1:,} of those that wait in its queue; waiting for {waits_s:,.0f} s")
    if answer["reservedNode"]:
        out.append(f"  reserved what frees on node {answer['reservedNode']} is kept for it")
    out.append(f"  start    {queue_lines.start(answer['startsIn'])}")
    return out


def _share(device: dict[str, Any]) -> str:
    if device["milli"] == 0:
        return f"{device['memoryMiB']:,} MiB"
    return f"{device['milli'] / 10:g} % of compute, {device['memoryMiB']:,} MiB"


def _step(step: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(step["atMs"] // 1000, UTC)
    return f"  {moment:%Y-%m-%d %H:%M:%S}.{step['atMs'] % 1000:03d}Z {step['stage']:<9} {step['cause']}"
