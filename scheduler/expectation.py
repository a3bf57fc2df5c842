"""How long pods run: what they declare, else what pods like them have shown."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Final, NamedTuple

from queues.runtimes import Runtimes, Span
from scheduler.claim import queue_named
from scheduler.pod import PodFacts
from topology import duration, vocabulary

_HASH: Final = "[bcdfghjklmnpqrstvwxz2456789]{5,10}"
_GENERATED: Final = re.compile(rf"(-{_HASH})?-([0-9]+|{_HASH})$", re.ASCII)
"""What controllers add to the names of what they make: a hash, an index, both. Hashes have no vowels, words do."""
_LASTING: Final = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"})
"""Owners whose pods run until somebody ends them."""


def declared_ms(pod: PodFacts) -> int | None:
    """What the pod says of its run time in milliseconds; None when it says nothing that can be read."""
    written = _written(pod)
    return None if written is None else _milliseconds(written)


def misunderstandings(pod: PodFacts) -> dict[str, str]:
    """What is wrong with what the pod says of its run time: problem → text for its author."""
    written = _written(pod)
    if written is None or declared_ms(pod) is not None:
        return {}
    key = vocabulary.EXPECTED_RUNTIME.key
    return {"EXPECTED_RUNTIME_UNREADABLE": f"annotation {key}: {written[:64]!r} has no effect: write {duration.FORM}"}


@lru_cache(maxsize=4096)
def _milliseconds(written: str) -> int | None:
    try:
        return duration.parse_ms(written) or None
    except duration.DurationError:
        return None


def _written(pod: PodFacts) -> str | None:
    return next((text for key in vocabulary.EXPECTED_RUNTIME.spellings if (text := pod.annotations.get(key))), None)


class _Running(NamedTuple):
    pod: PodFacts
    started_ms: int


class Expectations:
    """Expected run times of pods, and when those that run will have ended."""

    def __init__(self) -> None:
        self._runtimes = Runtimes()
        self._running: dict[str, _Running] = {}

    def started(self, pod: PodFacts, now_ms: int) -> None:
        """The pod runs, as far as is known since its start time, else since now. Told again it changes nothing."""
        known = self._running.get(pod.uid)
        if known is None or (known.pod.started_ms is None and pod.started_ms is not None):
            self._running[pod.uid] = _Running(pod, now_ms if pod.started_ms is None else pod.started_ms)

    def ended(self, uid: str, now_ms: int, *, by_itself: bool) -> None:
        """The pod is gone; only one that ended by itself teaches how long its like run."""
        running = self._running.pop(uid, None)
        if running is None or not by_itself:
            return
        for kind in _kinds(running.pod):
            self._runtimes.ended(kind, now_ms - running.started_ms)

    def run_span(self, pod: PodFacts) -> Span | None:
        """How long the pod runs from its start; None when nothing is known."""
        declared = declared_ms(pod)
        if declared is not None:
            return Span(declared, declared)
        spans = (self._runtimes.expect(kind) for kind in _kinds(pod))
        return next((span for span in spans if span is not None), None)

    def end_span(self, uid: str, now_ms: int) -> Span | None:
        """How long from now until the running pod ends. One that outlives what was expected ends nobody knows when."""
        running = self._running.get(uid)
        return None if running is None else self._left(running.pod, now_ms - running.started_ms)

    def end_of(self, pod: PodFacts, now_ms: int) -> Span | None:
        """How long from now until a pod that has its place ends; one that does not run yet starts now."""
        running = self._running.get(pod.uid)
        started_ms = pod.started_ms if running is None else running.started_ms
        return self._left(pod, 0 if started_ms is None else now_ms - started_ms)

    def _left(self, pod: PodFacts, age_ms: int) -> Span | None:
        span = self.run_span(pod)
        if span is None:
            return None
        late = span.high_ms is None or age_ms > span.high_ms
        return Span(max(span.low_ms - age_ms, 0), None if late or span.high_ms is None else span.high_ms - age_ms)


def _kinds(pod: PodFacts) -> tuple[Hashable, ...]:
    """What a pod has in common with those before it, from narrow to wide; nothing where its like does not end."""
    if pod.owner is not None and pod.owner.kind in _LASTING:
        return ()
    devices = tuple(sorted((name, amount) for c in pod.containers for name, amount in c.limits.items() if "/" in name))
    owner = pod.owner
    name = pod.name if owner is None else owner.name
    narrow = (pod.namespace, "" if owner is None else owner.kind, _GENERATED.sub("", name), devices)
    return (narrow, (queue_named(pod), devices))
