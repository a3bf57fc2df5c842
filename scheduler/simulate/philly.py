"""Job lists like those of Microsoft's Philly clusters: who, when, how many GPUs, for how long.

A CSV, packed or not, with the columns vc, arrival_s, gpus and duration_s; others are ignored. Each virtual cluster is a
queue. A job is a gang: a pod for each node that it takes whole, and one for the rest. Nodes are alike.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from queues.amounts import UNLIMITED
from queues.spec import QueueSpec, Terms
from scheduler.object_index import ObjectIndex
from scheduler.pod import PodFacts
from scheduler.simulate.making import POD_GROUP, JobShape, NodeShape, group_of, job_of, nodes_of, template_of
from scheduler.simulate.scenario import Job, Scenario, ScenarioError
from topology import vocabulary

COLUMNS: Final = ("vc", "arrival_s", "gpus", "duration_s")
CORES_MILLI: Final = 8000
"""For each GPU of a node; a job asks for half of that with each."""
GIB: Final = 1 << 30
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class PhillyCluster:
    """The nodes, and which jobs are taken: those of `days` days (None: all), `start_days` after the first arrival, of
    which `scale` come in the time of one. `quotas` are GPUs by virtual cluster, 0 for those that it leaves out; None:
    see `philly`.
    """

    nodes: int = 80
    gpus: int = 8
    days: float | None = 30.0
    start_days: float = 0.0
    scale: float = 1.0
    quotas: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus < 1 or (self.days is not None and not self.days > 0):
            raise ScenarioError("nodes, GPUs of a node and days are more than 0")
        if not 0 <= self.start_days < math.inf:
            raise ScenarioError(f"a start after {self.start_days} days: it is 0 or more")
        if not 0 < self.scale < math.inf:
            raise ScenarioError(f"a scale of {self.scale}: it is more than 0, e.g. 2 for twice as many jobs in a day")
        if self.quotas is not None and min(self.quotas.values(), default=0) < 0:
            raise ScenarioError("quotas are 0 or more GPUs")


class _Row(NamedTuple):
    arrival_ms: int
    gpus: int
    duration_ms: int
    vc: str


def philly(path: Path, cluster: PhillyCluster) -> Scenario:
    """The scenario of a job list, in the order of arrival, GPUs, duration and virtual cluster. Raises ScenarioError.

    Without quotas each virtual cluster is guaranteed its part of the GPU time that is asked for, so that all of them
    together are guaranteed all nodes.
    """
    rows = sorted(_rows(path))
    if not rows:
        raise ScenarioError(f"{path} has no jobs")
    rows = _taken(path, rows, cluster)
    largest = cluster.nodes * cluster.gpus
    for row in rows:
        if row.gpus > largest:
            raise ScenarioError(
                f"{path}: a job of {row.gpus} GPUs is larger than the {largest} of all nodes: add nodes"
            )
    jobs = [_job(f"job-{number:06}", row, cluster) for number, row in enumerate(rows)]
    shape = NodeShape(cluster.nodes, cluster.gpus, CORES_MILLI * cluster.gpus, 64 * GIB * cluster.gpus)
    return Scenario(
        f"philly-{path.name.partition('.')[0]}",
        tuple(nodes_of([shape])),
        tuple(jobs),
        waits=True,
        queues=tuple(_queues(rows, cluster)),
        objects=ObjectIndex([(vocabulary.API_GROUP, POD_GROUP)], [group_of(job) for job in jobs if len(job.pods) > 1]),
    )


def _taken(path: Path, rows: list[_Row], cluster: PhillyCluster) -> list[_Row]:
    """Those that come within the time, at the times at which they come here."""
    begin_ms = rows[0].arrival_ms + round(cluster.start_days * DAY_MS)
    end_ms = math.inf if cluster.days is None else begin_ms + cluster.days * DAY_MS
    taken = [row for row in rows if begin_ms <= row.arrival_ms < end_ms]
    if not taken:
        last = (rows[-1].arrival_ms - rows[0].arrival_ms) / DAY_MS
        raise ScenarioError(f"{path}: no job comes in this time; the last one comes {last:.1f} days after the first")
    return [row._replace(arrival_ms=round((row.arrival_ms - begin_ms) / cluster.scale)) for row in taken]


def _rows(path: Path) -> Iterator[_Row]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ScenarioError(f"{path} has no column {missing[0]}: {', '.join(COLUMNS)} are read")
            for row in reader:
                yield _row(row, f"{path}, line {reader.line_num}")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as err:
        raise ScenarioError(f"{path}: {getattr(err, 'strerror', None) or err}") from None


def _row(row: dict[str, str], where: str) -> _Row:
    try:
        arrival_ms, duration_ms = (round(1000 * float(row[name])) for name in ("arrival_s", "duration_s"))
        found = _Row(arrival_ms, int(row["gpus"]), max(duration_ms, 1), row["vc"].strip())
    except (TypeError, ValueError, OverflowError) as err:
        raise ScenarioError(f"{where}: {err}") from None
    if found.gpus < 1 or found.arrival_ms < 0 or duration_ms < 0 or not found.vc:
        raise ScenarioError(f"{where}: a job has a vc, at least one GPU, and no negative times")
    return found


def _job(name: str, row: _Row, cluster: PhillyCluster) -> Job:
    """Pods of whole nodes, and one for what is left."""
    whole, rest = divmod(row.gpus, cluster.gpus)
    parts = [(whole, cluster.gpus, name), (min(rest, 1), rest, f"{name}-rest")]
    jobs = [_part(part, count, gpus, row) for count, gpus, part in parts if count]
    if len(jobs) == 1:
        return jobs[0]
    pods = tuple(_in_group(pod, name) for job in jobs for pod in job.pods)
    return Job(name, pods, row.arrival_ms, row.duration_ms)


def _part(name: str, pods: int, gpus: int, row: _Row) -> Job:
    shape = JobShape(1, pods, gpus, 1000, CORES_MILLI // 2 * gpus, 32 * GIB * gpus, 0)
    return job_of(name, shape, template_of(shape), row.arrival_ms, row.duration_ms, f"vc-{row.vc}")


def _in_group(pod: PodFacts, group: str) -> PodFacts:
    return replace(pod, labels={**pod.labels, vocabulary.POD_GROUP.key: group})


def _queues(rows: list[_Row], cluster: PhillyCluster) -> Iterator[QueueSpec]:
    work: dict[str, int] = {}
    for row in rows:
        work[row.vc] = work.get(row.vc, 0) + row.gpus * row.duration_ms
    total, gpu_milli = sum(work.values()), 1000 * cluster.nodes * cluster.gpus
    quotas = {vc: gpu_milli * part // total for vc, part in work.items()}
    if cluster.quotas is not None:
        unknown = sorted(cluster.quotas.keys() - work.keys())
        if unknown:
            raise ScenarioError(f"a quota of {unknown[0]}, of which no job comes: {', '.join(sorted(work))} have jobs")
        quotas = {vc: 1000 * cluster.quotas.get(vc, 0) for vc in work}
    for vc, quota in sorted(quotas.items()):
        yield QueueSpec(f"vc-{vc}", gpu=Terms(quota=quota, limit=UNLIMITED))
