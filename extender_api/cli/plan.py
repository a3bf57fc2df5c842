"""`tangram plan -f FILE…`: plans objects from files; the same function as POST /api/v1/plan."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from extender_api.errors import TangramError


class UnreadableFile(TangramError):
    """A file that cannot be read as Kubernetes objects."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files and options."""
    parser.add_argument(
        "-f", "--filename", action="append", required=True, metavar="FILE",
        help="YAML or JSON: objects, a List, or a whole plan document; - is standard input; may be repeated",
    )  # fmt: skip
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="form of the answer")
    parser.add_argument("--now", metavar="TIME", help="the time to plan at, e.g. 2026-01-01T00:00:00Z (default: now)")
    for what in ("cpu", "gpu", "device"):
        parser.add_argument(f"--placement-{what}", choices=["binpack", "spread"], help=f"placement of {what}")
    parser.add_argument(
        "--shares", action="store_true",
        help="let nodes without the label tangram.scheduler/shares take device shares",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """0: everything is placed; 1: something waits; 2: bad input."""
    from extender_api import plan_document
    from topology.inventory import InventorySettings

    document = _document(arguments)
    inventory = InventorySettings(shares_by_default=arguments.shares)
    try:
        answer = plan_document.answer(document, inventory=inventory)
    except plan_document.BadPlanInput as err:
        if arguments.output == "json":
            print(json.dumps({"warnings": err.warnings}, indent=2))
        for warning in err.warnings:
            print(f"tangram plan: {warning}", file=sys.stderr)
        return 2
    if arguments.output == "json":
        print(json.dumps(answer, indent=2))
    else:
        print("\n".join(lines(answer)))
    return 1 if answer["pending"] else 0


def _document(arguments: argparse.Namespace) -> dict[str, Any]:
    objects: list[Any] = []
    options: dict[str, Any] = {}
    for filename in arguments.filename:
        for item in _items(filename):
            if isinstance(item, dict) and "objects" in item and "kind" not in item:
                objects += item["objects"] if isinstance(item["objects"], list) else [item["objects"]]
                options |= item.get("options") or {}
            elif isinstance(item, dict) and item.get("kind") == "List":
                objects += item.get("items") or []
            elif item is not None:
                objects.append(item)
    if arguments.now:
        options["now"] = arguments.now
    placement = {what: value for what in ("cpu", "gpu", "device") if (value := getattr(arguments, f"placement_{what}"))}
    if placement:
        options["placement"] = {**options.get("placement", {}), **placement}
    return {"objects": objects, "options": options}


def _items(filename: str) -> Iterator[Any]:
    try:
        content = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        yield from yaml.load_all(content, Loader=_Loader)
    except OSError as err:
        raise UnreadableFile(f"{filename}: {err.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise UnreadableFile(f"{filename}: {err}") from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as the API server reads it: a time stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def lines(answer: dict[str, Any]) -> list[str]:
    """The plan for people."""
    out = []
    for item in answer["placements"]:
        devices = ", ".join(_device(device) for device in item["devices"])
        when = "" if item["when"] == "now" else "  (after a release)"
        out.append(
            f"{item['namespace']}/{item['name']} → {item['node']}" + (f"  [{devices}]" if devices else "") + when
        )
    for item in answer["pending"]:
        out.append(f"{item['namespace']}/{item['workload']} waits: {item['reason']['message']}")
    out += [f"! {warning}" for warning in answer["warnings"]]
    return out or ["nothing to plan"]


def _device(device: dict[str, int]) -> str:
    if device["milli"] == 1000:
        return f"gpu{device['index']}"
    return f"gpu{device['index']} {device['milli'] / 10:g} % {device['memoryMiB']:,} MiB"
