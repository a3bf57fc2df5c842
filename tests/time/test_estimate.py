"""Who has to go from a node before a pod fits there, and when he will."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import placement
from scheduler.allocation import Allocation
from scheduler.cluster import Cluster
from scheduler.constraints import constraints_of
from scheduler.estimate import FOR_EVER_MS, Departures, Doubt
from scheduler.expectation import Expectations
from scheduler.pod import Owner, PodFacts
from scheduler.policy import PlacementPolicy
from scheduler.record import PodRecord
from scheduler.request import Request, parse_request
from scheduler.reservation import Reservations, devices_suffice
from scheduler.state import ClusterState
from tests.engine.world import GPU, node, pod, share
from tests.strategies import inventories, policies, requests
from topology import vocabulary
from topology.inventory import InventorySettings

MINUTE = 60_000
RUNTIME = vocabulary.EXPECTED_RUNTIME.key


class Place:
    """A cluster, and pods that stand where a test wants them."""

    def __init__(self, *gpus: int, mib: int = 40_000, cpu_milli: int = 1_000_000) -> None:
        self.cluster = Cluster(inventory=InventorySettings(), policy=PlacementPolicy())
        self.expectations = Expectations()
        self.departures = Departures(self.cluster, self.expectations)
        for at, count in enumerate(gpus):
            self.cluster.set_node(node(f"n{at}", gpus=count, mib=mib, cpu_milli=cpu_milli))

    def hold(self, facts: PodFacts, where: str = "n0", *, started_ms: int | None = 0) -> bool:
        """The pod stands on the node, if it fits there; started_ms None: it does not run yet."""
        facts, request = replace(facts, started_ms=started_ms), parse_request(facts, (GPU,))
        devices = self.cluster.place_on(request, where)
        if devices is None:
            return False
        self.cluster.book(facts, request, Allocation(where, devices), None)
        if started_ms is not None:
            self.expectations.started(facts, started_ms)
        return True

    def teach(self, owner: Owner | None, gpus: int, minutes: int, times: int = 5) -> None:
        """Pods of the owner have run so long."""
        for at in range(times):
            facts = replace(pod(f"before-{owner}-{at}", whole=gpus), owner=owner)
            self.expectations.started(replace(facts, started_ms=0), 0)
            self.expectations.ended(facts.uid, minutes * MINUTE, by_itself=True)

    def claim(self, facts: PodFacts, now_ms: int) -> tuple[str, tuple[str, ...], int | None, int | None, bool] | None:
        found = Reservations(self.cluster, self.expectations, 8).claim(record(facts), now_ms)
        return None if found is None else (found.node, found.awaited, found.low_ms, found.high_ms, found.late)


def record(facts: PodFacts) -> PodRecord:
    return PodRecord(facts, constraints_of(facts), parse_request(facts, (GPU,)), None, since_ms=0)


def says(minutes: int) -> dict[str, str]:
    return {RUNTIME: f"{minutes}m"}


LARGE = pod("large", whole=8)


def test_the_node_where_the_pod_can_start_first() -> None:
    place = Place(8, 8)
    place.hold(pod("a", whole=8, annotations=says(30)), "n0")
    place.hold(pod("b", whole=4, annotations=says(20)), "n1")
    place.hold(pod("c", whole=4, annotations=says(10)), "n1")
    assert place.claim(LARGE, 5 * MINUTE) == ("n1", ("uid-c", "uid-b"), 20 * MINUTE, 20 * MINUTE, False)


def test_unknown_ends_come_after_known_ones() -> None:
    place = Place(8, 8)
    place.hold(pod("a", whole=8), "n0")
    place.hold(pod("b", whole=8, annotations=says(10_000)), "n1")
    assert place.claim(LARGE, 0) == ("n1", ("uid-b",), 10_000 * MINUTE, 10_000 * MINUTE, False)


def test_where_nothing_is_known_the_fewest_devices_have_to_go() -> None:
    place = Place(8, 8, 8)
    for at, count in enumerate((5, 3, 4)):
        place.hold(pod(f"p{at}", whole=count), f"n{at}")
    assert place.claim(LARGE, 0) == ("n1", ("uid-p1",), None, None, False)


def test_one_that_outlives_what_was_expected_may_end_at_any_time_and_is_nothing_to_build_on() -> None:
    place = Place(8, 8)
    place.hold(pod("overdue", whole=8, annotations=says(5)), "n0")
    place.hold(pod("sure", whole=8, annotations=says(90)), "n1")
    assert place.claim(LARGE, 60 * MINUTE) == ("n1", ("uid-sure",), 90 * MINUTE, 90 * MINUTE, False)
    place.cluster.remove_node("n1")
    assert place.claim(LARGE, 60 * MINUTE) == ("n0", ("uid-overdue",), 60 * MINUTE, None, True)


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet"])
def test_services_do_not_end_because_jobs_of_the_same_size_did(kind: str) -> None:
    place = Place(8, 8)
    place.teach(Owner("Job", "batch", "u"), 8, minutes=5)
    place.hold(replace(pod("web", whole=8), owner=Owner(kind, "web-6d4cf56db6", "u")), "n0")
    place.hold(replace(pod("job", whole=8), owner=Owner("Job", "other", "u")), "n1", started_ms=0)
    assert place.claim(LARGE, MINUTE) == ("n1", ("uid-job",), 5 * MINUTE, 5 * MINUTE, False)


def test_of_other_schedulers_pods_nothing_is_known() -> None:
    place = Place(8)
    place.teach(None, 8, minutes=5)
    place.hold(pod("foreign", whole=8, scheduler="default-scheduler"), "n0")
    assert place.claim(LARGE, 0) == ("n0", ("uid-foreign",), None, None, False)


def test_one_that_does_not_run_yet_starts_now() -> None:
    place = Place(8)
    place.hold(pod("young", whole=8, annotations=says(10)), started_ms=None)
    assert place.claim(LARGE, 100 * MINUTE) == ("n0", ("uid-young",), 110 * MINUTE, 110 * MINUTE, False)


def test_who_holds_nothing_that_is_lacking_is_not_awaited() -> None:
    """The CPU pod ends first, and when exactly nobody knows; that is of no account to one who lacks devices."""
    place = Place(8)
    place.teach(Owner("Job", "cpu", "u"), 0, minutes=1, times=2)
    place.hold(replace(pod("cpu"), owner=Owner("Job", "cpu", "u")))
    place.hold(pod("batch", whole=8, annotations=says(10)))
    assert place.claim(LARGE, 0) == ("n0", ("uid-batch",), 10 * MINUTE, 10 * MINUTE, False)


def test_nodes_that_could_never_hold_it_do_not_hide_one_that_could() -> None:
    place = Place(*[8] * 80, mib=20_000)
    place.cluster.set_node(node("zzz", gpus=1, mib=80_000))
    place.hold(pod("holds", whole=1), "zzz")
    found = place.claim(pod("wide", annotations={"gpu-memory": "60000"}), 0)
    assert found is not None
    assert found[0] == "zzz"


def test_none_where_it_could_never_start() -> None:
    place = Place(8, 4)
    assert place.claim(pod("huge", whole=9), 0) is None
    assert place.claim(pod("wide", annotations={"gpu-memory": "60000"}), 0) is None


# -- against the plain definition --------------------------------------------------------------------------------------

pods = st.one_of(
    st.builds(lambda count: pod("p", whole=count, cpu_milli=0), st.integers(1, 4)),
    st.builds(lambda cpu: pod("p", cpu_milli=cpu), st.integers(0, 900)),
    st.builds(
        lambda fraction, devices, cpu: share("p", fraction, devices, cpu_milli=cpu),
        st.sampled_from(["0.2", "0.5", "0.8"]),
        st.integers(1, 2),
        st.integers(0, 300),
    ),
    st.builds(
        lambda mib: pod("p", annotations={"gpu-memory": str(mib)}, cpu_milli=0), st.sampled_from([5_000, 30_000])
    ),
)
holders = st.lists(st.tuples(pods, st.one_of(st.none(), st.integers(1, 9))), max_size=8)


@settings(max_examples=150, deadline=None)
@given(gpus=st.integers(0, 5), holders=holders, wanted=pods)
def test_those_who_have_to_go_are_enough_and_none_too_many(
    gpus: int, holders: list[tuple[PodFacts, int | None]], wanted: PodFacts
) -> None:
    place = Place(gpus, cpu_milli=1000)
    for at, (facts, minutes) in enumerate(holders):
        annotations = dict(facts.annotations) | ({} if minutes is None else says(minutes))
        place.hold(replace(facts, uid=f"u{at}", name=f"u{at}", annotations=annotations))
    request, ledger = parse_request(wanted, (GPU,)), place.cluster.ledger
    version = place.cluster.state.arrays.free.copy()
    everybody = frozenset(ledger.entries)
    wait = place.departures.wait(request, 0, 0)
    assert (wait is not None) == fits_without(place, request, everybody)
    if wait is None:
        return
    gone = {departure.entry.uid for departure in wait.awaited}
    assert fits_without(place, request, gone)
    for uid in gone:
        assert not fits_without(place, request, gone - {uid}), "everybody awaited is in the way"
    # nobody starts earlier: with all that end before the last of them gone, it does not fit
    ends = {uid: end_ms(place, uid) for uid in everybody}
    if gone:
        before = {uid for uid in everybody if ends[uid] < wait.low_ms}
        assert not fits_without(place, request, before)
        assert wait.low_ms == max(ends[uid] for uid in gone)
        assert (wait.doubt is Doubt.UNKNOWN) == (wait.low_ms == FOR_EVER_MS)
    assert np.array_equal(version, place.cluster.state.arrays.free)
    place.cluster.validate()


def end_ms(place: Place, uid: str) -> int:
    span = place.expectations.end_span(uid, 0)
    return FOR_EVER_MS if span is None else span.low_ms


def fits_without(place: Place, request: Request, gone: frozenset[str] | set[str]) -> bool:
    state = place.cluster.state
    mark = state.checkpoint()
    for uid in gone:
        entry = place.cluster.ledger.entries[uid]
        state.give(0, entry.request, entry.devices)
    fits = placement.place_on(state, request, 0) is not None
    state.rollback(mark)
    return fits


@settings(max_examples=150, deadline=None)
@given(inventory=inventories("n"), request=requests(), policy=policies())
def test_what_a_node_could_hold_is_what_it_holds_when_it_is_empty(
    inventory: object, request: Request, policy: PlacementPolicy
) -> None:
    place = Place()
    state = place.cluster.state = ClusterState(policy)
    slot = state.set_node(inventory)  # type: ignore[arg-type]
    place.cluster.eligibility.set_node(slot, state.inventories[slot].facts)  # type: ignore[union-attr]
    enough = place.cluster.could_hold(request, constraints_of(LARGE)) & devices_suffice(state, request)
    could = bool(enough[slot])
    fits = placement.place_on(state, request, slot) is not None
    assert could or not fits, "a node that holds it now could hold it"
    assert could == fits
