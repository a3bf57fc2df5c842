"""`tangram nodes`: every node with its devices and how full they are."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from extender_api.cli import ops_client, output

BAR_WIDTH: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which nodes, and where to ask."""
    parser.add_argument("node", nargs="*", help="only these nodes")
    parser.add_argument("--devices", action="store_true", help="only nodes that have devices")
    ops_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0: all is shown; 1: a node that was asked for is not there."""
    status, answer = ops_client.ask(arguments, "nodes")
    if status != 200:
        print(f"tangram nodes: {ops_client.refusal(status, answer)}", file=sys.stderr)
        return 1
    if ops_client.is_standby(answer):
        print(f"tangram nodes: {ops_client.STANDBY}", file=sys.stderr)
    missing = sorted(set(arguments.node) - {node["name"] for node in answer})
    chosen = [node for node in answer if not arguments.node or node["name"] in arguments.node]
    if arguments.devices:
        chosen = [node for node in chosen if has_devices(node)]
    for name in missing:
        print(f"tangram nodes: no node {name}", file=sys.stderr)
    if arguments.output == "json":
        output.print_json(chosen)
    elif chosen:
        print("\n".join(line for node in chosen for line in lines(node)))
    elif not missing:
        print("no nodes", file=sys.stderr)
    return 1 if missing else 0


def has_devices(node: dict[str, Any]) -> bool:
    """Whether a node has devices, told apart or only counted."""
    return bool(node["devices"]) or any(count["allocatable"] for count in node["counted"].values())


def bar(used: int, total: int, width: int = BAR_WIDTH) -> str:
    """A bar of `width` blocks; anything used shows at least one, anything free leaves at least one."""
    if total <= 0:
        return "·" * width
    full = round(max(used, 0) * width / total)
    full = max(full, 1) if used > 0 else 0
    full = min(full, width - 1) if used < total else width
    return "█" * full + "░" * (width - full)


def lines(node: dict[str, Any]) -> list[str]:
    """One node for people: a head line, and a line for each device or counted resource."""
    marks = [node["kind"]] if node["virtual"] else []
    marks += [] if node["ready"] else ["not ready"]
    marks += ["unschedulable"] if node["unschedulable"] else []
    what = node["product"] or ("devices of unknown product" if has_devices(node) else "no devices")
    head = f"{node['name']}  {what}  {node['pods']} {'pod' if node['pods'] == 1 else 'pods'}"
    out = [head + (f"  ({', '.join(marks)})" if marks else "")]
    out += ["  " + _device(device) for device in node["devices"]]
    if not node["devices"]:
        out += [_counted(resource, count) for resource, count in node["counted"].items() if count["allocatable"]]
    return out + [f"  ! {warning}" for warning in node["warnings"]]


def _counted(resource: str, count: dict[str, int]) -> str:
    used = count["allocatable"] - count["free"]
    return f"  {bar(used, count['allocatable'])}  {used}/{count['allocatable']} {resource}"


def _device(device: dict[str, Any]) -> str:
    used_milli = 1000 - device["freeMilli"]
    used_mib, total_mib = device["memoryMiB"] - device["freeMemoryMiB"], device["memoryMiB"]
    share = used_milli if total_mib == 0 else max(used_milli, used_mib * 1000 // total_mib)
    whole = any(holder["milli"] == 1000 for holder in device["holders"])
    state = "whole" if whole else f"{used_milli / 10:g} %"
    memory = f"{used_mib:,}/{total_mib:,} MiB" if total_mib else "memory unknown"
    who = ", ".join(_holder(holder) for holder in device["holders"])
    health = "" if device["healthy"] else "  UNHEALTHY"
    return f"{device['index']:>2} {bar(share, 1000)} {state:>6}  {memory}{health}  {who}".rstrip()


def _holder(holder: dict[str, Any]) -> str:
    """The pod; with a ? where nobody wrote down which devices it has."""
    return str(holder["pod"]) + ("?" if holder["guessed"] else "")
