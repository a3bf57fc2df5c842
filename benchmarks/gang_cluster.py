"""A gang of 512 pods on 512 nodes on a real control plane: until all are bound, beside the same pods without a gang.

Each pod takes all devices of a node. kube-scheduler alone and Tangram without a gang bind each pod when they can;
Tangram with a PodGroup (preferring one rack of 32 nodes) binds none before all are at bind. The clock starts with the
first pod that a watch shows, and stops when the last is seen with a node. Run: `python -m benchmarks.gang_cluster`.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import report
from benchmarks.arena import PLAIN, PODS_IN, STOCK, Arena, Side, arena
from benchmarks.releases import CONCURRENCY, Sightings, pods, remove_pods
from tests.controlplane.binaries import Binaries
from tests.controlplane.node_models import A100, GPU, gpu_node
from topology import vocabulary

GANG: Final = 512
RACK: Final = "example.com/rack"
RACK_NODES: Final = 32
SETTLE_S: Final = 3.0
WAYS: Final[tuple[tuple[str, Side, bool], ...]] = (
    ("stock", STOCK, False),
    ("tangram", PLAIN, False),
    ("tangram, one gang", PLAIN, True),
)
COLUMNS: Final = ("way", "pods", "first bound s", "all bound s", "of stock")
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One measurement; seconds since the first pod was seen."""

    way: str
    pods: int
    first_s: float
    all_s: float


def documents(count: int, side: Side, *, gang: bool) -> list[Object]:
    """The pods."""
    found = pods(count, side.scheduler_name, gated=False)
    for one in found:
        one["spec"]["containers"][0]["resources"]["limits"][GPU] = str(A100.devices)
        if gang:
            one["metadata"]["labels"] = {vocabulary.POD_GROUP.key: "gang"}
    return found


def prepare(place: Arena, count: int) -> None:
    """Nodes in racks; where Tangram takes part also what says that racks are a level."""
    kube = place.plane.kube
    labels = ({RACK: f"r{at // RACK_NODES:02}"} for at in range(count))
    kube.create_all([gpu_node(f"node-{at:05d}", A100, labels=own).document for at, own in enumerate(labels)])
    if place.side.tangram:
        kube.create(_ours("Topology", "network", {"levels": [{"nodeLabel": RACK}]}))
    time.sleep(SETTLE_S)


def _ours(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name} | ({"namespace": PODS_IN} if kind == "PodGroup" else {})
    return {"apiVersion": f"{vocabulary.API_GROUP}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


async def measure(place: Arena, way: str, count: int, *, gang: bool) -> Outcome:
    """Creates the pods and waits for all of them; leaves none."""
    client, sightings = place.plane.kube.client, Sightings(count)
    if gang:
        near = {"preferredTopologyLevel": RACK}
        await client.apply(_ours("PodGroup", "gang", {"minMember": count, "topologyConstraint": near}))
    follower = asyncio.create_task(sightings.follow(client))
    try:
        await client.create_all(documents(count, place.side, gang=gang), CONCURRENCY)
        await sightings.until_all(sightings.bound)
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
    start, bound = min(sightings.seen.values()), sightings.bound.values()
    await remove_pods(client)
    await asyncio.sleep(SETTLE_S)
    return Outcome(way, count, min(bound) - start, max(bound) - start)


def run(count: int, repeat: int, logs: Path) -> list[Outcome]:
    """All ways, each on a control plane of its own; prints as it goes."""
    binaries, outcomes = Binaries.built(), []
    for way, side, gang in WAYS:
        with arena(side, binaries, logs) as place:
            prepare(place, count)
            place.start_tangram()
            for _ in range(repeat):
                outcomes.append(place.plane.kube.loop.run(measure(place, way, count, gang=gang)))
                report.console.print(f"{way}: {outcomes[-1].all_s:.1f} s")
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gang_cluster", description=__doc__)
    parser.add_argument("--pods", type=int, default=GANG, help="pods, and nodes")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each way")
    parser.add_argument("--logs", type=Path, help="folder for the logs of all processes")
    options = parser.parse_args(arguments)
    logs = options.logs or Path(tempfile.mkdtemp(prefix="tangram-gang-cluster-"))
    logs.mkdir(parents=True, exist_ok=True)
    outcomes = run(options.pods, options.repeat, logs)
    stock = median(one.all_s for one in outcomes if one.way == STOCK.name)
    rows = []
    for way, _, _ in WAYS:
        mine = [one for one in outcomes if one.way == way]
        last = median(one.all_s for one in mine)
        rows.append([way, options.pods, median(one.first_s for one in mine), last, last / stock])
    report.table("Until all pods of a gang are bound", COLUMNS, rows)
    report.write("gang_cluster", [asdict(one) for one in outcomes])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
