"""Which pods are of a kind, and when those end that have their place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from queues.runtimes import ENOUGH, Span
from scheduler.expectation import Expectations
from scheduler.pod import Owner, PodFacts
from tests.engine.world import pod
from topology import vocabulary

MINUTE = 60_000


def of(owner: str, *, kind: str = "Job", queue: str = "q", whole: int = 1, name: str = "p") -> PodFacts:
    facts = pod(name, whole=whole, labels={vocabulary.QUEUE.key: queue})
    return replace(facts, owner=Owner(kind, owner, "u"))


def taught(facts: PodFacts, minutes: int) -> Expectations:
    expectations = Expectations()
    for _ in range(ENOUGH):
        expectations.started(replace(facts, started_ms=0), 0)
        expectations.ended(facts.uid, minutes * MINUTE, by_itself=True)
    return expectations


@pytest.mark.parametrize(
    ("before", "now", "alike"),
    [
        ("night-28912340", "night-28912341", True),
        ("train-x7k2p", "train-9bv4d", True),
        ("web-6d4cf56db6-x7k2p", "web-7c5dd8b9f4-2zv8q", True),
        ("sweep-0", "sweep-17", True),
        ("experiment-large-1", "experiment-small-1", False),
        ("set-leader-0", "set-worker-0", False),
        ("train", "eval", False),
    ],
)
def test_names_without_what_controllers_add(before: str, now: str, alike: bool) -> None:
    expectations = taught(of(before), 7)
    expected = Span(7 * MINUTE, 7 * MINUTE) if alike else None
    assert expectations.run_span(of(now, queue="another")) == expected


def test_pods_of_another_size_or_namespace_are_not_alike() -> None:
    expectations = taught(of("train"), 7)
    assert expectations.run_span(of("train", whole=2)) is None
    assert expectations.run_span(replace(of("train", queue="another"), namespace="elsewhere")) is None


def test_services_neither_learn_nor_teach() -> None:
    expectations = taught(of("web-6d4cf56db6", kind="ReplicaSet"), 7)
    assert expectations.run_span(of("other")) is None
    expectations = taught(of("batch"), 7)
    assert expectations.run_span(of("other")) == Span(7 * MINUTE, 7 * MINUTE)
    assert expectations.run_span(of("web-6d4cf56db6", kind="ReplicaSet")) is None


def test_the_end_of_one_that_has_its_place() -> None:
    expectations = taught(of("batch"), 10)
    tracked = replace(of("batch", name="tracked"), started_ms=20 * MINUTE)
    expectations.started(tracked, 20 * MINUTE)
    now_ms = 24 * MINUTE
    assert expectations.end_of(tracked, now_ms) == expectations.end_span(tracked.uid, now_ms)
    assert expectations.end_of(tracked, now_ms) == Span(6 * MINUTE, 6 * MINUTE)
    untracked = replace(of("batch", name="untracked"), started_ms=21 * MINUTE)
    assert expectations.end_of(untracked, now_ms) == Span(7 * MINUTE, 7 * MINUTE)
    assert expectations.end_of(of("batch", name="booked"), now_ms) == Span(10 * MINUTE, 10 * MINUTE)
    assert expectations.end_of(of("batch", name="x", whole=3), now_ms) is None


def test_a_start_time_that_turns_up_late_is_taken() -> None:
    expectations = taught(of("batch"), 10)
    facts = of("batch", name="new")
    expectations.started(facts, 8 * MINUTE)
    expectations.started(replace(facts, started_ms=5 * MINUTE), 9 * MINUTE)
    expectations.started(replace(facts, started_ms=7 * MINUTE), 9 * MINUTE)
    assert expectations.end_span(facts.uid, 9 * MINUTE) == Span(6 * MINUTE, 6 * MINUTE)
