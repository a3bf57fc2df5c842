"""One placement over 5,000 nodes of 8 devices, beside the plain numpy way of the same search in the same run.

The cluster is half full of shares, whole-device pods and pods without devices. Calls of both ways alternate, so that a
busy moment of the machine hits both. Run: `python -m benchmarks.kernels`.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks import report
from benchmarks.measure import Times, times
from scheduler import placement
from scheduler.allocation import Allocation
from scheduler.kernels.warm import warm
from scheduler.ledger import Ledger
from scheduler.request import Demand, Request
from scheduler.state import ClusterState
from topology.inventory import InventorySettings, describe
from topology.node import NodeFacts

NODES: Final = 5000
DEVICES: Final = 8
RESOURCE: Final = "nvidia.com/gpu"
WANTED_US: Final = 150.0
WARM_UP: Final = 20
COLUMNS: Final = ("operation", "min µs", "p50 µs", "p99 µs", "numpy min", "numpy p50", "p50 / numpy")
FAR: Final = 1 << 40

Search = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One operation; `numpy` is the plain search, where there is one to compare with."""

    operation: str
    tangram: Times
    numpy: Times | None


def share(milli: int, devices: int = 1) -> Request:
    """A pod with a fraction of one or several devices."""
    return Request(4000, 1 << 34, 0, (), Demand.SHARE, "", devices, share_milli=milli, container="main")


def memory_share(mib: int) -> Request:
    """A pod with an amount of device memory."""
    return Request(4000, 1 << 34, 0, (), Demand.SHARE, "", 1, share_memory_mib=mib, container="main")


def whole(count: int) -> Request:
    """A pod with whole devices."""
    return Request(4000 * count, 1 << 34, 0, ((RESOURCE, count),), Demand.WHOLE, RESOURCE, count)


def cpu_only() -> Request:
    """A pod without devices."""
    return Request(2000, 1 << 32, 0)


def cluster(nodes: int, fill: float, seed: int = 1) -> ClusterState:
    """Nodes of 8 devices where pods, placed at random, hold about `fill` of the devices."""
    state = ClusterState()
    ledger = Ledger(state)
    amounts = {"cpu": 192_000, "memory": 1 << 41, "ephemeral-storage": 1 << 42, "pods": 110, RESOURCE: DEVICES}
    labels = {"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    settings = InventorySettings(shares_by_default=True)
    rng = random.Random(seed)
    for i in range(nodes):
        name = f"node-{i:05}"
        state.set_node(describe(NodeFacts(name, labels=labels, capacity=amounts, allocatable=amounts), settings))
        ledger.set_node(name)
        _fill(ledger, name, fill, rng)
    ledger.validate()
    return state


def _fill(ledger: Ledger, node: str, fill: float, rng: random.Random) -> None:
    slot = ledger.state.slot_of[node]
    held = 0
    goal = rng.random() * 2 * fill * DEVICES * 1000
    while held < goal:
        request = rng.choice([share(rng.randint(1, 9) * 100), memory_share(20_000), whole(1), whole(2), cpu_only()])
        devices = placement.place_on(ledger.state, request, slot)
        if devices is None:
            return
        ledger.adopt(f"{node}-{held}-{rng.random()}", request, node, Allocation(node, devices))
        held += sum(device.milli or 250 for device in devices) or 100


def plain(state: ClusterState, request: Request, mask: NDArray[np.bool_]) -> int:
    """The same search with whole-array operations only; returns the slot of the best node, or -1."""
    nodes, ask, end = state.arrays, state.ask(request), len(mask)
    fits = mask & (nodes.free[:end][:, ask.columns] >= ask.amounts).all(axis=1)
    if request.demand is Demand.SHARE:
        room = nodes.device_room_milli[:end] if ask.milli else nodes.device_room_mib[:end]
        need = ask.milli or ask.mib
        able = (room >= need) & (fits & nodes.shares[:end])[:, None]
        keys = np.where(able, room - need + (nodes.device_holders[:end] == 0) * (FAR >> 10), FAR)
        costs = np.partition(keys, ask.devices - 1, axis=1)[:, : ask.devices].sum(axis=1)
        fits = costs < FAR
    elif request.demand is Demand.WHOLE:
        idle = (nodes.device_healthy[:end] & (nodes.device_holders[:end] == 0)).sum(axis=1)
        fits &= idle >= ask.devices
        costs = np.where(fits, idle, FAR)
    else:
        costs = np.where(fits, nodes.free[:end, ask.pack_column], FAR)
    best = int(costs.argmin())
    return best if fits[best] else -1


def timed(searches: Sequence[Search], calls: int) -> list[Times]:
    """Runs the searches in turn, `calls` times each."""
    samples: list[list[float]] = [[] for _ in searches]
    for turn in range(WARM_UP + calls):
        for search, found in zip(searches, samples, strict=True):
            began = time.perf_counter()
            search()
            if turn >= WARM_UP:
                found.append(time.perf_counter() - began)
    return [times(found) for found in samples]


def measure(state: ClusterState, calls: int) -> list[Row]:
    """All operations on one state."""
    mask = np.ones(len(state.inventories), np.bool_)
    requests = {
        "place a share, 0.3": share(300),
        "place a share, 2 × 0.5": share(500, devices=2),
        "place a share, 20,000 MiB": memory_share(20_000),
        "place 1 whole device": whole(1),
        "place 8 whole devices": whole(8),
        "place a pod without devices": cpu_only(),
    }
    rows = []
    for name, request in requests.items():

        def search(request: Request = request) -> object:
            state.forget_costs()  # a request that was never asked for; known ones: benchmarks.decisions
            return placement.place(state, request, mask)

        def numpy_search(request: Request = request) -> object:
            return plain(state, request, mask)

        rows.append(Row(name, *timed([search, numpy_search], calls)))
    rows += [Row(name, timed([search], calls)[0], None) for name, search in _others(state, mask).items()]
    return rows


def _others(state: ClusterState, mask: NDArray[np.bool_]) -> dict[str, Search]:
    share_of_all, hopeless = share(300), whole(DEVICES + 1)

    def take_and_give() -> None:
        mark = state.checkpoint()
        found = placement.place_on(state, share_of_all, 0)
        state.take(0, share_of_all, found or ())
        state.rollback(mark)

    return {
        "which nodes hold a share": lambda: placement.fits(state, share_of_all, mask),
        "scores of all nodes": lambda: placement.scores(state, share_of_all, range(len(mask))),
        "why 9 whole devices fit nowhere": lambda: placement.why(state, hopeless, {}),
        "place on one node, take, roll back": take_and_give,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--calls", type=int, default=1000, help="samples of each operation")
    parser.add_argument("--fill", type=float, default=0.5, help="share of the devices that is held")
    options = parser.parse_args(arguments)
    warm_s = warm()
    state = cluster(options.nodes, options.fill)
    rows = measure(state, options.calls)
    title = f"{options.nodes:,} nodes × {DEVICES} devices, {options.fill:.0%} full; kernels ready after {warm_s:.2f} s"
    report.table(title, COLUMNS, [_cells(row) for row in rows])
    slowest = max(row.tangram.p50_us for row in rows if row.numpy is not None)
    report.console.print(f"slowest placement: p50 {slowest:.0f} µs, wanted ≤ {WANTED_US:.0f} µs over 5,000 × 8")
    results: dict[str, Any] = {"nodes": options.nodes, "devices": DEVICES, "fill": options.fill, "warm_s": warm_s}
    report.write("kernels", results | {"rows": [asdict(row) for row in rows]})
    return 0


def _cells(row: Row) -> list[object]:
    ours, other = row.tangram, row.numpy
    cells: list[object] = [row.operation, ours.min_us, ours.p50_us, ours.p99_us]
    if other is None:
        return [*cells, None, None, None]
    return [*cells, other.min_us, other.p50_us, ours.p50_us / other.p50_us]


if __name__ == "__main__":
    raise SystemExit(main())
