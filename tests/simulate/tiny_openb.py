"""A folder like that of the openb traces, of a few nodes and pods, so that a simulation takes no time."""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NODES: Final = 6
PODS: Final = 40
SHAPES: Final = (("1", "500", ""), ("1", "1000", ""), ("0", "0", ""), ("2", "1000", "T4"), ("1", "250", "T4|P100"))


def tiny_openb(folder: Path, traces: Iterable[str] = ("default",)) -> Path:
    """Writes it, with no published sequences; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes = [(f"node-{at}", 64_000, 262_144, 2 + 2 * (at % 2), ("T4", "P100")[at % 2]) for at in range(NODES)]
    _write(folder / "openb_node_list_gpu_node.csv.gz", ("sn", "cpu_milli", "memory_mib", "gpu", "model"), nodes)
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
    for trace in traces:
        pods = [(f"pod-{at}", 4000, 8192, *SHAPES[at % len(SHAPES)]) for at in range(PODS)]
        _write(folder / f"openb_pod_list_{trace}.csv.gz", columns, pods)
    with tarfile.open(folder / "sequences.tar.xz", "w:xz"):
        pass
    return folder


def _write(path: Path, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
