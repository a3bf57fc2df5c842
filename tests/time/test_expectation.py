"""How long pods run: declared, learnt, and honestly unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.runtimes import ENOUGH, KINDS, Runtimes, Span
from scheduler.expectation import Expectations, declared_ms, misunderstandings
from scheduler.pod import Owner, PodFacts
from tests.engine.world import pod
from topology import duration

MINUTE = 60_000
KEY = "tangram.scheduler/expected-runtime"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90m", 90 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("45s", 45_000),
        ("2d", 2 * 24 * 60 * MINUTE),
        ("1.5h", 90 * MINUTE),
    ],
)
def test_declared_run_times(text: str, expected: int) -> None:
    facts = pod("p", annotations={KEY: text})
    assert declared_ms(facts) == expected
    assert misunderstandings(facts) == {}


@pytest.mark.parametrize("text", ["soon", "90", "-5m", "5 m", "1e3s", "0s", "99999999d", "m", "5m!"])
def test_what_cannot_be_read_is_said_and_counts_as_nothing(text: str) -> None:
    facts = pod("p", annotations={KEY: text})
    assert declared_ms(facts) is None
    (said,) = misunderstandings(facts).values()
    assert "has no effect" in said
    assert "90s" in said


@given(st.text(max_size=20))
def test_reading_never_fails(text: str) -> None:
    declared_ms(pod("p", annotations={KEY: text}))


@given(st.integers(1, 10**9))
def test_a_duration_is_what_was_written(ms: int) -> None:
    assert duration.parse_ms(f"{ms}ms") == ms


def test_few_cases_give_no_latest_end() -> None:
    runtimes = Runtimes()
    assert runtimes.expect("k") is None
    for _ in range(ENOUGH - 1):
        runtimes.ended("k", 1000)
        assert runtimes.expect("k") == Span(1000, None)
    runtimes.ended("k", 3000)
    assert runtimes.expect("k") == Span(1000, 3000)


@given(st.lists(st.integers(0, 10**7), min_size=ENOUGH, max_size=200))
def test_most_cases_lie_between_the_bounds(cases: list[int]) -> None:
    runtimes = Runtimes()
    for case in cases:
        runtimes.ended("k", case)
    span = runtimes.expect("k")
    assert span is not None
    assert span.high_ms is not None
    assert span.low_ms <= span.high_ms
    latest = cases[-64:]
    assert sum(span.low_ms <= case <= span.high_ms for case in latest) * 2 >= len(latest)


def test_kinds_that_are_not_seen_any_more_are_forgotten() -> None:
    runtimes = Runtimes()
    for number in range(KINDS + 10):
        runtimes.ended(number, 1)
    assert runtimes.expect(0) is None
    assert runtimes.expect(KINDS) is not None


def of_job(name: str, owner: str, uid: str, **other: object) -> PodFacts:
    facts = replace(pod(name, whole=2, **other), uid=uid)  # type: ignore[arg-type]
    return replace(facts, owner=Owner("Job", owner, "u"))


def learnt(minutes: list[int]) -> Expectations:
    expectations = Expectations()
    for at, minute in enumerate(minutes):
        facts = of_job(f"night-{at}-x2vzk", f"night-{28912340 + at}", f"u{at}")
        expectations.started(facts, 0)
        expectations.ended(f"u{at}", minute * MINUTE, by_itself=True)
    return expectations


def test_the_next_run_of_a_job_is_expected_to_take_as_long_as_before() -> None:
    expectations = learnt([10, 11, 12, 13, 14])
    tonight = of_job("night-9-abcde", "night-28912399", "new")
    assert expectations.run_span(tonight) == Span(11 * MINUTE, 14 * MINUTE)
    other = replace(tonight, owner=Owner("Job", "other", "u"), labels={"tangram.scheduler/queue": "elsewhere"})
    assert expectations.run_span(other) is None
    like = replace(tonight, owner=Owner("Job", "other", "u"))
    assert expectations.run_span(like) is not None, "work of the same queue with as many devices is a guess"
    assert expectations.run_span(of_job("x", "night-1", "y", annotations={KEY: "5m"})) == Span(5 * MINUTE, 5 * MINUTE)


def test_what_was_deleted_teaches_nothing() -> None:
    expectations = Expectations()
    facts = of_job("a", "a", "u")
    expectations.started(facts, 0)
    expectations.ended("u", 1000, by_itself=False)
    expectations.ended("never-seen", 1000, by_itself=True)
    assert expectations.run_span(facts) is None


def test_who_outlives_what_was_expected_ends_nobody_knows_when() -> None:
    expectations = learnt([10, 10, 10, 10, 10])
    running = replace(of_job("night-9-abcde", "night-28912399", "new"), started_ms=100 * MINUTE)
    expectations.started(running, 101 * MINUTE)
    assert expectations.end_span("new", 104 * MINUTE) == Span(6 * MINUTE, 6 * MINUTE)
    assert expectations.end_span("new", 115 * MINUTE) == Span(0, None)
    assert expectations.end_span("unknown", 0) is None
