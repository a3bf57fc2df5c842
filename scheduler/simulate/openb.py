"""The openb experiments: a published trace of 1,213 nodes with 6,212 GPUs, and the pods that came to it.

Inflation: pods come one after another until they ask for 1.3 times the cluster, and none leaves. Churn: they come at
random, stay for random times, and those that find no place are lost. Sources and licences: benchmarks/data/openb.
"""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.packing.mix import Mix, PodClass
from scheduler.pod import NodeSelectorTerm, PodFacts
from scheduler.simulate.making import DEVICE, JobShape, template_of
from scheduler.simulate.scenario import Job, Scenario, ScenarioError
from topology import vocabulary
from topology.node import NodeFacts
from topology.selector import Requirement

TRACES: Final = (
    "default",
    *("cpu050", "cpu100", "cpu200", "cpu250"),
    *("gpushare40", "gpushare60", "gpushare80", "gpushare100"),
    *("gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33"),
    *("multigpu20", "multigpu30", "multigpu40", "multigpu50"),
)
FOLDER: Final = Path(__file__).parents[2] / "benchmarks" / "data" / "openb"
PRODUCT: Final = f"{DEVICE}.product"
CARD_MIB: Final = 16_384
"""The trace does not say how much memory the cards have, and nobody asks for it."""
MANY_PODS: Final = 10_000
"""The experiment knows no limit of pods on a node."""
DEMAND_PERCENT: Final = 130
TIME_MS: Final = 10**9
"""One unit of time of the churn experiment, the mean duration."""
CHURN_TIME: Final = 4
COUNTED_FROM: Final = 2


class TraceError(ScenarioError):
    """A trace or a seed that there is not; the text says what there is."""


class Trace(NamedTuple):
    """Pods as rows of class numbers, classes in the order of first appearance, and the nodes of the experiment."""

    name: str
    rows: tuple[int, ...]
    classes: tuple[PodClass, ...]
    nodes: tuple[tuple[str, int, int, int, str], ...]
    """Name, milli-CPU, MiB, GPUs, model."""

    @property
    def mix(self) -> Mix:
        """The classes with how many pods of the file are of each."""
        return Mix(self.classes, tuple(np.bincount(self.rows, minlength=len(self.classes)).tolist()))

    @property
    def capacity_milli(self) -> int:
        """Of all GPUs."""
        return 1000 * sum(node[3] for node in self.nodes)


def inflation(name: str, seed: int, folder: Path = FOLDER) -> Scenario:
    """The published experiment. Its own random order for the published seeds, else one by the same rules.

    Raises TraceError.
    """
    trace = read(name, folder)
    published = _published(folder, name, seed)
    rows, order = _drawn(trace, seed) if published is None else published
    jobs = _jobs(trace, ((trace.rows[row], at, None) for at, row in enumerate(rows)))
    return Scenario(f"openb-{name}", _nodes(trace, order), tuple(jobs), mix=trace.mix, seed=seed)


def churn(name: str, seed: int, load: float, folder: Path = FOLDER) -> Scenario:
    """Pods that come and go at `load` times the capacity, for four mean durations. Raises TraceError."""
    trace = read(name, folder)
    if not 0 < load <= 10:
        raise TraceError(f"a load of {load} makes no sense: it is offered GPU time over capacity, e.g. 1.0")
    asked = np.array([one.devices * one.milli for one in trace.classes])
    rows = np.array(trace.rows)
    rate = load * trace.capacity_milli / asked[rows].mean()
    count = int(CHURN_TIME * rate)
    rng = np.random.default_rng(seed)
    classes = rng.choice(rows, count)
    durations = rng.exponential(1, count)
    times = np.cumsum(rng.exponential(1 / rate, count))
    order = np.random.default_rng(seed).permutation(len(trace.nodes))
    events = zip(
        classes.tolist(),
        np.round(times * TIME_MS).astype(np.int64).tolist(),
        np.round(durations * TIME_MS).astype(np.int64).tolist(),
        strict=True,
    )
    return Scenario(
        f"openb-{name}-churn-{load:g}",
        _nodes(trace, order.tolist()),
        tuple(_jobs(trace, events)),
        mix=_steady(trace, load),
        counted_from_ms=COUNTED_FROM * TIME_MS + 1,
        seed=seed,
    )


def _steady(trace: Trace, load: float) -> Mix:
    """The demand at that load: how many pods of each class there would be at one time, if all found a place."""
    mix = trace.mix
    asked = sum(count * one.devices * one.milli for one, count in zip(mix.classes, mix.demand, strict=True))
    pods = tuple(round(count * load * trace.capacity_milli / asked) for count in mix.demand)
    return replace(mix, pods=pods, steady=load <= 1)


@cache
def read(name: str, folder: Path = FOLDER) -> Trace:
    """A trace of the folder. Raises TraceError."""
    check_trace(name)
    classes: dict[PodClass, int] = {}
    rows = [classes.setdefault(_class_of(row), len(classes)) for row in _csv(folder, f"openb_pod_list_{name}")]
    nodes = tuple(
        (row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _csv(folder, "openb_node_list_gpu_node")
    )
    return Trace(name, tuple(rows), tuple(classes), nodes)


def check_trace(name: str) -> None:
    """Raises TraceError for a trace that there is not."""
    if name not in TRACES:
        raise TraceError(f'there is no trace "{name}": {", ".join(TRACES)} are')


def published_seeds(name: str, folder: Path = FOLDER) -> list[int]:
    """The seeds whose random order is on record for a trace."""
    return sorted(seed for trace, seed in _sequences(folder) if trace == name)


def _csv(folder: Path, name: str) -> Iterator[dict[str, str]]:
    path = folder / f"{name}.csv.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from csv.DictReader(file)
    except OSError as err:
        raise TraceError(
            f"{path}: {err.strerror or err}. The traces lie in benchmarks/data/openb of Tangram's repository: work in "
            "a checkout of it, or say where they are with --data"
        ) from None


def _class_of(row: dict[str, str]) -> PodClass:
    devices = int(row["num_gpu"])
    milli = min(1000, int(row["gpu_milli"])) if devices else 0
    spec = (row.get("gpu_spec") or "") if devices else ""
    models = frozenset(spec.split("|")) if spec else None
    return PodClass(int(row["cpu_milli"]), int(row["memory_mib"]) << 20, devices, milli, models=models, spec=spec)


@cache
def _sequences(folder: Path) -> dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Trace and seed → rows of pods in the order of arrival, and rows of nodes in the order of places."""
    found: dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    try:
        with tarfile.open(folder / "sequences.tar.xz") as archive:
            for member in archive:
                name, _, seed = Path(member.name).stem.rpartition(".")
                content = archive.extractfile(member)
                if content is None or not seed.isdecimal():
                    continue
                lines = io.TextIOWrapper(content, "utf-8").read().splitlines()
                prefixes = [int(number) for number in lines[1].split()]
                order = np.argsort(prefixes, kind="stable").tolist()
                found[name, int(seed)] = tuple(int(number) for number in lines[0].split()), tuple(order)
    except OSError as err:
        raise TraceError(f"{folder / 'sequences.tar.xz'}: {err.strerror or err}: say where it is with --data") from None
    return found


def _published(folder: Path, name: str, seed: int) -> tuple[Sequence[int], Sequence[int]] | None:
    return _sequences(folder).get((name, seed))


def _drawn(trace: Trace, seed: int) -> tuple[Sequence[int], Sequence[int]]:
    """An order of our own: shuffled pods, then copies of random ones, or without random ones, up to the demand."""
    rng = np.random.default_rng(seed)
    asked = np.array([one.devices * one.milli for one in trace.classes], np.int64)[np.array(trace.rows)]
    rows: list[int] = rng.permutation(len(trace.rows)).tolist()
    wanted = trace.capacity_milli * DEMAND_PERCENT // 100
    demand = int(asked.sum())
    while demand > wanted:
        demand -= int(asked[rows.pop(int(rng.integers(len(rows))))])
    if demand < wanted:
        while True:
            row = int(rng.integers(len(trace.rows)))
            if demand + int(asked[row]) > wanted:
                break
            rows.append(row)
            demand += int(asked[row])
    order: NDArray[np.int64] = rng.permutation(len(trace.nodes))
    return rows, order.tolist()


def _nodes(trace: Trace, order: Sequence[int]) -> tuple[NodeFacts, ...]:
    """Nodes named so that their names sort in the order of places."""
    found = []
    for place, row in enumerate(order):
        name, cpu_milli, memory_mib, devices, model = trace.nodes[row]
        amounts = {"cpu": cpu_milli, "memory": memory_mib << 20, "pods": MANY_PODS, DEVICE: devices}
        labels = {PRODUCT: model, f"{DEVICE}.count": str(devices), f"{DEVICE}.memory": str(CARD_MIB)}
        found.append(NodeFacts(f"{place:05}-{name}", labels=labels, capacity=amounts, allocatable=amounts))
    return tuple(found)


def _jobs(trace: Trace, events: Iterator[tuple[int, int, int | None]]) -> Iterator[Job]:
    """Jobs of one pod from (class, arrival, duration). Pods of a class share what they are read from."""
    shapes = [JobShape(1, 1, one.devices, one.milli, one.cpu_milli, one.memory_bytes, 0) for one in trace.classes]
    templates = [(template_of(shape), _affinity(one)) for shape, one in zip(shapes, trace.classes, strict=True)]
    for number, (of, at_ms, duration_ms) in enumerate(events):
        template, affinity = templates[of]
        pod = PodFacts(
            f"pod-{number}",
            "openb",
            f"pod-{number:06}",
            annotations=template.annotations,
            scheduler_name=vocabulary.DEFAULT_SCHEDULER_NAME,
            containers=template.containers,
            node_affinity=affinity,
            created_ms=at_ms,
        )
        yield Job(pod.name, (pod,), at_ms, duration_ms)


def _affinity(of: PodClass) -> tuple[NodeSelectorTerm, ...] | None:
    """The models that it may use, as a rule of its pods."""
    if of.models is None:
        return None
    return (NodeSelectorTerm(labels=(Requirement(PRODUCT, "In", tuple(sorted(of.models))),)),)
