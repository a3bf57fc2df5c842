"""Planning time of gangs against their size and the size of the cluster, without any API.

One round over a whole gang on empty nodes of eight devices: where they fit each pod takes a node, else one device.
Without nearness, and all in one rack of 32 nodes or one block of 512; those that then do not fit are searched for in
vain. And many identical pods beside few: a
gang of 1,000 pods of one device beside one of 10. Run: `python -m benchmarks.gangs`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks import report
from benchmarks.measure import Times, times
from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.kernels.warm import warm
from scheduler.object_facts import ObjectFacts
from scheduler.object_index import ObjectIndex
from scheduler.pod import Container, PodFacts
from scheduler.policy import PlacementPolicy
from topology import vocabulary
from topology.inventory import InventorySettings
from topology.node import NodeFacts
from topology.topology import Topology

GANGS: Final = (8, 64, 512, 4096)
SIZES: Final = (500, 5000, 20_000)
DEVICES: Final = 8
RACK, BLOCK = "example.com/rack", "example.com/block"
NODES_IN: Final = {BLOCK: 512, RACK: 32}
"""Nodes of one domain, from broad to narrow."""
LEVELS: Final = ("", BLOCK, RACK)
FEW, MANY = 10, 1000
GROUP: Final = ("tangram.scheduler", "PodGroup")
GPU: Final = "nvidia.com/gpu"
COLUMNS: Final = ("level", "fits", "nodes", "pods", "devices each", "p50 ms", "max ms", "µs per pod")


@dataclass(frozen=True, slots=True)
class Row:
    """Rounds over one gang; `devices` is what each pod asks for. One that does not fit is searched for in vain."""

    level: str
    nodes: int
    pods: int
    devices: int
    fits: bool
    round: Times
    max_us: float


def cluster_of(nodes: int) -> Cluster:
    """Empty nodes in racks and blocks."""
    made = Cluster(inventory=InventorySettings(), policy=PlacementPolicy())
    made.set_topologies([Topology("network", tuple(NODES_IN))])
    amounts = {"cpu": 128_000, "memory": 1 << 40, "pods": 110, GPU: DEVICES}
    for at in range(nodes):
        name = f"n{at:05}"
        labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-H100"}
        labels |= {level: f"{level.rpartition('/')[2]}-{at // size}" for level, size in NODES_IN.items()}
        made.set_node(NodeFacts(name, labels=labels, capacity=amounts, allocatable=amounts))
    return made


def devices_each(level: str, nodes: int, pods: int) -> int:
    """What each pod asks for: all of a node if the gang then fits in one domain of the level, else one device."""
    return DEVICES if pods <= _domain(level, nodes) else 1


def _domain(level: str, nodes: int) -> int:
    """Nodes of the largest domain."""
    return min(nodes, NODES_IN.get(level, nodes))


def pod_group(pods: int, level: str) -> ObjectFacts:
    """A PodGroup of so many pods in one domain of the level, "" for anywhere."""
    near = {"topologyConstraint": {"requiredTopologyLevel": level}} if level else {}
    spec = {"minMember": pods, **near}
    return ObjectFacts(f"{GROUP[0]}/v1alpha1", GROUP[1], "default", "gang", uid="gang", spec=spec)


def member(at: int, devices: int) -> PodFacts:
    """A pod of the group."""
    requests = {"cpu": 1000 * devices, "memory": devices << 30, GPU: devices}
    return PodFacts(
        uid=f"pod-{at:05}",
        namespace="default",
        name=f"pod-{at:05}",
        labels={vocabulary.POD_GROUP.key: "gang"},
        created_ms=1,
        scheduler_name=vocabulary.DEFAULT_SCHEDULER_NAME,
        gates=(vocabulary.GATE,),
        containers=(Container("main", requests, requests),),
    )


def planning_s(cluster: Cluster, pods: int, devices: int, level: str, *, fits: bool) -> float:
    """Seconds of the rounds until the gang has places or is known to have none; leaves the cluster empty."""
    settings = EngineSettings(max_in_flight=1_000_000, tell_after_ms=10**9)
    engine = Engine(cluster, settings, ObjectIndex([GROUP], [pod_group(pods, level)]))
    for at in range(pods):
        engine.apply_pod(member(at, devices), 1)
    began = time.perf_counter()
    more = True
    while more:
        _, more = engine.plan(2)
    spent = time.perf_counter() - began
    if engine.in_flight != (pods if fits else 0):
        raise RuntimeError(f"{engine.in_flight} of {pods} pods were placed")
    for at in range(pods):
        engine.remove_pod(f"pod-{at:05}")
    return spent


def measure(cluster: Cluster, level: str, pods: int, repeat: int, devices: int | None = None) -> Row:
    """One combination."""
    nodes = cluster.node_count
    each = devices_each(level, nodes, pods) if devices is None else devices
    fits = pods * each <= _domain(level, nodes) * DEVICES
    planning_s(cluster, pods, each, level, fits=fits)
    seconds = [planning_s(cluster, pods, each, level, fits=fits) for _ in range(repeat)]
    return Row(level.rpartition("/")[2], nodes, pods, each, fits, times(seconds), max(seconds) * 1e6)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gangs", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=SIZES, help="numbers of nodes")
    parser.add_argument("--gangs", type=int, nargs="+", default=GANGS, help="numbers of pods")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each combination")
    options = parser.parse_args(arguments)
    warm()
    rows: list[Row] = []
    alike: list[tuple[Row, Row]] = []
    for nodes in options.nodes:
        cluster = cluster_of(nodes)
        rows += [measure(cluster, level, pods, options.repeat) for level in LEVELS for pods in options.gangs]
        few, many = (measure(cluster, "", pods, options.repeat, devices=1) for pods in (FEW, MANY))
        alike.append((few, many))
    report.table("A round over a gang, on empty nodes", COLUMNS, [_cells(row) for row in rows], words=2)
    report.table(
        f"Pods of one device, {MANY} beside {FEW}",
        ("nodes", f"{FEW} pods ms", f"{MANY} pods ms", "ratio"),
        [_compared(few, many) for few, many in alike],
        words=0,
    )
    found = [asdict(row) for row in rows]
    report.write("gangs", {"rows": found, "alike": [[asdict(few), asdict(many)] for few, many in alike]})
    return 0


def _cells(row: Row) -> list[object]:
    usual = row.round.p50_us
    fits = "yes" if row.fits else "no"
    return [
        row.level or "none",
        fits,
        row.nodes,
        row.pods,
        row.devices,
        usual / 1000,
        row.max_us / 1000,
        usual / row.pods,
    ]


def _compared(few: Row, many: Row) -> list[object]:
    one, other = few.round.p50_us, many.round.p50_us
    return [few.nodes, one / 1000, other / 1000, other / one]


if __name__ == "__main__":
    raise SystemExit(main())
