"""What the demo shows: bars per node on a terminal, plain lines elsewhere, a summary at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from extender_api.demo.accounts import NodeUse

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
PLAIN_EVERY_S: Final = 5.0
ROWS: Final = 5
"""Reasons on the live screen; always so many lines, so that the screen does not jump."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One look at the demo. `waiting` counts pods by why they wait, `examples` quotes one pod of each."""

    elapsed_s: float
    created: int
    total: int
    placed: int
    running: int
    ended: int
    nodes: Mapping[str, NodeUse]
    products: Mapping[str, str]
    waiting: Counter[str] = field(default_factory=Counter)
    examples: Mapping[str, str] = field(default_factory=dict)


class Screen(Protocol):
    """Shows frames."""

    def __enter__(self) -> Screen: ...
    def __exit__(self, *exc: object) -> None: ...
    def show(self, frame: Frame) -> None: ...


def screen_for(console: Console) -> Screen:
    """A live screen on a terminal, plain lines elsewhere."""
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


class LiveScreen:
    """Redraws in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def show(self, frame: Frame) -> None:
        self._live.update(picture(frame), refresh=True)


class PlainScreen:
    """A few lines now and then, for logs."""

    def __init__(self, console: Console, every_s: float = PLAIN_EVERY_S) -> None:
        self._console = console
        self._every_s = every_s
        self._next_s = 0.0

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, frame: Frame) -> None:
        if frame.elapsed_s < self._next_s:
            return
        self._next_s = frame.elapsed_s + self._every_s
        devices = " ".join(f"{name}:[{bar(use)}]" for name, use in frame.nodes.items())
        self._console.print(f"{headline(frame)}  {devices}", markup=False, soft_wrap=True)
        for why, count in frame.waiting.most_common(4):
            quoted = f" ({frame.examples[why]})" if why in frame.examples else ""
            self._console.print(f"    {count} waiting: {why}{quoted}", markup=False, soft_wrap=True)


def headline(frame: Frame) -> str:
    """The counts in one line."""
    return (
        f"{frame.elapsed_s:5.1f} s  {frame.created}/{frame.total} created  {frame.placed} placed  "
        f"{frame.running} running  {frame.ended} ended  {sum(frame.waiting.values())} waiting"
    )


def bar(use: NodeUse) -> str:
    """One character per device, taller the fuller it is. Virtual nodes only count: in use / claimed."""
    if use.virtual:
        return f"{use.counted}/{use.gpus}"
    return "".join(_block(use.filled(index)) for index in range(len(use.devices)))


def _block(part: float) -> str:
    # any use shows, and only a full device looks full
    level = int(part * (len(BLOCKS) - 1) + 1e-9)
    return BLOCKS[max(level, 1) if part > 0 else 0]


def _colour(part: float) -> str:
    return "bright_black" if part == 0 else "green" if part < 0.5 else "yellow" if part < 1 else "red"


def picture(frame: Frame) -> RenderableType:
    """The whole live screen."""
    nodes = Table(title_justify="left", box=None, padding=(0, 2, 0, 0))
    for title in ("node", "GPU model", "devices", "in use", "pods"):
        nodes.add_column(title, justify="right" if title in ("in use", "pods") else "left", no_wrap=True)
    for name, use in frame.nodes.items():
        nodes.add_row(name, frame.products[name], _bars(use), f"{use.used_gpus:.1f} of {use.gpus}", str(use.pods))
    waiting = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("pods", "wait because", "for example"):
        waiting.add_column(title, justify="right" if title == "pods" else "left", no_wrap=True)
    for why, count in frame.waiting.most_common(ROWS):
        waiting.add_row(str(count), why, Text(frame.examples.get(why, ""), "bright_black"))
    for _ in range(ROWS - len(frame.waiting)):
        waiting.add_row("", "", "")
    return Group(_progress(frame), Text(), nodes, Text(), waiting)


def _progress(frame: Frame) -> Text:
    width = 40
    done = round(width * frame.ended / max(frame.total, 1))
    placed = max(round(width * frame.placed / max(frame.total, 1)), done)
    text = Text()
    text.append("█" * done, "green").append("█" * (placed - done), "cyan").append("░" * (width - placed))
    return text.append(f"  {headline(frame).strip()}")


def _bars(use: NodeUse) -> Text:
    if use.virtual:
        full = min(use.counted, use.gpus)
        return Text.assemble(("■" * full, "magenta"), ("□" * (use.gpus - full), "bright_black"), "  counted only")
    text = Text()
    for index in range(len(use.devices)):
        part = use.filled(index)
        cell = "█" * round(part * 4) if part >= 0.125 else "▏" if part else ""
        text.append(cell.ljust(4, "░"), _colour(part)).append(" ")
    return text
