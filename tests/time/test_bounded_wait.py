"""How long protected work waits at most, whatever comes behind it: reservations alone, over a plain event loop.

The loop places by rank and asks the reservations before each placement. There is no engine, so that what is shown here
follows from the reservations.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster import Cluster
from scheduler.constraints import constraints_of
from scheduler.expectation import Expectations
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy
from scheduler.record import PodRecord
from scheduler.request import parse_request
from scheduler.reservation import Reservations
from tests.engine.world import GPU, node, pod
from topology import vocabulary
from topology.inventory import InventorySettings

MINUTE = 60_000
RUNTIME = vocabulary.EXPECTED_RUNTIME.key


@dataclass
class Loop:
    """Pods that end and pods that come, in the order of time. One that waits for `age_ms` gets a reservation."""

    gpus: tuple[int, ...]
    age_ms: int
    most: int = 8
    look_every_ms: int = 0
    now_ms: int = 0
    looked_ms: int = -1 << 60
    waiting: dict[str, PodRecord] = field(default_factory=dict)
    ends: list[tuple[int, str]] = field(default_factory=list)
    runs_ms: dict[str, int] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = Cluster(inventory=InventorySettings(), policy=PlacementPolicy())
        self.expectations = Expectations()
        self.reservations = Reservations(self.cluster, self.expectations, self.most)
        for at, count in enumerate(self.gpus):
            self.cluster.set_node(node(f"n{at}", gpus=count, cpu_milli=1_000_000))

    def submit(self, name: str, gpus: int, runs_ms: int, *, says_ms: int | None = None, uid: str | None = None) -> str:
        """A pod that will run so long, and may say so, or something else."""
        annotations = {} if says_ms is None else {RUNTIME: f"{says_ms}ms"}
        facts = pod(name, whole=gpus, created_ms=self.now_ms, annotations=annotations)
        facts = replace(facts, uid=uid or facts.uid)
        request = parse_request(facts, (GPU,))
        self.waiting[facts.uid] = PodRecord(facts, constraints_of(facts), request, None, since_ms=self.now_ms)
        self.runs_ms[facts.uid] = runs_ms
        return facts.uid

    def round(self) -> None:
        """Everything that has ended goes, then everything that may start does."""
        while self.ends and self.ends[0][0] <= self.now_ms:
            _, uid = heapq.heappop(self.ends)
            self.cluster.release(uid)
            self.expectations.ended(uid, self.now_ms, by_itself=True)
        if self.now_ms - self.looked_ms >= self.look_every_ms:
            self.looked_ms = self.now_ms
            self.reservations.refresh(self.now_ms)
        in_order = sorted(self.waiting.values(), key=lambda record: record.rank)
        for record in in_order:
            old = self.now_ms - record.since_ms >= self.age_ms
            if old and not self.reservations.full and self.reservations.of(record.uid) is None:
                self.reservations.claim(record, self.now_ms)
        for record in in_order:
            self._try(record)
        self.cluster.validate()

    def _try(self, record: PodRecord) -> None:
        assert record.request is not None
        left = self.cluster.mask(record.facts, record.constraints).copy()
        left[list(self.reservations.forbidden(record, self.now_ms))] = False
        allocation = self.cluster.place(record.facts, record.request, record.constraints, left=left)
        if allocation is None:
            return
        facts: PodFacts = replace(record.facts, started_ms=self.now_ms)
        self.cluster.book(facts, record.request, allocation, None)
        self.expectations.started(facts, self.now_ms)
        self.reservations.drop(record.uid)
        del self.waiting[record.uid]
        self.started[record.uid] = self.now_ms
        heapq.heappush(self.ends, (self.now_ms + self.runs_ms[record.uid], record.uid))

    def run_until(self, now_ms: int) -> None:
        """A round at each end until then, and then."""
        while self.ends and self.ends[0][0] <= now_ms:
            self.now_ms = max(self.ends[0][0], self.now_ms)
            self.round()
        self.now_ms = now_ms
        self.round()


@pytest.mark.parametrize("known", ["declared", "learnt", "unknown"])
def test_one_large_pod_among_endless_small_ones(known: str) -> None:
    """KAI #1970 (S6): one pod of 8 devices, endless pods of one that run 5 to 10 minutes, all alike in priority."""
    age_ms, longest_ms = 10 * MINUTE, 10 * MINUTE
    loop = Loop((8, 8), age_ms)
    count = 0

    def small() -> None:
        nonlocal count
        runs_ms = 5 * MINUTE + count * 37_000 % (5 * MINUTE + 1)
        owner = "unknown" if known != "unknown" else f"unknown-{count}"
        loop.submit(f"{owner}-{count}", 1, runs_ms, says_ms=runs_ms if known == "declared" else None)
        count += 1

    for _ in range(24):
        small()
    if known == "learnt":
        for _ in range(20):
            loop.run_until(loop.now_ms + MINUTE)
            small()
    loop.run_until(loop.now_ms)
    came_ms = loop.now_ms
    large = loop.submit("large", 8, 30 * MINUTE)
    while large not in loop.started and loop.now_ms < came_ms + 120 * MINUTE:
        while len(loop.waiting) < 12:
            small()
        loop.run_until(loop.now_ms + 20_000)
    assert loop.started.get(large, 1 << 60) - came_ms <= age_ms + longest_ms + 20_000


@pytest.mark.parametrize("declared", [True, False])
def test_large_pods_and_a_stream_of_small_ones(declared: bool) -> None:
    """KAI #1969 (S1) with two single pods: eight pods of 2 end at minutes 1 to 8 on two nodes of 8, two pods of 8 wait,
    each minute one of 2 comes that runs 10 minutes. Nobody passes who does not end by minute 8.
    """
    loop = Loop((8, 8), age_ms=0)
    for at in range(8):
        runs_ms = (at + 1) * MINUTE
        loop.submit(f"first-{at}", 2, runs_ms, says_ms=runs_ms if declared else None)
    loop.round()
    large = [loop.submit(f"large-{at}", 8, 60 * MINUTE) for at in range(2)]
    loop.round()
    for minute in range(1, 10):
        loop.submit(f"long-{minute}", 2, 10 * MINUTE, says_ms=10 * MINUTE if declared else None)
        loop.submit(f"short-{minute}", 2, MINUTE // 2, says_ms=MINUTE // 2 if declared else None)
        loop.run_until(minute * MINUTE)
    assert max(loop.started[uid] for uid in large) <= 8 * MINUTE
    passed = {
        uid: at for uid, at in loop.started.items() if uid not in large and "first" not in uid and at < 8 * MINUTE
    }
    assert all(at + loop.runs_ms[uid] <= 8 * MINUTE for uid, at in passed.items())
    assert bool(passed) is declared


runs = st.integers(1, 10)


@st.composite
def small_pods(draw: st.DrawFn) -> list[tuple[int, int, int | None, int]]:
    """Minutes between pods, what they run, what they say of it (the truth, a lie, nothing), and devices."""
    return draw(
        st.lists(
            st.tuples(st.integers(0, 3), runs, st.one_of(st.none(), runs, st.just(0)), st.integers(1, 3)),
            min_size=20,
            max_size=80,
        )
    )


@settings(max_examples=60, deadline=None)
@given(
    pods=small_pods(),
    wanted=st.integers(2, 8),
    newest_first=st.booleans(),
    owner=st.booleans(),
    look_every_ms=st.sampled_from([0, 1000, 2 * MINUTE]),
)
def test_the_wait_is_bounded_whatever_comes(
    pods: list[tuple[int, int, int | None, int]], wanted: int, newest_first: bool, owner: bool, look_every_ms: int
) -> None:
    """Once it has a reservation, a pod waits no longer than the longest run, where nobody says too little of his run
    time; and never longer than twice that, since who outlives what he said lets nobody else in any more.
    """
    longest_ms, age_ms = 10 * MINUTE, 2 * MINUTE
    loop = Loop((8,), age_ms, look_every_ms=look_every_ms)
    honest = True

    def small(number: int, runs: int, says: int | None, gpus: int) -> None:
        nonlocal honest
        said = runs if says == 0 else says
        honest = honest and (said is None or said >= runs) and not owner
        order = 10_000 - number if newest_first else number
        name = f"like-{number}" if owner else f"p{number:05}x"
        says_ms = None if said is None else said * MINUTE
        loop.submit(name, gpus, runs * MINUTE, says_ms=says_ms, uid=f"{order:05}")

    number = 0
    for number in range(8):  # they fill the node, so that nobody stands before the large pod
        small(number, 1 + number % 10, None if number % 3 else 0, 1)
    loop.round()
    large = loop.submit("large", wanted, MINUTE, uid="99999")
    came_ms, end_ms = loop.now_ms, loop.now_ms + age_ms + 3 * longest_ms
    loop.now_ms += 1000  # all others stand behind it
    at = 0
    while large not in loop.started and loop.now_ms <= end_ms:
        wait, runs_, says, gpus = pods[at % len(pods)]
        at += 1
        number += 1
        small(number, runs_, says, gpus)
        small(number + 50_000, runs_, says, 1)
        loop.run_until(loop.now_ms + wait * MINUTE // 2 + 10_000)
    waited_ms = loop.started.get(large, 1 << 60) - came_ms
    assert waited_ms <= age_ms + 2 * longest_ms + MINUTE + MINUTE // 2
    if honest:
        assert waited_ms <= age_ms + longest_ms + MINUTE + MINUTE // 2
