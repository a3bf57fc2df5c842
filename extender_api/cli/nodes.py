"""`tangram nodes`: every node with its devices and how full they are."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from extender_api.cli import ops_client

BAR_WIDTH: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which nodes, and where to ask."""
    parser.add_argument("node", nargs="*", help="only these nodes")
    parser.add_argument("--devices", action="store_true", help="only nodes that have devices")
    ops_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the table."""
    status, answer = ops_client.ask(arguments, "/api/v1/nodes")
    if status != 200:
        print(f"tangram nodes: {answer}", file=sys.stderr)
        return 1
    chosen = [node for node in answer if not arguments.node or node["name"] in arguments.node]
    if arguments.devices:
        chosen = [node for node in chosen if node["devices"] or node["counted"]]
    missing = set(arguments.node) - {node["name"] for node in chosen}
    for name in sorted(missing):
        print(f"tangram nodes: no node {name}", file=sys.stderr)
    if arguments.output == "json":
        print(json.dumps(chosen, indent=2))
    else:
        print("\n".join(line for node in chosen for line in lines(node)))
    return 1 if missing else 0


def bar(used: int, total: int, width: int = BAR_WIDTH) -> str:
    """A bar of `width` blocks; anything used shows at least one, anything free leaves at least one."""
    if total <= 0:
        return "·" * width
    full = round(used * width / total)
    full = max(full, 1) if used > 0 else 0
    full = min(full, width - 1) if used < total else width
    return "█" * full + "░" * (width - full)


def lines(node: dict[str, Any]) -> list[str]:
    """One node for people: a head line, and a line for each device."""
    marks = [node["kind"]] if node["virtual"] else []
    marks += [] if node["ready"] else ["not ready"]
    marks += ["unschedulable"] if node["unschedulable"] else []
    head = f"{node['name']}  {node['product'] or 'no devices known'}  {node['pods']} pods"
    out = [head + (f"  ({', '.join(marks)})" if marks else "")]
    for device in node["devices"]:
        out.append("  " + _device(device))
    if not node["devices"]:
        for resource, count in node["counted"].items():
            used = count["allocatable"] - count["free"]
            out.append(f"  {bar(used, count['allocatable'])}  {used}/{count['allocatable']} {resource}")
    return out + [f"  ! {warning}" for warning in node["warnings"]]


def _device(device: dict[str, Any]) -> str:
    whole = any(holder["milli"] == 1000 for holder in device["holders"])
    used_milli = 1000 - device["freeMilli"]
    used_mib = device["memoryMiB"] - device["freeMemoryMiB"]
    total_mib = device["memoryMiB"]
    share = used_milli if total_mib == 0 else max(used_milli, used_mib * 1000 // total_mib)
    state = "whole" if whole else f"{used_milli / 10:g} %"
    memory = f"{used_mib:,}/{total_mib:,} MiB" if total_mib else "memory unknown"
    who = ", ".join(holder["pod"] for holder in device["holders"])
    health = "" if device["healthy"] else "  UNHEALTHY"
    return f"{device['index']:>2} {bar(share, 1000)} {state:>6}  {memory}{health}  {who}".rstrip()
