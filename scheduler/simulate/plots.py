"""Pictures of results, as SVG or PNG by the ending of the file. Needs matplotlib, an extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

Document = Mapping[str, Any]
ENDINGS: Final = (".svg", ".png")
HOUR_MS: Final = 3_600_000
GPU_MILLI: Final = 1000


class PlotError(ValueError):
    """A picture that cannot be drawn; the text says what to change."""


def save(results: Sequence[Document], kind: str, path: Path) -> None:
    """Draws results (`Result.to_dict` with series) in one picture. The same results give the same bytes.

    Raises PlotError for a kind or an ending that there is not, without matplotlib, and where nothing is to be drawn.
    """
    draw = KINDS.get(kind)
    if draw is None:
        raise PlotError(f'there is no picture "{kind}": {", ".join(KINDS)} are')
    if path.suffix not in ENDINGS:
        raise PlotError(f"{path}: pictures end in {' or '.join(ENDINGS)}")
    matplotlib, figure_class = _matplotlib()
    with matplotlib.rc_context({"svg.hashsalt": "tangram", "svg.fonttype": "none"}):
        figure = figure_class(figsize=(8, 4.5), layout="constrained")
        draw(figure.add_subplot(), results)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})


def save_all(results: Sequence[Document], folder: Path, ending: str = ".svg") -> list[Path]:
    """All pictures for which the results have something; returns their paths. Raises PlotError."""
    made = []
    for kind in KINDS:
        path = folder / f"{kind}{ending}"
        try:
            save(results, kind, path)
        except _NothingToDraw:
            continue
        made.append(path)
    return made


class _NothingToDraw(PlotError):
    """The results have nothing of the kind."""


def _matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError("matplotlib is not installed: pip install 'tangram-scheduler[plots]' brings it") from None
    return matplotlib, Figure


def _allocation(axes: Any, results: Sequence[Document]) -> None:
    """Allocation against the demand that came, both in percent of the devices."""
    for result in results:
        points = [(percent, value) for percent, value in enumerate(result.get("curve", ())) if value is not None]
        if not points:
            capacity = max(result["gpuCapacityMilli"], 1)
            points = [
                (100 * sample["arrivedGpuMilli"] / capacity, 100 * sample["allocatedGpuMilli"] / capacity)
                for sample in result["series"]
            ]
        axes.plot(*_columns(points), label=_name(result, results))
    _finish(axes, "demand that came, % of the GPUs", "allocated, % of the GPUs")


def _fragmentation(axes: Any, results: Sequence[Document]) -> None:
    """Free devices that the demand cannot use on average, over what is allocated."""
    for result in results:
        capacity = max(result["gpuCapacityMilli"], 1)
        points = [
            (100 * sample["allocatedGpuMilli"] / capacity, sample["fragmentedGpuMilli"] / GPU_MILLI)
            for sample in result["series"]
            if sample["fragmentedGpuMilli"] is not None
        ]
        axes.plot(*_columns(points), label=_name(result, results))
    _finish(axes, "allocated, % of the GPUs", "GPUs that are free and of no use on average")


def _waiting(axes: Any, results: Sequence[Document]) -> None:
    """Mean and 95th percentile of waiting times by size of job."""
    sizes = sorted({size for result in results for size, waits in result["waitsMs"].items() if waits["max"]})
    if not sizes:
        raise _NothingToDraw("nothing waited")
    width = 0.8 / len(results)
    for at, result in enumerate(results):
        places = [index + at * width for index in range(len(sizes))]
        waits = [result["waitsMs"].get(size, {"mean": 0, "p95": 0}) for size in sizes]
        bars = axes.bar(
            places, [one["mean"] / HOUR_MS for one in waits], width, label=f"{_name(result, results)}, mean"
        )
        color = bars.patches[0].get_facecolor()
        axes.scatter(places, [one["p95"] / HOUR_MS for one in waits], color=color, marker="_", s=200)
    axes.set_xticks([index + 0.4 - width / 2 for index in range(len(sizes))], [size[2:] for size in sizes])
    _finish(axes, "size of the job (the dash is the 95th percentile)", "waiting time, hours")


def _fairness(axes: Any, results: Sequence[Document]) -> None:
    """What each queue used over time."""
    drawn = False
    for result in results:
        queues = sorted({queue for sample in result["series"] for queue in sample["byQueueGpuMilli"]})
        for queue in queues:
            points = [
                (sample["atMs"] / HOUR_MS, sample["byQueueGpuMilli"].get(queue, 0) / GPU_MILLI)
                for sample in result["series"]
            ]
            label = queue if len(results) == 1 else f"{queue}, {_name(result, results)}"
            axes.plot(*_columns(points), label=label, drawstyle="steps-post")
            drawn = True
    if not drawn:
        raise _NothingToDraw("there are no queues")
    _finish(axes, "time, hours", "GPUs in use")


KINDS: Final[Mapping[str, Callable[[Any, Sequence[Document]], None]]] = {
    "allocation": _allocation,
    "fragmentation": _fragmentation,
    "waiting": _waiting,
    "fairness": _fairness,
}


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    if not points:
        raise _NothingToDraw("there is no such series: run without --no-series")
    return [x for x, _ in points], [y for _, y in points]


def _name(result: Document, results: Sequence[Document]) -> str:
    """What tells a result from the others."""
    several = len({one["scenario"] for one in results}) > 1
    return f"{result['scenario']}, {result['policy']}" if several else str(result["policy"])


def _finish(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
