"""`tangram simulate generate`: a cluster and jobs made up from options, to see what would happen if."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from topology import duration

if TYPE_CHECKING:
    from scheduler.simulate.generate import QueueShape
    from scheduler.simulate.making import JobShape, NodeShape
    from scheduler.simulate.scenario import Scenario

NODES: Final = ("16x8",)
MIX: Final = ("cpu=10@30m", "0.25=10@1h", "0.5=15@1h", "1=45@2h", "2=8@3h", "4=6@4h", "8=5@6h", "16=1@8h")
CORES_PER_GPU: Final = 12
GIB_PER_GPU: Final = 96
PLAIN_CORES: Final = 64
JOB_MILLI_PER_GPU: Final = 8000
JOB_GIB_PER_GPU: Final = 48
PLAIN_JOB_MILLI: Final = 4000
PLAIN_JOB_GIB: Final = 16
_GIB: Final = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is made up."""
    parser.add_argument(
        "--nodes", action="append", type=_nodes, metavar="COUNTxGPUS[:PRODUCT]",
        help=f"so many nodes with so many GPUs each, 12 cores and 96 GiB per GPU; may be repeated ({' '.join(NODES)})",
    )  # fmt: skip
    parser.add_argument(
        "--mix", action="append", type=_mix, metavar="SIZE=WEIGHT[@TIME]",
        help="jobs of SIZE GPUs (a fraction below 1, a number, or cpu), how often they come among others, and how long "
        "they run on average, e.g. 0.5=15@1h; what is larger than the largest node is a gang over several nodes; may "
        f"be repeated ({' '.join(MIX)})",
    )  # fmt: skip
    parser.add_argument(
        "--load", type=_percent, default=90, metavar="LOAD", help="GPU time asked for, of what there is (0.9)"
    )
    parser.add_argument("--span", type=_time, default=86_400_000, metavar="TIME", help="for how long jobs come (24h)")
    parser.add_argument(
        "--queue", action="append", type=_queue, metavar="NAME=PART[:QUOTA]",
        help="a queue to which so large a part of the jobs goes, with so many GPUs guaranteed; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--gangs", type=_percent, default=0, metavar="PART",
        help="which part of the jobs of several GPUs on one node comes as a gang of pods of one GPU, e.g. 0.3 (0)",
    )  # fmt: skip
    parser.add_argument(
        "--spread", type=_percent, metavar="S",
        help="run times are lognormal, S is the standard deviation of their logarithm, e.g. 1.5 (exponential)",
    )  # fmt: skip
    parser.add_argument("--failures", type=_time, metavar="TIME", help="mean time between failures of a node (never)")
    parser.add_argument("--repair", type=_time, default=3_600_000, metavar="TIME", help="how long it is gone then (1h)")
    parser.add_argument("--lost", action="store_true", help="jobs that find no place are lost instead of waiting")


def scenario(arguments: argparse.Namespace) -> Scenario:
    """The scenario of the options. Raises ScenarioError."""
    from scheduler.simulate.generate import Description, Failures, generate

    nodes = tuple(arguments.nodes or map(_nodes, NODES))
    largest = max(shape.gpus for shape in nodes)
    mix = arguments.mix or [part for part in map(_mix, MIX) if fits_default(part, nodes)]
    described = Description(
        nodes,
        tuple(job_shape(part, largest) for part in mix),
        arguments.load,
        arguments.span,
        queues=tuple(arguments.queue or ()),
        gang_percent=arguments.gangs,
        failures=None if arguments.failures is None else Failures(arguments.failures, arguments.repair),
        waits=not arguments.lost,
        sigma_percent=arguments.spread,
    )
    return generate(described, arguments.seed)


Part = tuple[int, int, int]
"""Milli-GPU, weight, and milliseconds of run time."""


def fits_default(part: Part, nodes: tuple[NodeShape, ...]) -> bool:
    """Whether jobs of the usual mix have a place in the cluster at all: small clusters get no large ones."""
    milli, largest = part[0], max(shape.gpus for shape in nodes)
    if milli <= 1000 * largest:
        return True
    return largest > 0 and milli % (1000 * largest) == 0 and milli <= 500 * sum(one.count * one.gpus for one in nodes)


def job_shape(part: Part, largest: int) -> JobShape:
    """Jobs of a size, on nodes of which the largest has so many GPUs. Raises ScenarioError."""
    from scheduler.simulate.making import JobShape
    from scheduler.simulate.scenario import ScenarioError

    milli, weight, mean_ms = part
    if milli == 0:
        return JobShape(weight, 1, 0, 0, PLAIN_JOB_MILLI, PLAIN_JOB_GIB * _GIB, mean_ms)
    if milli < 1000:
        memory = JOB_GIB_PER_GPU * _GIB * milli // 1000
        return JobShape(weight, 1, 1, milli, JOB_MILLI_PER_GPU * milli // 1000, memory, mean_ms)
    gpus, pods = milli // 1000, 1
    if gpus > largest:
        if not largest or gpus % largest:
            raise ScenarioError(f"--mix {gpus}: no multiple of {largest}, the GPUs of the largest node: write one")
        gpus, pods = largest, gpus // largest
    return JobShape(weight, pods, gpus, 1000, JOB_MILLI_PER_GPU * gpus, JOB_GIB_PER_GPU * _GIB * gpus, mean_ms)


# -- how options are written ---------------------------------------------------------------------------------------
def _nodes(text: str) -> NodeShape:
    from scheduler.simulate.making import NodeShape

    size, _, product = text.partition(":")
    count, by, gpus = size.partition("x")
    if not (by and count.isdecimal() and gpus.isdecimal() and int(count)):
        raise argparse.ArgumentTypeError(f'"{text}": write COUNTxGPUS, e.g. 16x8 or 16x8:A100-80GB')
    cores, gib = (CORES_PER_GPU * int(gpus), GIB_PER_GPU * int(gpus)) if int(gpus) else (PLAIN_CORES, 4 * PLAIN_CORES)
    shape = NodeShape(int(count), int(gpus), 1000 * cores, gib * _GIB)
    return replace(shape, product=product) if product else shape


def _mix(text: str) -> Part:
    size, equals, rest = text.partition("=")
    weight, at, time = rest.partition("@")
    milli = 0 if size == "cpu" else _milli(size)
    if not equals or not weight.isdecimal() or milli is None or (milli > 1000 and milli % 1000):
        raise argparse.ArgumentTypeError(f'"{text}": write SIZE=WEIGHT or SIZE=WEIGHT@TIME, e.g. 0.5=15@1h, 8=2, cpu=5')
    return milli, int(weight), _time(time) if at else 7_200_000


def _queue(text: str) -> QueueShape:
    from scheduler.simulate.generate import QueueShape

    name, equals, rest = text.partition("=")
    part, _, quota = rest.partition(":")
    if not (name and equals and part.isdecimal() and (quota or "0").isdecimal()):
        raise argparse.ArgumentTypeError(f'"{text}": write NAME=PART or NAME=PART:QUOTA, e.g. research=3:16')
    return QueueShape(name, int(part), 1000 * int(quota or 0))


def _milli(text: str) -> int | None:
    """Thousandths, None of what is no number above 0 with at most three digits behind the point."""
    whole, point, part = text.partition(".")
    digits = whole + part
    if not digits.isdecimal() or len(part) > 3 or len(digits) > 9 or (point and not part):
        return None
    return int((whole or "0") + part.ljust(3, "0")) or None


def _percent(text: str) -> int:
    milli = 0 if text == "0" else _milli(text)
    if milli is None or milli % 10:
        raise argparse.ArgumentTypeError(f'"{text}" is no part such as 0.9, with at most two digits behind the point')
    return milli // 10


def _time(text: str) -> int:
    try:
        return duration.parse_ms(text)
    except duration.DurationError as err:
        raise argparse.ArgumentTypeError(str(err)) from None
