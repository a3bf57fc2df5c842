"""Reservations as time goes on: they stay where they are, open when something frees, and say when the pod starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from queues.runtimes import Span
from scheduler.explanation import explain
from scheduler.reservation import Reservations
from tests.engine.world import engine, node, pod
from tests.time.test_estimate import LARGE, MINUTE, Place, record, says
from tests.time.test_reservation import Cluster as Simulation
from tests.time.test_reservation import cluster


def reserved(place: Place) -> Reservations:
    return Reservations(place.cluster, place.expectations, 8)


def test_a_reservation_does_not_wander_to_a_better_node() -> None:
    place = Place(8, 8)
    place.hold(pod("a", whole=8, annotations=says(10)), "n0")
    place.hold(pod("b", whole=8, annotations=says(20)), "n1")
    reservations = reserved(place)
    first = reservations.claim(record(LARGE), 0)
    assert first is not None
    assert (first.node, first.since_ms) == ("n0", 0)
    reservations.refresh(5 * MINUTE)
    (kept,) = reservations
    assert (kept.node, kept.since_ms, kept.late, kept.high_ms) == ("n0", 0, False, 10 * MINUTE)
    reservations.refresh(12 * MINUTE)
    (kept,) = reservations
    assert (kept.node, kept.since_ms, kept.late) == ("n0", 0, True)
    assert kept.high_ms is None, "one who outlives what was expected makes the end unknown, not the claim void"
    place.cluster.set_node(replace(node("n0", gpus=8, cpu_milli=1_000_000), unschedulable=True))
    reservations.refresh(13 * MINUTE)
    assert reservations.of(LARGE.uid) is None
    again = reservations.claim(record(LARGE), 13 * MINUTE)
    assert again is not None
    assert again.node == "n1"


def test_those_who_come_are_not_awaited_instead_of_those_who_were() -> None:
    """Else newcomers could take the places of those awaited for ever."""
    place = Place(8)
    place.hold(pod("a", whole=4), "n0")
    place.hold(pod("b", whole=4), "n0")
    reservations = reserved(place)
    wanted = record(pod("wanted", whole=4))
    first = reservations.claim(wanted, 0)
    assert first is not None
    assert first.awaited == ("uid-a",)
    place.cluster.release("uid-b")
    newcomer = pod("c", whole=4, annotations=says(5), created_ms=1)
    assert reservations.forbidden(record(newcomer), 0) == frozenset()
    place.hold(newcomer, "n0")
    reservations.refresh(MINUTE)
    (kept,) = reservations
    assert (kept.awaited, kept.low_ms) == (("uid-a",), None)
    place.cluster.release("uid-a")
    reservations.refresh(MINUTE)
    (kept,) = reservations
    assert (kept.awaited, kept.low_ms) == ((), MINUTE), "it may start; nobody else gets the place"
    assert reservations.forbidden(record(pod("d", whole=4, created_ms=1)), MINUTE) == {0}


def test_the_node_is_not_lent_longer_when_somebody_stays_longer() -> None:
    """One who said ten minutes is still there; while he is awaited nobody passes, however short he says he is."""
    place = Place(8)
    place.hold(pod("a", whole=4, annotations=says(10)), "n0")
    reservations = reserved(place)
    reservations.claim(record(LARGE), 0)
    quick = record(pod("quick", whole=1, created_ms=1, annotations=says(2)))
    assert reservations.forbidden(quick, 8 * MINUTE) == frozenset()
    place.hold(pod("liar", whole=2, annotations=says(1)), "n0", started_ms=8 * MINUTE)
    place.hold(pod("sure", whole=2, annotations=says(30)), "n0", started_ms=8 * MINUTE)
    reservations.refresh(11 * MINUTE)
    (kept,) = reservations
    assert kept.low_ms == 38 * MINUTE
    assert reservations.forbidden(quick, 11 * MINUTE) == {0}


def test_nobody_is_told_to_look_again_while_nothing_changes() -> None:
    """Also when the one awaited is late, and the start moves on with the time."""
    place = Place(8)
    place.hold(pod("a", whole=8, annotations=says(10)), "n0")
    reservations = reserved(place)
    reservations.claim(record(LARGE), 0)
    version = reservations.version
    for minute in range(30):
        reservations.refresh(minute * MINUTE)
    assert reservations.version == version
    place.hold(pod("cpu"), "n0")
    place.cluster.release("uid-cpu")
    reservations.refresh(31 * MINUTE)
    assert reservations.version > version


def test_two_pods_do_not_get_the_same_node_and_those_behind_are_kept_off_both() -> None:
    place = Place(8, 8)
    for at in range(2):
        place.hold(pod(f"p{at}", whole=2, annotations=says(10 + at)), f"n{at}")
    reservations = reserved(place)
    claims = [reservations.claim(record(pod(f"large-{at}", whole=8)), 0) for at in range(2)]
    assert [kept.node for kept in claims if kept is not None] == ["n0", "n1"]
    assert reservations.claim(record(pod("large-2", whole=8)), 0) is None
    behind = record(pod("small", whole=1, created_ms=1))
    assert reservations.forbidden(behind, 0) == {0, 1}
    assert reservations.forbidden(record(pod("quick", whole=1, created_ms=1, annotations=says(10))), 0) == frozenset()
    assert reservations.forbidden(record(pod("a-bit", whole=1, created_ms=1, annotations=says(11))), 0) == {0}
    assert reservations.forbidden(record(pod("no-device", created_ms=1)), 0) == frozenset(), "it leaves room"
    assert reservations.forbidden(record(pod("before", whole=1, priority=1)), 0) == frozenset()
    assert reservations.forbidden(record(pod("large-1", whole=8)), 0) == {0}, "its own node is not kept from it"


def filled(gpus: int, minutes: int | None) -> Simulation:
    here = cluster(engine(starving_after_ms=1000), gpus)
    here.submit("holds", gpus, 30 if minutes is None else minutes, declared=minutes is not None)
    here.step()
    here.submit("large", gpus, 60)
    here.step()
    here.step()
    return here


def test_what_frees_beside_the_reserved_room_is_used_at_once() -> None:
    """The node's CPU is held by a pod that nothing is known of. The reserved pod waits for devices; when the CPU is
    given back, another that needs CPU alone starts, though it was kept off the node before.
    """
    here = cluster(engine(starving_after_ms=1000), 8)
    here.submit("holds", 8, 30)
    here.runs_ms |= {"uid-cpu": 2 * MINUTE, "uid-web": 600 * MINUTE}
    here.world.create(pod("cpu", cpu_milli=50_000))
    here.step()
    here.submit("large", 8, 60)
    here.step()
    here.step()
    (kept,) = here.world.engine.reservations
    assert kept.awaited == ("uid-holds",)
    here.world.create(pod("web", cpu_milli=20_000))
    while here.minute < 3:
        here.step()
    assert "uid-web" in here.started
    assert here.start_minute("web") <= 2.2


@pytest.mark.parametrize(
    ("minutes", "after", "start"),
    [
        (30, 10, Span(20 * MINUTE, 20 * MINUTE)),
        (None, 10, None),
    ],
)
def test_when_the_reserved_pod_starts(minutes: int | None, after: int, start: Span | None) -> None:
    here = filled(8, minutes)
    engine_ = here.world.engine
    here.world.now_ms = here.begin_ms + after * MINUTE
    engine_.plan(here.world.now_ms)
    found = explain(engine_, engine_.roster.records["uid-large"], here.world.now_ms)
    assert found is not None
    assert (found.reserved_node, found.start) == ("n0", start)


def test_who_stands_behind_others_is_told_the_earliest_start_only() -> None:
    here = filled(8, 30)
    here.submit("behind", 8, 60)
    here.step()
    engine_ = here.world.engine
    found = explain(engine_, engine_.roster.records["uid-behind"], here.world.now_ms)
    assert found is not None
    assert found.ahead == 1
    assert found.start is None, "its one node is kept for another"
    here.world.add_nodes(node("other", gpus=8))
    here.step()  # where `behind` starts
    here.submit("fills", 8, 40)
    here.step()
    found = explain(engine_, engine_.roster.records["uid-fills"], here.world.now_ms)
    assert found is not None
    assert found.ahead == 1
    assert found.start is not None
    assert found.start.high_ms is None
