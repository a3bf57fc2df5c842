"""Queues for people: amounts, bars, lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

UNLIMITED: Final = -1
BAR_WIDTH: Final = 20
_MIB: Final = 1 << 20
_UNITS: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (_MIB, "MiB"))
_TIMES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))
Json = dict[str, Any]


def milli(value: int) -> str:
    """Thousandths of devices or cores: `2.5`; `∞` for unlimited."""
    if value == UNLIMITED:
        return "∞"
    return f"{value / 1000:,.3f}".rstrip("0").rstrip(".")


def memory(value: int) -> str:
    """Bytes: `64 GiB`."""
    if value == UNLIMITED:
        return "∞"
    for unit, name in _UNITS:
        if abs(value) >= unit:
            return f"{value / unit:,.1f}".removesuffix(".0") + f" {name}"
    return f"{value:,} B"


def duration(value_ms: int) -> str:
    """A time for people: `40 s`, `12 min`, `3 h`."""
    for unit, name in _TIMES:
        if value_ms >= 2 * unit:
            return f"{value_ms / unit:,.0f} {name}"
    return f"{value_ms / 1000:,.0f} s"


def start(span: Json | None) -> str:
    """When a workload may start."""
    if span is None:
        return "unknown: how long those run that it waits for is not known"
    low, high = span["lowMs"], span["highMs"]
    if high is None:
        return f"not before {duration(low)} from now; the latest is not known"
    return f"in {duration(low)} to {duration(high)}, if those that it waits for run as long as before"


def level(found: Json) -> str:
    """A queue on the way up, in the resources that are asked for."""
    parts = []
    for name, key, shown in (("GPU", "gpuMilli", milli), ("CPU", "cpuMilli", milli), ("memory", "memoryBytes", memory)):
        if not found["asked"][key]:
            continue
        parts.append(
            f"{name} {shown(found['asked'][key])} asked, {shown(found['allocated'][key])} in use, "
            f"quota {shown(found['quota'][key])}, limit {shown(found['limit'][key])}, "
            f"share {shown(found['fairShare'][key])}"
        )
    return f"{found['queue']}: {'; '.join(parts) or 'asks for nothing that is divided'}"


def bar(queue: Json, most_milli: int, width: int = BAR_WIDTH) -> str:
    """GPUs of a queue beside the most that any has: used within quota, used beyond it, and the share still open.

    `█` used within the quota, `▓` used beyond it, `░` share not used.
    """
    if most_milli <= 0:
        return "·" * width
    used, quota, share = (queue[key]["gpuMilli"] for key in ("allocated", "quota", "fairShare"))
    within = used if quota == UNLIMITED else min(used, quota)
    ends = [
        _cell(within, most_milli, width),
        _cell(used, most_milli, width),
        _cell(max(share, used), most_milli, width),
    ]
    return "█" * ends[0] + "▓" * (ends[1] - ends[0]) + "░" * (ends[2] - ends[1]) + "·" * (width - ends[2])


def _cell(value: int, most: int, width: int) -> int:
    full = round(value * width / most)
    return min(max(full, 1) if value > 0 else 0, width)


def tree(answer: Json) -> Iterator[str]:
    """The tree with a line for each queue, then what is wrong with it."""
    queues: list[Json] = answer["queues"]
    depth: dict[str, int] = {}
    for queue in queues:
        depth[queue["name"]] = depth.get(queue["parent"] or "", -1) + 1
    most_milli = max((_most(queue) for queue in queues), default=0)
    names = {queue["name"]: "  " * depth[queue["name"]] + queue["name"] for queue in queues}
    width = max((len(name) for name in names.values()), default=0)
    head = ("QUEUE".ljust(width), "GPUS".ljust(BAR_WIDTH), "USED", "SHARE", "QUOTA", "LIMIT", "WAITING")
    yield "{}  {}  {:>8} {:>8} {:>8} {:>8} {:>8}".format(*head)
    for queue in queues:
        used, share, quota, limit = (
            milli(queue[key]["gpuMilli"]) for key in ("allocated", "fairShare", "quota", "limit")
        )
        line = f"{names[queue['name']].ljust(width)}  {bar(queue, most_milli)}"
        line += f"  {used:>8} {share:>8} {quota:>8} {limit:>8} {queue['waiting']:>8,}"
        yield line + _marks(queue)
    for finding in answer["findings"]:
        yield f"! {finding['message']}"


def _most(queue: Json) -> int:
    return max(int(queue[key]["gpuMilli"]) for key in ("allocated", "fairShare", "quota"))


def _marks(queue: Json) -> str:
    marks = ["cordoned"] if queue["cordoned"] else []
    marks += ["strict"] if queue["strictFifo"] else []
    marks += [] if queue["autoscaling"] == "hidden" else [f"autoscaling: {queue['autoscaling']}"]
    return f"  ({', '.join(marks)})" if marks else ""


def ranking(answer: Json) -> Iterator[str]:
    """Leaves by what they use of their share, those with the most waiting first among equals."""
    leaves = [queue for queue in answer["queues"] if queue["leaf"]]
    leaves.sort(key=lambda queue: (-queue["allocated"]["gpuMilli"], -queue["waiting"], queue["name"]))
    width = max((len(queue["name"]) for queue in leaves), default=5)
    head = ("QUEUE".ljust(width), "GPUS", "OF SHARE", "CPUS", "MEMORY", "REQUESTED", "WAITING")
    yield "{}  {:>8} {:>9} {:>9} {:>11} {:>10} {:>8}".format(*head)
    for queue in leaves:
        held, share = queue["allocated"], queue["fairShare"]["gpuMilli"]
        part = f"{held['gpuMilli'] * 100 // share} %" if share > 0 else "-"
        yield (
            f"{queue['name'].ljust(width)}  {milli(held['gpuMilli']):>8} {part:>9} {milli(held['cpuMilli']):>9} "
            f"{memory(held['memoryBytes']):>11} {milli(queue['requested']['gpuMilli']):>10} {queue['waiting']:>8,}"
        )
