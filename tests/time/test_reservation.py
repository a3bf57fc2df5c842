"""Large work does not starve: what frees on one node is kept for it, and others pass where that costs it nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from scheduler.engine import Engine
from scheduler.instruction import Release
from scheduler.pod import PodFacts
from tests.engine.world import World, engine, node, pod

MINUTE = 60_000
RUNTIME = "tangram.scheduler/expected-runtime"


@dataclass
class Cluster:
    """Virtual time in steps of ten seconds: pods start when they are planned, and end when their time is over."""

    world: World
    step_ms: int = 10_000
    started: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    runs_ms: dict[str, int] = field(default_factory=dict)
    begin_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.begin_ms = self.world.now_ms

    @property
    def minute(self) -> float:
        return (self.world.now_ms - self.begin_ms) / MINUTE

    def submit(self, name: str, gpus: int, minutes: float, *, declared: bool = True) -> None:
        annotations = {RUNTIME: f"{minutes * 60:g}s"} if declared else {}
        self.runs_ms[f"uid-{name}"] = round(minutes * MINUTE)
        self.world.create(pod(name, whole=gpus, created_ms=self.world.now_ms, annotations=annotations))

    def step(self) -> None:
        """What is due ends; what can start does."""
        for uid in [uid for uid, end_ms in self.ends.items() if end_ms <= self.world.now_ms]:
            del self.ends[uid]
            self.world.engine.remove_pod(uid, self.world.now_ms)
            self.world.pods.pop(uid, None)
        more = True
        while more:
            said, more = self.world.engine.plan(self.world.now_ms)
            for order in said:
                if isinstance(order, Release):
                    self._start(order.uid, order.node)
        self.world.engine.validate()
        self.world.now_ms += self.step_ms

    def _start(self, uid: str, where: str) -> None:
        facts = self.world.pods[uid]
        bound = _running(facts, where, self.world.now_ms)
        self.world.pods[uid] = bound
        self.world.engine.apply_pod(bound, self.world.now_ms)
        self.started[uid] = self.world.now_ms
        self.ends[uid] = self.world.now_ms + self.runs_ms[uid]

    def start_minute(self, name: str) -> float:
        return (self.started[f"uid-{name}"] - self.begin_ms) / MINUTE


def _running(facts: PodFacts, where: str, now_ms: int) -> PodFacts:
    from dataclasses import replace

    return replace(facts, node_name=where, gates=(), phase="Running", started_ms=now_ms)


def cluster(engine_: Engine, *gpus: int) -> Cluster:
    world = World(engine_)
    world.add_nodes(*(node(f"n{at}", gpus=count) for at, count in enumerate(gpus)))
    return Cluster(world)


@pytest.mark.parametrize("declared", [True, False])
def test_endless_small_work_does_not_keep_large_work_out(declared: bool) -> None:
    """One job of 8 devices among jobs of one, in one queue with one priority (KAI #1970, Kueue #754)."""
    age_minutes, longest = 10, 9
    here = cluster(engine(starving_after_ms=age_minutes * MINUTE), 8, 8)
    count = 0
    for _ in range(2):
        for at in range(8):
            here.submit(f"first-{count}-{at}", 1, 5 + at % 5, declared=declared)
        count += 1
    here.step()
    here.submit("large", 8, 30, declared=declared)
    while "uid-large" not in here.started and here.minute < 120:
        for at in range(3):  # always more than there is room for
            here.submit(f"small-{count}-{at}", 1, 5 + (count + at) % 5, declared=declared)
        count += 1
        here.step()
    assert here.start_minute("large") <= age_minutes + longest + 0.5
    assert len(here.started) > 30, "the rest of the cluster works on"


def test_without_protection_it_would_starve() -> None:
    """So that the test above can fail."""
    here = cluster(engine(starving_after_ms=0), 8, 8)
    for at in range(16):
        here.submit(f"first-{at}", 1, 5 + at % 5)
    here.step()
    here.submit("large", 8, 30)
    for count in range(300):
        for at in range(3):
            here.submit(f"small-{count}-{at}", 1, 5 + (count + at) % 5)
        here.step()
    assert "uid-large" not in here.started


@pytest.mark.parametrize("declared", [True, False])
def test_backfill(declared: bool) -> None:
    """Two nodes of 8; eight jobs of 2 end at minutes 1 … 8; then two jobs of 8 come, and each minute one of 2 that runs
    ten minutes, or half a minute (KAI #1969, Kueue #534; the gang of two as two single pods).
    """
    here = cluster(engine(starving_after_ms=1000), 8, 8)
    for at in range(8):
        here.submit(f"first-{at}", 2, at + 1, declared=declared)
    here.step()
    here.submit("large-0", 8, 60)
    here.submit("large-1", 8, 60)
    minute = 0
    while here.minute < 9:
        if here.minute >= minute + 1:
            minute += 1
            here.submit(f"long-{minute}", 2, 10, declared=declared)
            here.submit(f"short-{minute}", 2, 0.4, declared=declared)
        here.step()
    assert max(here.start_minute("large-0"), here.start_minute("large-1")) <= 8.5
    passed = [name for name in here.started if "long" in name]
    assert passed == [], "who does not end in time does not pass"
    short = [name for name in here.started if "short" in name]
    assert bool(short) == declared, "who is known to end in time does"


def test_a_place_beside_what_is_kept_stays_usable() -> None:
    """The reserved job needs 4 of 8; two more fit beside it, a third would not."""
    here = cluster(engine(starving_after_ms=1000), 8)
    here.submit("holds", 6, 30, declared=False)
    here.step()
    here.submit("large", 4, 60)
    here.step()
    here.step()
    here.submit("small-0", 1, 60)
    here.submit("small-1", 1, 60)
    here.step()
    kept = here.world.engine.reservations.of("uid-large")
    assert kept is not None
    assert kept.awaited == ("uid-holds",)
    assert {"uid-small-0", "uid-small-1"} <= set(here.started)


def test_more_important_work_of_the_queue_is_not_held_back() -> None:
    here = cluster(engine(starving_after_ms=1000), 8)
    here.submit("holds", 6, 30)
    here.step()
    here.submit("large", 8, 60)
    here.step()
    here.step()
    here.runs_ms["uid-urgent"] = MINUTE
    here.world.create(pod("urgent", whole=2, priority=10, created_ms=here.world.now_ms))
    here.runs_ms["uid-plain"] = 60 * MINUTE
    here.world.create(pod("plain", whole=1, created_ms=here.world.now_ms))
    here.step()
    assert "uid-urgent" in here.started
    assert "uid-plain" not in here.started


def test_reservations_are_bounded_and_go_with_their_pod_and_node() -> None:
    here = cluster(engine(starving_after_ms=1000, reservations=1), 8, 8)
    here.submit("holds-0", 8, 30)
    here.submit("holds-1", 8, 30)
    here.step()
    here.submit("large-0", 8, 60)
    here.submit("large-1", 8, 60, declared=False)
    here.step()
    here.step()
    reservations = here.world.engine.reservations
    assert [kept.uid for kept in reservations] == ["uid-large-0"]
    here.world.delete("uid-large-0")
    here.step()
    here.step()
    (kept,) = reservations
    assert kept.uid == "uid-large-1"
    here.world.engine.cluster.remove_node(kept.node)
    here.step()
    here.step()
    (again,) = reservations
    assert again.node != kept.node


def test_one_that_could_never_run_gets_none() -> None:
    here = cluster(engine(starving_after_ms=1000), 8, 4)
    here.submit("holds", 8, 30)
    here.submit("huge", 16, 60)
    here.step()
    here.step()
    here.step()
    assert list(here.world.engine.reservations) == []
