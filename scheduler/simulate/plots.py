"""Pictures of results: allocation, fragmentation, waiting times, shares of queues; several policies in one.

They are drawn from results as JSON has them (`Result.to_dict` with its series). The same results give the same bytes.
matplotlib is an extra: it is imported when the first picture is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS: Final = (".svg", ".png")
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Colours that people tell apart who see few of them; after the last one lines are dashed."""
DASHES: Final = ("-", "--", ":", "-.")
GREY: Final = "#888888"
SIZE: Final = (8.0, 5.0)
PANEL_HEIGHT: Final = 2.4
MOST_QUEUES: Final = 7
MOST_PERCENT: Final = 150
"""What waits may be many times the cluster; so much of it is shown."""
UNITS: Final = ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1000, "seconds"), (1, "milliseconds"))
WAITS: Final = {
    0: "0", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 21_600: "6 h", 86_400: "1 day",
    604_800: "1 week", 2_592_000: "30 days", 31_536_000: "1 year",
}  # fmt: skip
"""Seconds, as the axis of waiting times names them."""
STYLE: Final = {
    "svg.hashsalt": "tangram",
    "svg.fonttype": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": 120,
}
METADATA: Final = {".svg": {"Date": None, "Creator": "Tangram"}, ".png": {"Software": "Tangram"}}

Document = Mapping[str, Any]


class PlotError(ValueError):
    """A picture that cannot be made; the text says why, and what to do."""


class _Line(NamedTuple):
    """What is drawn over time, or over demand."""

    label: str
    style: Mapping[str, Any]
    x: list[float]
    y: list[float]


def save(results: Sequence[Document], path: Path, kind: str) -> Path:
    """Draws one picture of `KINDS`, as SVG or PNG by the name of the file. Where nothing is known it says so.

    Raises PlotError.
    """
    picture = _KINDS.get(kind)
    if picture is None:
        raise PlotError(f'there is no picture "{kind}": {", ".join(KINDS)} are')
    if path.suffix not in ENDINGS:
        raise PlotError(f"{path}: pictures are {' or '.join(ENDINGS)} files, by the ending of the name")
    matplotlib, figure_class = _matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = figure_class(figsize=SIZE, layout="constrained")
        if picture.known(results):
            picture.draw(figure, results)
        else:
            figure.text(0.5, 0.5, f"nothing is known of {kind}", ha="center", color=GREY)
        names = list(dict.fromkeys(str(result["scenario"]) for result in results))
        figure.suptitle(f"{picture.title}: {', '.join(names)}" if names else picture.title)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, metadata=METADATA[path.suffix])
        except OSError as err:
            raise PlotError(f"{path}: {err.strerror or err}") from None
    return path


def save_all(results: Sequence[Document], folder: Path, ending: str = "svg") -> list[Path]:
    """Draws every picture for which something is known, as KIND.ending; returns the files. Raises PlotError."""
    suffix = f".{ending.lstrip('.')}"
    return [save(results, folder / f"{kind}{suffix}", kind) for kind in KINDS if _KINDS[kind].known(results)]


def _matplotlib() -> tuple[Any, type[Figure]]:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError("pictures need matplotlib: pip install 'tangram-scheduler[plots]'") from None
    return matplotlib, Figure


# -- what is drawn over time or demand -------------------------------------------------------------------------------
def _draw_allocation(figure: Figure, results: Sequence[Document]) -> None:
    axes = figure.subplots()
    if _by_demand(results):
        lines = [
            _Line(label, style, *_known(list(enumerate(result["curve"])))) for label, style, result in _styled(results)
        ]
        last = max(x for line in lines for x in line.x)
        axes.plot([0, min(last, 100), last], [0, min(last, 100), 100], color=GREY, linewidth=1, label="all that came")
        _draw_lines(figure, axes, lines, "demand that came, in % of all GPUs", "allocated GPUs, in %")
        return
    lines = []
    for label, style, result in _styled(results):
        lines.append(_line(label, style, result, "allocatedGpuMilli"))
        wanted = _line(
            f"{label}: demand", {"color": style["color"], "linewidth": 0.8, "alpha": 0.5}, result, "wantedGpuMilli"
        )
        lines.append(wanted)
    unit = _scale(lines)
    _draw_lines(figure, axes, lines, f"time, in {unit}", "allocated GPUs and demand, in % of all GPUs")


def _draw_fragmentation(figure: Figure, results: Sequence[Document]) -> None:
    by_demand = _by_demand(results)
    lines = [
        _line(label, style, result, "fragmentedGpuMilli", "arrivedGpuMilli" if by_demand else None)
        for label, style, result in _styled(results)
    ]
    x = "demand that came, in % of all GPUs" if by_demand else f"time, in {_scale(lines)}"
    _draw_lines(figure, figure.subplots(), lines, x, "free GPUs of no use to the demand, in % of all")


def _draw_lines(figure: Figure, axes: Axes, lines: Sequence[_Line], x: str, y: str) -> None:
    for line in lines:
        axes.plot(line.x, line.y, label=line.label, **({"linewidth": 1.6} | dict(line.style)))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(0, min(1.05 * max((value for line in lines for value in line.y), default=100), MOST_PERCENT) or 1)
    axes.margins(x=0)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)


def _by_demand(results: Sequence[Document]) -> bool:
    """Whether none of them is about time: nothing ever ends there."""
    return all(result.get("curve") for result in results)


def _line(label: str, style: Mapping[str, Any], result: Document, y: str, x: str | None = None) -> _Line:
    """A value of the series in percent of all GPUs, over time or over another value."""
    part = 100 / max(int(result["gpuCapacityMilli"]), 1)
    points = [
        (sample["atMs"] if x is None else sample[x] * part, None if sample[y] is None else sample[y] * part)
        for sample in result.get("series", ())
    ]
    return _Line(label, style, *_known(points))


def _known(points: Sequence[tuple[float, float | None]]) -> tuple[list[float], list[float]]:
    known = [(x, y) for x, y in points if y is not None]
    return [x for x, _ in known], [y for _, y in known]


def _scale(lines: Sequence[_Line]) -> str:
    """Turns the milliseconds of lines into the unit that is returned."""
    milliseconds, unit = _unit(max((x for line in lines for x in line.x), default=0))
    for line in lines:
        line.x[:] = [x / milliseconds for x in line.x]
    return unit


def _unit(longest_ms: float) -> tuple[int, str]:
    return next((unit for unit in UNITS if longest_ms >= 2 * unit[0]), UNITS[-1])


# -- waiting times ---------------------------------------------------------------------------------------------------
def _draw_waiting(figure: Figure, results: Sequence[Document]) -> None:
    axes = figure.subplots()
    sizes = sorted({size for result in results for size in result["waitsMs"]})
    width = 0.8 / len(results)
    for at, (label, style, result) in enumerate(_styled(results)):
        places = [place - 0.4 + width * (at + 0.5) for place in range(len(sizes))]
        waits = [result["waitsMs"].get(size, {}) for size in sizes]
        p50, p95, longest = ([wait.get(key, 0) / 1000 for wait in waits] for key in ("p50", "p95", "max"))
        axes.bar(places, p95, width * 0.9, color=style["color"], alpha=0.75, label=f"{label} (95 of 100 wait less)")
        marks: dict[str, Any] = {"linestyle": "none", "color": "black", "markersize": 5, "clip_on": False}
        axes.plot(places, p50, marker="o", label="half wait less" if at == 0 else None, **marks)
        axes.plot(places, longest, marker="v", label="longest wait" if at == 0 else None, **marks)
    most = max(wait["max"] for result in results for wait in result["waitsMs"].values()) / 1000
    axes.set_yscale("symlog", linthresh=1)
    ticks = [second for second in WAITS if second <= max(most, 10)]
    axes.set_yticks(ticks, [WAITS[second] for second in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(0, max(2 * most, 10))
    axes.set_xticks(range(len(sizes)), [size.partition(" ")[2] for size in sizes])
    axes.set_xlabel("size of jobs")
    axes.set_ylabel("waiting time")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)


# -- queues ----------------------------------------------------------------------------------------------------------
def _draw_fairness(figure: Figure, results: Sequence[Document]) -> None:
    figure.set_size_inches(SIZE[0], max(SIZE[1], PANEL_HEIGHT * len(results) + 1))
    panels = figure.subplots(len(results), sharex=True, squeeze=False)[:, 0]
    queues, others = _queues(results)
    milliseconds, unit = _unit(max((s["atMs"] for result in results for s in result.get("series", ())), default=0))
    for at, (axes, (label, _, result)) in enumerate(zip(panels, _styled(results), strict=True)):
        series = result.get("series", ())
        times = [sample["atMs"] / milliseconds for sample in series]
        layers = [[sample["byQueueGpuMilli"].get(queue, 0) / 1000 for sample in series] for queue in queues]
        names, colours = list(queues), list(COLOURS[: len(queues)])
        if others:
            names.append("others")
            colours.append(GREY)
            layers.append([sum(s["byQueueGpuMilli"].get(queue, 0) for queue in others) / 1000 for s in series])
        axes.stackplot(times, layers, colors=colours, labels=names if at == 0 else (), linewidth=0)
        gpus = result["gpuCapacityMilli"] / 1000
        axes.axhline(gpus, color="black", linewidth=1, linestyle="--", label="all GPUs" if at == 0 else None)
        axes.set_ylabel("GPUs in use")
        axes.set_ylim(0, max(gpus * 1.05, 1))
        axes.margins(x=0)
        axes.set_title(label, loc="left", fontsize="medium")
    panels[-1].set_xlabel(f"time, in {unit}")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)


def _queues(results: Sequence[Document]) -> tuple[list[str], list[str]]:
    """The queues that hold most, by name, and the others, which are drawn as one."""
    held: dict[str, int] = {}
    for result in results:
        for sample in result.get("series", ()):
            for queue, gpu_milli in sample["byQueueGpuMilli"].items():
                held[queue] = held.get(queue, 0) + gpu_milli
    ordered = sorted(held, key=lambda queue: (-held[queue], queue))
    if len(ordered) <= MOST_QUEUES + 1:
        return sorted(ordered), []
    return sorted(ordered[:MOST_QUEUES]), ordered[MOST_QUEUES:]


# -- all -------------------------------------------------------------------------------------------------------------
def _styled(results: Sequence[Document]) -> list[tuple[str, dict[str, Any], Document]]:
    """Each with its name and look. The name is the policy, with what else tells it from the others."""
    names = [[str(result["policy"])] for result in results]
    for key, word in (("scenario", "{}"), ("seed", "seed {}"), ("candidates", "sees {}")):
        if len({result.get(key) for result in results}) > 1:
            for name, result in zip(names, results, strict=True):
                name.append("sees all" if result.get(key) is None else word.format(result[key]))
    found = []
    for at, (name, result) in enumerate(zip(names, results, strict=True)):
        style = {"color": COLOURS[at % len(COLOURS)], "linestyle": DASHES[at // len(COLOURS) % len(DASHES)]}
        found.append((", ".join(name), style, result))
    return found


def _has(key: str) -> Callable[[Sequence[Document]], bool]:
    return lambda results: any(sample.get(key) for result in results for sample in result.get("series", ()))


def _has_allocation(results: Sequence[Document]) -> bool:
    curved = any(value is not None for result in results for value in result.get("curve", ()))
    return bool(results) and (curved if _by_demand(results) else any(result.get("series") for result in results))


def _has_waits(results: Sequence[Document]) -> bool:
    return any(wait["max"] for result in results for wait in result["waitsMs"].values())


class _Picture(NamedTuple):
    title: str
    draw: Callable[[Figure, Sequence[Document]], None]
    known: Callable[[Sequence[Document]], bool]


_KINDS: Final[Mapping[str, _Picture]] = {
    "allocation": _Picture("Allocation", _draw_allocation, _has_allocation),
    "fragmentation": _Picture("Fragmentation", _draw_fragmentation, _has("fragmentedGpuMilli")),
    "waiting": _Picture("Waiting time", _draw_waiting, _has_waits),
    "fairness": _Picture("Use by queue", _draw_fairness, _has("byQueueGpuMilli")),
}
KINDS: Final = tuple(_KINDS)
