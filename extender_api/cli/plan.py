"""`tangram plan -f FILE…`: plans objects from files; the same function as POST /api/v1/plan."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from extender_api.cli import connection, output, queue_lines
from extender_api.errors import TangramError
from extender_api.settings import PolicyName

POLICIES: Final = ("binpack", "spread")
PLACES: Final = {"cpu": "nodes for pods without devices", "gpu": "nodes for pods with devices", "device": "devices"}


class UnreadableFile(TangramError):
    """A file that cannot be read as Kubernetes objects."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files and options."""
    parser.add_argument(
        "-f", "--filename", action="append", required=True, metavar="FILE",
        help="YAML or JSON: objects, a List, or a whole plan document; - is standard input; may be repeated",
    )  # fmt: skip
    parser.add_argument("--now", metavar="TIME", help="the time to plan at, e.g. 2026-01-01T00:00:00Z (default: now)")
    parser.add_argument(
        "--policy", metavar="NAME", choices=get_args(PolicyName), help="how all places are chosen (binpack)"
    )
    for place, about in PLACES.items():
        parser.add_argument(f"--placement-{place}", choices=POLICIES, help=f"how {about} are chosen (binpack)")
    parser.add_argument(
        "--shares", action="store_true",
        help="let nodes without the label tangram.scheduler/shares take device shares",
    )  # fmt: skip
    connection.add_config_argument(parser)
    output.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0: everything is placed; 1: something waits; 2: bad input."""
    from extender_api import plan_document
    from extender_api.core_settings import claim_rules, inventory_settings

    settings = connection.settings_of(arguments, devices__shares_by_default=arguments.shares or None)
    document = _document(arguments)
    try:
        answer = plan_document.answer(document, inventory=inventory_settings(settings), rules=claim_rules(settings))
    except plan_document.BadPlanInput as err:
        if arguments.output == "json":
            output.print_json({"warnings": err.warnings})
        for warning in err.warnings:
            print(f"tangram plan: {warning}", file=sys.stderr)
        return 2
    if arguments.output == "json":
        output.print_json(answer)
    else:
        print("\n".join(lines(answer)))
    return 1 if answer["pending"] else 0


def _document(arguments: argparse.Namespace) -> dict[str, Any]:
    """One plan document of all files and options."""
    objects, options = gathered(arguments.filename)
    if arguments.now:
        options["now"] = arguments.now
    placement = {place: value for place in PLACES if (value := getattr(arguments, f"placement_{place}"))}
    if arguments.policy:
        if placement:
            raise UnreadableFile("--policy says how all places are chosen: drop it, or the options --placement-…")
        options["placement"] = arguments.policy
    elif placement:
        given = options.get("placement")
        given = dict.fromkeys(PLACES, given) if isinstance(given, str) else given or {}
        options["placement"] = {**given, **placement}
    return {"objects": objects, "options": options}


def gathered(filenames: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """The objects of all files, and the options of whole plan documents among them. Raises UnreadableFile."""
    objects: list[Any] = []
    options: dict[str, Any] = {}
    for filename in filenames:
        for item in _items(filename):
            if isinstance(item, dict) and "objects" in item and "kind" not in item:
                objects += item["objects"] if isinstance(item["objects"], list) else [item["objects"]]
                options |= _options(item.get("options"), filename)
            elif item is not None:  # an empty YAML document
                objects.append(item)
    return objects, options


def _options(given: Any, filename: str) -> dict[str, Any]:
    if given is not None and not isinstance(given, dict):
        raise UnreadableFile(f'{filename}: "options" must be an object')
    return given or {}


def _items(filename: str) -> Iterator[Any]:
    """The documents of a file."""
    import yaml

    from extender_api.plan_yaml import Loader

    try:
        content = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        yield from yaml.load_all(content, Loader=Loader)
    except OSError as err:
        raise UnreadableFile(f"{filename}: {err.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise UnreadableFile(f"{filename}: {err}") from None


def lines(answer: dict[str, Any]) -> list[str]:
    """The plan for people."""
    out = [_placed(item) for item in answer["placements"]]
    out += [f"{item['namespace']}/{item['workload']} waits: {item['reason']['message']}" for item in answer["pending"]]
    out = out or ["nothing to plan"]
    out += [_queue(item) for item in answer["queues"]]
    return out + [f"! {warning}" for warning in answer["warnings"]]


def _queue(item: dict[str, Any]) -> str:
    held, share, wanted = (queue_lines.milli(item[key]["gpuMilli"]) for key in ("allocated", "fairShare", "requested"))
    return f"queue {item['name']}: {held} GPUs held, of {wanted} asked for; fair share {share}"


def _placed(item: dict[str, Any]) -> str:
    devices = ", ".join(_device(device) for device in item["devices"])
    text = f"{item['namespace']}/{item['name']} → {item['node']}"
    text += f"  [{devices}]" if devices else ""
    return text if item["when"] == "now" else f"{text}  (after a release)"


def _device(device: dict[str, int]) -> str:
    if device["milli"] == 1000:
        return f"gpu{device['index']}"
    compute = f"{device['milli'] / 10:g} % " if device["milli"] else ""
    return f"gpu{device['index']} {compute}{device['memoryMiB']:,} MiB"
