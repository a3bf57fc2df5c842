"""The openb traces as a demand mix, and the cluster they come from; read anew here, so that tests stand alone."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from scheduler.packing.hardware import Hardware, Model
from scheduler.packing.mix import Mix, PodClass

DATA: Final = Path(__file__).parents[2] / "benchmarks" / "data" / "openb"
MODELS: Final = ("G2", "T4", "G3", "P100", "V100M32", "V100M16", "A10")
TRACES: Final = (
    "default",
    *(f"cpu{part}" for part in ("050", "100", "200", "250")),
    *(f"gpushare{part}" for part in (40, 60, 80, 100)),
    *(f"gpuspec{part}" for part in (10, 20, 25, 33)),
    *(f"multigpu{part}" for part in (20, 30, 40, 50)),
)


def rows(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def class_of(row: dict[str, str]) -> PodClass:
    devices = int(row["num_gpu"])
    milli = min(1000, int(row["gpu_milli"])) if devices else 0
    spec = row.get("gpu_spec") or "" if devices else ""
    models = frozenset(spec.split("|")) if spec else None
    return PodClass(int(row["cpu_milli"]), int(row["memory_mib"]) << 20, devices, milli, models=models, spec=spec)


@cache
def mix(trace: str) -> Mix:
    counts = Counter(class_of(row) for row in rows(f"openb_pod_list_{trace}"))
    return Mix(tuple(counts), tuple(counts.values()))


@cache
def hardware() -> Hardware:
    nodes = list(rows("openb_node_list_gpu_node"))
    found = []
    for key in MODELS:
        own = [node for node in nodes if node["model"] == key]
        counts = [int(node["gpu"]) for node in own]
        cpu = sum(int(node["cpu_milli"]) for node in own)
        found.append(Model(key, 0, len(own), sum(counts), cpu, max(counts)))
    return Hardware(tuple(found))
