"""Usage over time: bounded in memory and in text, whatever the clock, the queues and the text do."""

from __future__ import annotations

import base64
import json
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.amounts import Amounts
from queues.history import BUCKETS, FORM, MOST_TEXT, PPM, History, HistoryError

MINUTE, HOUR, DAY, WEEK = 60_000, 3_600_000, 86_400_000, 7 * 86_400_000
TOTAL = Amounts(100_000, 10**12, 64_000)


def gpus(milli: int) -> Amounts:
    return Amounts(0, 0, milli)


def sampled(history: History, held: list[int], *, step_ms: int, begin_ms: int = DAY) -> int:
    """One queue, `a`, with so many thousandths of a device at each step; when the last was."""
    for at, milli in enumerate(held):
        history.sample(begin_ms + at * step_ms, {"a": gpus(milli)}, TOTAL)
    return begin_ms + (len(held) - 1) * step_ms


def naive(held: list[int], *, step_ms: int, half_life_ms: int | None, window_ms: int) -> float:
    """KAI's formula, sample by sample."""
    used = there = 0.0
    for at, milli in enumerate(held[1:], 1):
        age_ms = (len(held) - 1 - at) * step_ms
        if age_ms >= window_ms:
            continue
        weight = 1.0 if half_life_ms is None else 0.5 ** (age_ms / half_life_ms)
        used += milli * weight
        there += TOTAL.gpu_milli * weight
    return PPM * used / there if there else 0.0


@settings(max_examples=40, deadline=None)
@given(
    levels=st.lists(st.integers(0, TOTAL.gpu_milli), min_size=1, max_size=12),
    half_life_ms=st.sampled_from([10 * MINUTE, HOUR, 6 * HOUR, None]),
    window_ms=st.sampled_from([6 * HOUR, DAY, WEEK]),
)
def test_as_the_formula_says_with_many_samples_in_a_piece(
    levels: list[int], half_life_ms: int | None, window_ms: int
) -> None:
    """Within what one piece makes out: what it holds leaves the window at once, and counts alike."""
    held = [level for level in levels for _ in range(60)]
    history = History(half_life_ms, window_ms)
    now_ms = sampled(history, held, step_ms=MINUTE)
    found = history.usage(now_ms).get("a", Amounts()).gpu_milli
    wanted = naive(held, step_ms=MINUTE, half_life_ms=half_life_ms, window_ms=window_ms)
    reach_ms = window_ms if half_life_ms is None else min(window_ms, 20 * half_life_ms)
    halvings_in_a_piece = 0.0 if half_life_ms is None else reach_ms / BUCKETS / half_life_ms
    assert abs(found - wanted) <= 2 + PPM / BUCKETS + PPM * halvings_in_a_piece / 20


def test_a_half_life_shorter_than_a_piece_of_the_window_counts() -> None:
    """An hour in a window of a week, whose pieces are 2.6 hours long."""
    held = [64_000] * 120 + [0] * 120
    history = History(HOUR, WEEK)
    found = history.usage(sampled(history, held, step_ms=MINUTE))["a"].gpu_milli
    assert abs(found - naive(held, step_ms=MINUTE, half_life_ms=HOUR, window_ms=WEEK)) < 0.01 * PPM


@given(
    held=st.lists(st.integers(0, 64_000), min_size=3, max_size=60),
    more=st.integers(1, 64_000),
    at=st.integers(1, 59),
    half_life_ms=st.sampled_from([None, 7 * MINUTE, HOUR]),
)
def test_who_used_more_has_used_more(held: list[int], more: int, at: int, half_life_ms: int | None) -> None:
    history, other = History(half_life_ms, 3 * HOUR), History(half_life_ms, 3 * HOUR)
    richer = held.copy()
    richer[min(at, len(held) - 1)] += more
    now_ms = sampled(history, held, step_ms=3 * MINUTE)
    sampled(other, richer, step_ms=3 * MINUTE)
    before, after = (h.usage(now_ms).get("a", Amounts()).gpu_milli for h in (history, other))
    assert before <= after
    assert history.usage(now_ms + 10 * HOUR) == {}


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.integers(0, 40 * MINUTE), st.integers(-3 * DAY, 0), st.sampled_from([-(10**12), 10**12, 5 * HOUR])
        ),
        max_size=400,
    ),
    half_life_ms=st.sampled_from([None, 1, MINUTE, 2 * HOUR]),
)
def test_memory_is_bounded_whatever_the_clock_does(steps: list[int], half_life_ms: int | None) -> None:
    history, now_ms = History(half_life_ms, 4 * HOUR), 2 * 10**12
    for step_ms in steps:
        now_ms = max(now_ms + step_ms, 0)
        history.sample(now_ms, {"a": gpus(1000)}, TOTAL)
        assert len(history._buckets) <= BUCKETS + 3
        usage = history.usage(now_ms).get("a", Amounts())
        assert usage.gpu_milli in (0, 15_625)


def test_a_clock_that_was_far_ahead_leaves_nothing_behind() -> None:
    history = History(None, HOUR)
    sampled(history, [64_000] * 30, step_ms=MINUTE, begin_ms=4 * 10**12)
    now_ms = sampled(history, [0] + [16_000] * 3000, step_ms=MINUTE, begin_ms=10**12)
    assert history.usage(now_ms)["a"].gpu_milli == PPM // 4
    assert len(history._buckets) <= BUCKETS + 2
    again = History(None, HOUR)
    again.load(history.dump(), now_ms - DAY)  # loaded where the clock is right, saved where it was ahead
    assert again.usage(now_ms - DAY) == {}


# -- the text ------------------------------------------------------------------------------------------------------


def filled(names: list[str], pieces: int, half_life_ms: int | None = None) -> tuple[History, int]:
    """A history of a week in which every queue has used something else in every piece."""
    history, chance, now_ms = History(half_life_ms, WEEK), random.Random(4), 0
    for piece in range(pieces):
        for moment_ms in (MINUTE, 2 * MINUTE):
            now_ms = WEEK + piece * (WEEK // BUCKETS) + moment_ms
            held = {
                name: Amounts(chance.randrange(10**5), chance.randrange(10**12), chance.randrange(10**4))
                for name in names
            }
            history.sample(now_ms, held, Amounts(10**8, 10**15, 10**7))
    return history, now_ms


@pytest.mark.parametrize(("queues", "pieces"), [(2000, 64), (5000, 20)])
def test_thousands_of_queues_with_unlike_usage_fit(queues: int, pieces: int) -> None:
    history, now_ms = filled([f"department-{at % 37}-team-{at}" for at in range(queues)], pieces)
    text = history.dump()
    assert len(text) <= MOST_TEXT
    again = History(None, WEEK)
    again.load(text, now_ms)
    assert again.usage(now_ms) == history.usage(now_ms)


def test_of_queues_with_the_longest_names_those_that_used_most_are_kept() -> None:
    chance = random.Random(7)
    names = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=253)) for _ in range(8000)]
    history = History(None, WEEK)
    for moment_ms in (WEEK, WEEK + MINUTE):
        history.sample(moment_ms, {name: gpus(1 + at) for at, name in enumerate(names)}, TOTAL)
    text = history.dump()
    assert len(text) <= MOST_TEXT
    again = History(None, WEEK)
    again.load(text, WEEK + MINUTE)
    assert set(again.usage(WEEK + MINUTE)) == set(names[-len(again.usage(WEEK + MINUTE)) :])
    assert len(again.usage(WEEK + MINUTE)) >= 2000


def test_many_restarts_change_nothing() -> None:
    """With a half-life a merged piece is as old as its samples were on average; merging it again moves nothing."""
    history, now_ms = filled([f"q{at}" for at in range(1200)], BUCKETS, half_life_ms=2 * DAY)
    once = History(2 * DAY, WEEK)
    once.load(history.dump(), now_ms)
    for queue, usage in history.usage(now_ms).items():
        assert abs(once.usage(now_ms)[queue].gpu_milli - usage.gpu_milli) <= 2 + usage.gpu_milli // 50
    again = once
    for _ in range(6):
        text = again.dump()
        again = History(2 * DAY, WEEK)
        again.load(text, now_ms)
    assert again.usage(now_ms) == once.usage(now_ms)


def test_a_restart_loses_nothing_but_what_came_after_the_dump() -> None:
    history = History(None, DAY)
    now_ms = sampled(history, [64_000] * 100, step_ms=MINUTE)
    text = history.dump()
    history.sample(now_ms + MINUTE, {"a": gpus(0)}, TOTAL)
    again = History(None, DAY)
    again.load(text, now_ms + 3 * MINUTE)
    assert again.usage(now_ms + 3 * MINUTE)["a"].gpu_milli == PPM
    again.sample(now_ms + 3 * MINUTE, {"a": gpus(64_000)}, TOTAL)
    assert again.usage(now_ms + 3 * MINUTE)["a"].gpu_milli == PPM
    assert history.usage(now_ms + 3 * MINUTE)["a"].gpu_milli == PPM * 99 // 100


def packed(document: object) -> str:
    return base64.b85encode(zlib.compress(json.dumps(document).encode())).decode()


GOOD = {"form": FORM, "last": 5, "queues": ["a"], "buckets": [[[DAY, 60, 0], [1, 1, 100], [[0, 0, 0, 50]]]]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (packed(GOOD | {"form": 77}), "form 77 is not known"),
        (packed(GOOD | {"buckets": [[[DAY, 60, 0], [1, 1, -1], []]]}), "a number below 0"),
        (packed(GOOD | {"buckets": [[[DAY, 60], [1, 1, 1], []]]}), "cannot be read"),
        (packed(GOOD | {"buckets": [[[DAY, 60, 0], [1, 1, 1], [[3, 0, 0, 1]]]]}), "cannot be read"),
        (packed(GOOD | {"queues": None}), "cannot be read"),
        (packed([]), "cannot be read"),
        (packed(GOOD)[:-5], "cannot be read"),
        (base64.b85encode(zlib.compress(b"0" * (80 << 20), 9)).decode(), "unpacks to too much"),
    ],
)
def test_foreign_texts_are_named_and_change_nothing(text: str, words: str) -> None:
    history = History(None, DAY)
    history.load(packed(GOOD) + "\n", DAY + MINUTE)
    before = history.usage(DAY + MINUTE)
    assert before == {"a": gpus(500_000)}
    with pytest.raises(HistoryError, match=words):
        history.load(text, DAY + MINUTE)
    assert history.usage(DAY + MINUTE) == before


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    history = History(None, DAY)
    with pytest.raises(HistoryError):
        history.load(text, DAY)
    assert history.usage(DAY) == {}
