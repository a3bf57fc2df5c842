"""What the demo ends with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from extender_api.demo.accounts import Accounts
from extender_api.demo.recorder import Recorder
from extender_api.demo.stock import CallTimes


@dataclass(slots=True)
class Usage:
    """The part of real devices in use, 0 to 1, over time."""

    samples: list[float] = field(default_factory=list)

    def note(self, accounts: Accounts) -> None:
        """Takes a sample."""
        real = [use for use in accounts.use.values() if not use.virtual]
        if real:
            self.samples.append(sum(use.used_gpus for use in real) / sum(use.gpus for use in real))

    @property
    def mean(self) -> float:
        return sum(self.samples) / max(len(self.samples), 1)

    @property
    def peak(self) -> float:
        return max(self.samples, default=0.0)


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of the demo.

    `lost` are pods that could run and got no node; `calls` gives number, p50 and p99 in microseconds by verb.
    """

    created: int
    placed: int
    impossible: Mapping[str, str]
    lost: Mapping[str, str]
    refused_by_nodes: Sequence[str]
    real_devices: int
    devices_touched: int
    usage: Usage
    to_bind_ms: Sequence[float]
    calls: Mapping[str, tuple[int, float, float]]
    call_errors: int
    waited: Counter[str]

    @property
    def ok(self) -> bool:
        """Every pod that can run did, and no node refused one."""
        return not self.refused_by_nodes and not self.lost


def sum_up(recorder: Recorder, accounts: Accounts, usage: Usage, times: CallTimes, mistakes: frozenset[str]) -> Summary:
    """The summary. `mistakes` are the uids of pods that were never meant to run."""
    without = {uid: story for uid, story in recorder.stories.items() if story.bound is None}
    return Summary(
        created=recorder.created,
        placed=recorder.placed,
        impossible={story.name: story.message for uid, story in without.items() if uid in mistakes},
        lost={story.name: story.message or story.why for uid, story in without.items() if uid not in mistakes},
        refused_by_nodes=accounts.refused,
        real_devices=sum(len(use.devices) for use in accounts.use.values()),
        devices_touched=len(accounts.touched),
        usage=usage,
        to_bind_ms=recorder.to_bind_ms(),
        calls={verb: _call(seconds) for verb, seconds in times.seconds.items() if seconds},
        call_errors=times.errors.total(),
        waited=recorder.waited(),
    )


def _call(seconds: Sequence[float]) -> tuple[int, float, float]:
    ordered = sorted(seconds)
    return len(ordered), percentile(ordered, 50) * 1e6, percentile(ordered, 99) * 1e6


def percentile(ordered: Sequence[float], per_cent: int) -> float:
    """The smallest of the ascending samples that at least `per_cent` of them do not exceed; 0 without any."""
    return ordered[max(-(-len(ordered) * per_cent // 100), 1) - 1] if ordered else 0.0


def print_summary(console: Console, summary: Summary) -> None:
    """The summary for people."""
    rows = Table(title="Summary", title_justify="left", title_style="bold", show_header=False, box=None)
    rows.add_column(style="bold")
    rows.add_column()
    usage, to_bind = summary.usage, summary.to_bind_ms
    rows.add_row("pods placed", f"{summary.placed} of {summary.created}")
    rows.add_row("refused by a node", str(len(summary.refused_by_nodes)))
    rows.add_row("devices touched", f"{summary.devices_touched} of {summary.real_devices} real ones")
    rows.add_row("devices in use", f"{usage.mean:.0%} on average while pods came, {usage.peak:.0%} at most")
    rows.add_row("creation to bind", f"p50 {percentile(to_bind, 50):,.0f} ms, p99 {percentile(to_bind, 99):,.0f} ms")
    for verb, (count, p50, p99) in summary.calls.items():
        rows.add_row(f"{verb} calls", f"{count}, p50 {p50:,.0f} µs, p99 {p99:,.0f} µs")
    rows.add_row("calls that failed", str(summary.call_errors))
    console.print()
    console.print(rows)
    waited = [f"{count} × {text}" for text, count in summary.waited.most_common(8)]
    _print_texts(console, "Pods that waited, by what they were told", waited)
    _print_texts(console, "Cannot run, and were told so", _lines(summary.impossible))
    _print_texts(console, "Left without a node (should not be)", _lines(summary.lost))
    _print_texts(console, "Refused by a node (must not be)", summary.refused_by_nodes)


def _lines(reasons: Mapping[str, str]) -> list[str]:
    return [f"{name}: {text}" for name, text in reasons.items()]


def _print_texts(console: Console, title: str, texts: Sequence[str]) -> None:
    if texts:
        console.print(f"\n[bold]{title}[/bold]")
    for text in texts:
        console.print(f"  {text}", markup=False, soft_wrap=True)
