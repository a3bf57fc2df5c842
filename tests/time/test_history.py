"""Usage over time: what KAI's formula says, forgotten when it is old, and the same after a restart."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.amounts import Amounts
from queues.history import MOST_ENTRIES, History, HistoryError

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TOTAL = Amounts(100_000, 10**12, 10_000)


def gpus(count: float) -> Amounts:
    return Amounts(0, 0, round(count * 1000))


def run(history: History, held: dict[str, list[float]], *, step_ms: int = MINUTE) -> int:
    """Samples with the given devices per queue, one after another; the time of the last."""
    now_ms = DAY
    for at in range(max(len(series) for series in held.values())):
        now_ms += step_ms
        history.sample(now_ms, {queue: gpus(series[at]) for queue, series in held.items()}, TOTAL)
    return now_ms


def test_the_part_of_the_capacity_that_was_used() -> None:
    history = History(None, 7 * DAY)
    now_ms = run(history, {"a": [0, 6, 6, 6], "b": [0, 1, 1, 1]})
    assert history.usage(now_ms) == {"a": Amounts(0, 0, 600_000), "b": Amounts(0, 0, 100_000)}


def test_the_window_forgets() -> None:
    history = History(None, HOUR)
    now_ms = run(history, {"a": [5] * 30})
    assert history.usage(now_ms)["a"].gpu_milli == 500_000
    assert history.usage(now_ms + 2 * HOUR) == {}


def test_the_half_life_makes_old_usage_count_less() -> None:
    history = History(HOUR, 7 * DAY)
    old = [10.0] * 60 + [0.0] * 600
    now_ms = run(history, {"old": old, "new": list(reversed(old))}, step_ms=MINUTE)
    usage = history.usage(now_ms)
    assert usage["new"].gpu_milli > 100 * usage["old"].gpu_milli


@given(
    series=st.lists(st.integers(0, 10), min_size=2, max_size=40),
    half_life=st.sampled_from([None, 7 * MINUTE, HOUR]),
)
def test_as_the_formula_says(series: list[int], half_life: int | None) -> None:
    """Within what comes of keeping sums of pieces of the window: here each sample is a piece of its own."""
    history = History(half_life, 64 * MINUTE)
    now_ms = run(history, {"a": [float(count) for count in series]})
    found = history.usage(now_ms).get("a", Amounts()).gpu_milli
    ages = [(len(series) - 1 - at) * MINUTE for at in range(1, len(series))]
    weights = [1.0 if half_life is None else 0.5 ** (age / half_life) for age in ages]
    used = sum(count * weight for count, weight in zip(series[1:], weights, strict=True))
    assert math.isclose(found, 1e6 * used / (10 * sum(weights)), rel_tol=0.005, abs_tol=2)


def test_time_that_nobody_saw_does_not_count() -> None:
    history = History(None, DAY)
    history.sample(0, {"a": gpus(10)}, TOTAL)
    history.sample(5 * HOUR, {"a": gpus(10)}, TOTAL)
    assert history.usage(5 * HOUR) == {}
    history.sample(5 * HOUR - MINUTE, {"a": gpus(10)}, TOTAL)  # a clock that went back
    assert history.usage(5 * HOUR) == {}


@given(series=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=2, max_size=50))
def test_the_same_after_a_restart(series: list[tuple[int, int]]) -> None:
    history = History(HOUR, DAY)
    now_ms = run(history, {"a": [float(a) for a, _ in series], "b": [float(b) for _, b in series]})
    again = History(HOUR, DAY)
    again.load(history.dump(), now_ms)
    assert again.usage(now_ms) == history.usage(now_ms)
    for each in (history, again):
        each.sample(now_ms + MINUTE, {"a": gpus(1)}, TOTAL)
    assert again.usage(now_ms + MINUTE) == history.usage(now_ms + MINUTE)


def test_thousands_of_queues_fit_into_a_config_map() -> None:
    history = History(None, 64 * MINUTE)
    queues = 2000
    held = {f"team-{at:04}": [float((at * 7 + step * 13) % 64) for step in range(60)] for at in range(queues)}
    now_ms = run(history, held)
    text = history.dump()
    assert len(text) < 900_000
    again = History(None, 64 * MINUTE)
    again.load(text, now_ms)
    assert again.usage(now_ms) == history.usage(now_ms), "without decay, merging pieces loses nothing"
    assert queues * 60 > MOST_ENTRIES, "pieces were merged"


@pytest.mark.parametrize("text", ["", "hello", "{}", "c-nQD0RR91", "é"])
def test_what_cannot_be_read_is_said_and_changes_nothing(text: str) -> None:
    history = History(None, DAY)
    now_ms = run(history, {"a": [0, 5]})
    with pytest.raises(HistoryError):
        history.load(text, now_ms)
    assert history.usage(now_ms)["a"].gpu_milli == 500_000
