"""The tables of the packing experiments: what came out beside what was published."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any, Final, NamedTuple, TypeVar

from scheduler.simulate import openb
from scheduler.simulate.sweep import Task

T = TypeVar("T")
Done = Mapping[str, Mapping[str, Any]]
PUBLISHED: Final = {
    "dotprod": "02-DotProd",
    "gpu-clustering": "03-GpuClustering",
    "gpu-packing": "04-GpuPacking",
    "bestfit": "05-BestFit",
    "fgd": "06-FGD",
}
EXPECTED: Final = {
    "bestfit": "BestFit",
    "fgd": "FGD",
    "gpu-packing": "GpuPacking",
    "rsv": "RSV-balanced",
    "rsv-max": "RSV-max",
}


class Table(NamedTuple):
    """Rows of words and numbers."""

    title: str
    columns: list[str]
    rows: list[list[object]]

    def markdown(self) -> str:
        """The table for a page."""
        lines = [f"### {self.title}", "", "| " + " | ".join(self.columns) + " |", "|---" * len(self.columns) + "|"]
        return "\n".join([*lines, *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in self.rows)])


def inflation(tasks: Sequence[Task], done: Done) -> list[Table]:
    """Final allocation, the classic policies beside the published curves, and the gains over FGD."""
    return [_reproduced(tasks, done), _gains("final allocation, seeds 42 to 51", tasks, done)]


def fresh(tasks: Sequence[Task], done: Done) -> list[Table]:
    """The same on seeds that nothing was chosen by."""
    return [_gains("final allocation, seeds 100 to 109", tasks, done)]


def churn(tasks: Sequence[Task], done: Done) -> list[Table]:
    """Work served with departures, of all pods and of those with 8 GPUs, beside the reference's."""
    cells = _expected()["churn"]["cells"]
    policies = _in_order(task.policy for task in tasks)
    rows: list[list[object]] = []
    for trace, load in _in_order((task.trace, task.load) for task in tasks):
        row: list[object] = [f"{trace} {load:g}"]
        for policy in policies:
            found = _results(tasks, done, trace=trace, load=load, policy=policy)
            expected = cells.get(trace, {}).get(EXPECTED[policy], {}).get(f"{load:.1f}", {})
            ours = _served(fmean(_values(found, "servedPercent")), _values(found, "servedEightGpuPercent"))
            row.append(f"{ours} / {_served(expected.get('served'), [expected.get('eight_gpu')])}")
        rows.append(row)
    return [Table("served % (of 8-GPU pods): ours / reference", ["trace, load", *policies], rows)]


def sampling(tasks: Sequence[Task], done: Done) -> list[Table]:
    """What seeing only some of the nodes costs rsv."""
    reference = _expected()["sampling"]["RSV-balanced"]
    sizes = _in_order(task.candidates for task in tasks)
    rows: list[list[object]] = []
    for trace in _in_order(task.trace for task in tasks):
        seeds = {task.seed for task in tasks if task.trace == trace}
        known = [done.get(Task(trace, "rsv", seed).key) for seed in seeds]
        whole = fmean([one["gpuAllocationPercent"] for one in known if one]) if all(known) else None
        row: list[object] = [trace, whole]
        for size in sizes:
            found = _results(tasks, done, trace=trace, candidates=size)
            row += [fmean(_values(found, "gpuAllocationPercent")), reference.get(trace, {}).get(str(size))]
        rows.append(row)
    titles = [title for size in sizes for title in (f"{size}", f"{size}, reference")]
    return [Table("rsv by the number of nodes seen, seeds 42 to 44", ["trace", "all", *titles], rows)]


def learned(tasks: Sequence[Task], done: Done) -> list[Table]:
    """rsv where the mix is learnt from what comes, beside the same with the mix known and FGD."""
    rows: list[list[object]] = []
    for trace in _in_order(task.trace for task in tasks if task.load is None):
        seeds = [task.seed for task in tasks if task.trace == trace and task.load is None]
        ours = [done[Task(trace, "rsv", seed, learn=True).key]["gpuAllocationPercent"] for seed in seeds]
        others = []
        for policy in ("rsv", "fgd"):
            known = [done.get(Task(trace, policy, seed).key) for seed in seeds]
            others.append(fmean([one["gpuAllocationPercent"] for one in known if one]) if all(known) else None)
        rows.append([trace, fmean(ours), *others, None if others[1] is None else fmean(ours) - others[1]])
    columns = ["trace", "learnt", "known", "fgd", "gain over fgd"]
    tables = [Table("final allocation with the mix learnt, seeds 42 to 45", columns, rows)]
    parted: list[list[object]] = []
    for trace, load in _in_order((task.trace, task.load) for task in tasks if task.load is not None):
        row: list[object] = [f"{trace} {load:g}"]
        for learn, policy in ((True, "rsv"), (False, "rsv"), (False, "fgd")):
            keys = [Task(trace, policy, seed, load=load, learn=learn).key for seed in range(4)]
            found = [done[key] for key in keys if key in done]
            served = _values(found, "servedPercent")
            row.append(_served(fmean(served), _values(found, "servedEightGpuPercent")) if served else None)
        parted.append(row)
    titles = ["trace, load", "learnt", "known", "fgd"]
    return [*tables, Table("served % (of 8-GPU pods) with the mix learnt", titles, parted)]


TABLES: Final[Mapping[str, Callable[[Sequence[Task], Done], list[Table]]]] = {
    "inflation": inflation,
    "fresh": fresh,
    "churn": churn,
    "sampling": sampling,
    "learned": learned,
}


def _reproduced(tasks: Sequence[Task], done: Done) -> Table:
    """The measure of the published curves: ours, published, and the largest difference of a seed."""
    published = _published()
    policies = [policy for policy in PUBLISHED if any(task.policy == policy for task in tasks)]
    rows: list[list[object]] = []
    for trace in _in_order(task.trace for task in tasks):
        row: list[object] = [trace]
        for policy in policies:
            pairs = [
                (done[task.key]["curve"][-1], published[trace, policy, task.seed])
                for task in tasks
                if (task.trace, task.policy) == (trace, policy) and task.key in done
            ]
            worst = max((abs(ours - theirs) for ours, theirs in pairs), default=0.0)
            means = [fmean(column) for column in zip(*pairs, strict=True)] if pairs else [None, None]
            row.append(f"{_cell(means[0])} / {_cell(means[1])} ({worst:.2f})")
        rows.append(row)
    title = "final allocation, % by the published measure: ours / published (largest difference of a seed)"
    return Table(title, ["trace", *policies], rows)


def _gains(title: str, tasks: Sequence[Task], done: Done) -> Table:
    rows: list[list[object]] = []
    gains: dict[str, list[float]] = {"rsv": [], "rsv-max": []}
    for trace in _in_order(task.trace for task in tasks):
        seeds = _in_order(task.seed for task in tasks if task.trace == trace)
        by_seed = {
            policy: [done[Task(trace, policy, seed).key]["gpuAllocationPercent"] for seed in seeds]
            for policy in ("fgd", "rsv", "rsv-max")
        }
        expected = _expected()["traces"][trace]["policies"]
        row: list[object] = [trace, fmean(by_seed["fgd"])]
        for policy in ("rsv", "rsv-max"):
            differences = [ours - fgd for ours, fgd in zip(by_seed[policy], by_seed["fgd"], strict=True)]
            gains[policy].append(fmean(differences))
            reference = expected[EXPECTED[policy]]["mean"] if seeds[0] == 42 else None
            row += [fmean(by_seed[policy]), reference, fmean(differences), min(differences)]
        rows.append(row)
    empty = [None, None]
    means = [fmean(gains["rsv"]), fmean(gains["rsv-max"])]
    rows.append(["mean gain", None, *empty, means[0], None, *empty, means[1], None])
    columns = ["trace", "fgd", "rsv", "reference", "gain", "worst seed", "rsv-max", "reference", "gain", "worst seed"]
    return Table(title, columns, rows)


def _results(tasks: Sequence[Task], done: Done, **wanted: object) -> list[Mapping[str, Any]]:
    return [
        done[task.key]
        for task in tasks
        if all(getattr(task, name) == value for name, value in wanted.items()) and task.key in done
    ]


def _values(results: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [result[key] for result in results if result[key] is not None]


def _served(served: float | None, eights: Sequence[float | None]) -> str:
    known = [one for one in eights if one is not None]
    return f"{_cell(served)} ({fmean(known):.1f})" if known else _cell(served)


def _in_order(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


@cache
def _expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((openb.FOLDER / "expected.json").read_text(encoding="utf-8"))
    return found


@cache
def _published() -> dict[tuple[str, str, int], float]:
    """Trace, policy and seed → the last bucket of the published curve."""
    names = {theirs: ours for ours, theirs in PUBLISHED.items()}
    with gzip.open(openb.FOLDER / "analysis_allo_discrete.csv.gz", "rt", encoding="utf-8") as file:
        return {
            (row["workload"].removeprefix("openb_pod_list_"), names[row["sc_policy"]], int(row["seed"])): float(
                row["130"]
            )
            for row in csv.DictReader(file)
            if row["sc_policy"] in names
        }


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
