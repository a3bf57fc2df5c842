"""What came of the openb experiments, beside what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.packing_expected import PUBLISHED, Expected
from scheduler.simulate.task import Task

Results = Mapping[Task, Mapping[str, Any]]


class View(NamedTuple):
    """A table for people; its first column is text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


class Cell(NamedTuple):
    """The mean over seeds beside the expected mean, and the largest difference where each seed has its own."""

    ours: float | None
    expected: float | None
    largest_difference: float | None = None
    seeds: int = 0


def inflation(results: Results, expected: Expected) -> tuple[dict[str, Any], list[View]]:
    """Allocation by trace and policy beside the published and measured one, and the gain over FGD."""
    policies, traces = _names(results, "policy"), _names(results, "trace")
    cells = {
        trace: {policy: _inflation_cell(results, expected, trace, policy) for policy in policies} for trace in traces
    }
    views = [
        _beside("Allocation in %, mean of the seeds; in brackets the published or expected one", policies, cells),
        View(
            "Largest difference of a seed from the published or expected number, in points",
            ("trace", *policies),
            tuple((trace, *(row[policy].largest_difference for policy in policies)) for trace, row in cells.items()),
        ),
    ]
    numbers: dict[str, Any] = {"allocation": _plain(cells)}
    found = gains(results)
    if found:
        numbers["gainOverFgd"] = found
        views.append(_gain_view(found))
    return numbers, views


def fresh(results: Results, expected: Expected) -> tuple[dict[str, Any], list[View]]:
    """The same with seeds that nobody has looked at before."""
    policies, traces = _names(results, "policy"), _names(results, "trace")
    cells = {
        trace: {
            policy: _mean_cell(_ends(results, trace, policy).values(), expected.fresh(trace, policy))
            for policy in policies
        }
        for trace in traces
    }
    found = gains(results)
    views = [_beside("Fresh seeds: allocation in %, in brackets the expected mean of ten", policies, cells)]
    return {"allocation": _plain(cells), "gainOverFgd": found}, views + ([_gain_view(found)] if found else [])


def churn(results: Results, expected: Expected) -> tuple[dict[str, Any], list[View]]:
    """What was served of the offered GPU time, in all and of pods of eight GPUs."""
    policies = _names(results, "policy")
    lines = dict.fromkeys((task.trace, task.load or 0.0) for task in results)
    views, numbers = [], {}
    for at, key, title in (
        (0, "servedPercent", "Churn: offered GPU time that was served, in %; in brackets the reference"),
        (1, "servedEightGpuPercent", "Churn: the same of pods of eight GPUs"),
    ):
        cells = {
            f"{trace} {load:g}": {
                policy: _mean_cell(
                    (
                        r[key]
                        for task, r in results.items()
                        if (task.trace, task.load, task.policy) == (trace, load, policy)
                    ),
                    expected.served(trace, policy, load)[at],
                )
                for policy in policies
            }
            for trace, load in lines
        }
        numbers[key] = _plain(cells)
        views.append(_beside(title, policies, cells, "trace, load"))
    return numbers, views


def sampling(results: Results, expected: Expected) -> tuple[dict[str, Any], list[View]]:
    """Allocation where few nodes are seen."""
    counts = list(dict.fromkeys(task.candidates or 0 for task in results))
    numbers, views = {}, []
    for policy in _names(results, "policy"):
        cells = {
            trace: {
                str(count): _mean_cell(
                    _ends(results, trace, policy, count).values(), expected.sampled(trace, policy, count)
                )
                for count in counts
            }
            for trace in _names(results, "trace")
        }
        numbers[policy] = _plain(cells)
        title = (
            f"{policy}, so many nodes with room are seen: allocation in %, in brackets the expected mean of three seeds"
        )
        views.append(_beside(title, [str(count) for count in counts], cells))
    return numbers, views


def gains(results: Results) -> dict[str, dict[str, dict[str, float | int]]]:
    """Policy of ours → trace → by how many points it ends above FGD: the mean, the worst seed, and how often."""
    found: dict[str, dict[str, dict[str, float | int]]] = {}
    for policy in _names(results, "policy"):
        if policy in PUBLISHED:
            continue
        for trace in _names(results, "trace"):
            ours, theirs = _ends(results, trace, policy), _ends(results, trace, "fgd")
            points = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
            if points:
                found.setdefault(policy, {})[trace] = {
                    "mean": round(fmean(points), 4),
                    "worst": round(min(points), 4),
                    "won": sum(point > 0 for point in points),
                    "seeds": len(points),
                }
    return found


def markdown(views: Iterable[View]) -> str:
    """Tables as Markdown."""
    parts = []
    for view in views:
        lines = [f"## {view.title}", "", _line(view.columns), _line(["---", *["---:"] * (len(view.columns) - 1)])]
        parts.append("\n".join([*lines, *(_line(row) for row in view.rows)]))
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(_text(cell) for cell in cells) + " |"


def _text(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _names(results: Results, field: str) -> list[str]:
    """In the order of first appearance."""
    return list(dict.fromkeys(getattr(task, field) for task in results))


def _ends(results: Results, trace: str, policy: str, candidates: int | None = None) -> dict[int, float]:
    """Seed → allocation after the last arrival."""
    return {
        task.seed: result["endGpuAllocationPercent"]
        for task, result in results.items()
        if (task.trace, task.policy, task.candidates) == (trace, policy, candidates)
    }


def _last_bucket(results: Results, trace: str, policy: str) -> dict[int, float]:
    """Seed → mean of the allocation over the last percent of demand, as it was published."""
    return {
        task.seed: result["curve"][-1]
        for task, result in results.items()
        if (task.trace, task.policy) == (trace, policy) and result["curve"][-1] is not None
    }


def _inflation_cell(results: Results, expected: Expected, trace: str, policy: str) -> Cell:
    read: Callable[[Results, str, str], dict[int, float]] = _last_bucket if policy in PUBLISHED else _ends
    pairs = [(value, expected.allocation(trace, policy, seed)) for seed, value in read(results, trace, policy).items()]
    known = [(ours, theirs) for ours, theirs in pairs if theirs is not None]
    return Cell(
        _mean(ours for ours, _ in pairs),
        _mean(theirs for _, theirs in known),
        max((round(abs(ours - theirs), 4) for ours, theirs in known), default=None),
        len(pairs),
    )


def _mean_cell(values: Iterable[float | None], expected: float | None) -> Cell:
    found = [value for value in values if value is not None]
    return Cell(_mean(found), expected, seeds=len(found))


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(fmean(found), 4) if found else None


def _beside(title: str, columns: Sequence[str], cells: Mapping[str, Mapping[str, Cell]], first: str = "trace") -> View:
    rows = ((name, *(f"{_text(c.ours)} ({_text(c.expected)})" for c in row.values())) for name, row in cells.items())
    return View(title, (first, *columns), tuple(rows))


def _gain_view(found: Mapping[str, Mapping[str, Mapping[str, float | int]]]) -> View:
    columns = [f"{policy} {word}" for policy in found for word in ("mean", "worst", "won")]
    traces = list(dict.fromkeys(trace for of in found.values() for trace in of))
    return View("Points above fgd at the end", ("trace", *columns), tuple(_gain_rows(found, traces)))


def _gain_rows(
    found: Mapping[str, Mapping[str, Mapping[str, float | int]]], traces: Sequence[str]
) -> Iterator[tuple[object, ...]]:
    for trace in traces:
        row: list[object] = [trace]
        for of in found.values():
            gain = of.get(trace)
            row += [None] * 3 if gain is None else [gain["mean"], gain["worst"], f"{gain['won']} of {gain['seeds']}"]
        yield tuple(row)
    total: list[object] = ["all"]
    for of in found.values():
        cells = list(of.values())
        won, seeds = (sum(int(cell[key]) for cell in cells) for key in ("won", "seeds"))
        total += [fmean(cell["mean"] for cell in cells), min(cell["worst"] for cell in cells), f"{won} of {seeds}"]
    yield tuple(total)


def _plain(cells: Mapping[str, Mapping[str, Cell]]) -> dict[str, dict[str, dict[str, float | int | None]]]:
    """As JSON has it."""
    return {
        name: {
            column: {
                "ours": cell.ours,
                "expected": cell.expected,
                "largestDifference": cell.largest_difference,
                "seeds": cell.seeds,
            }
            for column, cell in row.items()
        }
        for name, row in cells.items()
    }
