"""Planning rounds against the number of waiting workloads: 50 queues in two levels on 500 full nodes.

What a round costs when nothing has happened, and when one pod of eight devices has ended and others take its place;
beside the same without queues, in the same run. Run: `python -m benchmarks.queue_rounds`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import report
from benchmarks.measure import Times, times
from queues.spec import QueueSpec, Terms
from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.kernels.warm import warm
from scheduler.pod import Container, PodFacts
from scheduler.policy import PlacementPolicy
from topology import vocabulary
from topology.inventory import InventorySettings
from topology.node import NodeFacts

NODES: Final = 500
DEVICES: Final = 8
QUEUES: Final = 50
DEPARTMENTS: Final = 5
WAITING: Final = (100, 1000, 3000, 10_000)
KINDS: Final = (1, 40)
ENDS: Final = 30
IDLE: Final = 30
GPU: Final = "nvidia.com/gpu"
COLUMNS: Final = ("queues", "kinds", "waiting", "idle p50 µs", "after an end p50 µs", "max µs", "of the smallest")


@dataclass(frozen=True, slots=True)
class Row:
    """One cluster. `kinds` is how many different CPU requests there are for each number of devices, in each queue."""

    queues: int
    kinds: int
    waiting: int
    idle: Times
    ended: Times


def engine(queues: int) -> Engine:
    """Full nodes, and as many queues; 0 for none."""
    made = Engine(
        Cluster(inventory=InventorySettings(), policy=PlacementPolicy()),
        EngineSettings(max_in_flight=1_000_000, starving_after_ms=0, tell_after_ms=10**9),
    )
    if queues:
        departments = [QueueSpec(f"department-{at}", uid=str(at)) for at in range(DEPARTMENTS)]
        teams = [
            QueueSpec(f"team-{at}", f"department-{at % DEPARTMENTS}", uid=f"{at:03}", gpu=Terms(quota=4000))
            for at in range(queues)
        ]
        made.set_queues([*departments, *teams], 0)
    amounts = {"cpu": 128_000, "memory": 1 << 40, "pods": 110, GPU: DEVICES}
    for at in range(NODES):
        labels = {"kubernetes.io/hostname": f"n{at:03}", "nvidia.com/gpu.product": "NVIDIA-H100"}
        made.cluster.set_node(NodeFacts(f"n{at:03}", labels=labels, capacity=amounts, allocatable=amounts))
        full = _pod(f"full-{at:03}", at % max(queues, 1), DEVICES, 1000, node=f"n{at:03}")
        made.apply_pod(full, 0)
    return made


def _pod(name: str, team: int, devices: int, cpu_milli: int, *, at_ms: int = 0, node: str | None = None) -> PodFacts:
    requests = {"cpu": cpu_milli, "memory": 1 << 30, GPU: devices}
    return PodFacts(
        uid=name,
        namespace="default",
        name=name,
        labels={vocabulary.QUEUE.key: f"team-{team}"},
        created_ms=at_ms,
        scheduler_name=vocabulary.DEFAULT_SCHEDULER_NAME,
        node_name=node,
        gates=() if node else (vocabulary.GATE,),
        containers=(Container("main", requests, requests),),
    )


def measure(queues: int, kinds: int, waiting: int) -> Row:
    """Rounds with so many waiting pods of one, two and three devices."""
    made, now_ms = engine(queues), 1000
    for at in range(waiting):
        team = at % max(queues, 1)
        cpu_milli = 1000 + (at // max(queues, 1)) % kinds
        made.apply_pod(_pod(f"waits-{at}", team, 1 + at % 3, cpu_milli, at_ms=at), now_ms)
    _rounds(made, now_ms)
    idle, ended = [], []
    for _ in range(IDLE):
        idle.append(_rounds(made, now_ms))
    for at in range(ENDS):
        now_ms += 100
        made.remove_pod(f"full-{at:03}")
        ended.append(_rounds(made, now_ms))
    return Row(queues, kinds, waiting, times(idle), times(ended))


def _rounds(made: Engine, now_ms: int) -> float:
    """Seconds until no further round is due."""
    started = time.perf_counter()
    more = True
    while more:
        _, more = made.plan(now_ms)
    return time.perf_counter() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue_rounds", description=__doc__)
    parser.add_argument("--waiting", type=int, nargs="+", default=list(WAITING), help="numbers of waiting pods")
    options = parser.parse_args(arguments)
    warm()
    rows = [
        measure(queues, kinds, waiting)
        for queues, kinds in ((0, 1), *((QUEUES, kinds) for kinds in KINDS))
        for waiting in options.waiting
    ]
    report.table("planning rounds", COLUMNS, [_cells(row, rows) for row in rows])
    report.write("queue_rounds", [_json(row) for row in rows])
    return 0


def _cells(row: Row, rows: Sequence[Row]) -> list[object]:
    first = next(one for one in rows if (one.queues, one.kinds) == (row.queues, row.kinds))
    ratio = row.ended.p50_us / first.ended.p50_us
    worst = max(row.ended.p99_us, row.ended.p50_us)
    return [row.queues, row.kinds, row.waiting, row.idle.p50_us, row.ended.p50_us, worst, ratio]


def _json(row: Row) -> dict[str, object]:
    return {
        "queues": row.queues,
        "kinds": row.kinds,
        "waiting": row.waiting,
        "idle_p50_us": row.idle.p50_us,
        "ended_p50_us": row.ended.p50_us,
        "ended_p99_us": row.ended.p99_us,
    }


if __name__ == "__main__":
    raise SystemExit(main())
