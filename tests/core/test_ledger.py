from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from scheduler import placement
from scheduler.allocation import Allocation, DeviceShare
from scheduler.ledger import Ledger, LedgerError
from scheduler.request import Request
from scheduler.state import ClusterState
from tests.strategies import GPU, OTHER_GPU, cpu_only, fraction, inventory, memory, whole
from topology.inventory import NodeInventory, ShareSupport


class World:
    """A state, its ledger, and short ways to use them."""

    def __init__(self, *nodes: NodeInventory) -> None:
        self.state = ClusterState()
        self.ledger = Ledger(self.state)
        for node in nodes:
            self.set_node(node)

    def set_node(self, node: NodeInventory) -> None:
        self.state.set_node(node)
        self.ledger.set_node(node.name)

    def remove_node(self, name: str) -> None:
        self.ledger.remove_node(name)
        self.state.remove_node(name)

    def book(self, uid: str, request: Request, node: str, *rows: int, deadline_ms: int | None = None) -> None:
        self.ledger.book(uid, request, self.allocation(request, node, rows), deadline_ms)
        self.ledger.validate()

    def allocation(self, request: Request, node: str, rows: Sequence[int]) -> Allocation:
        slot = self.state.slot_of[node]
        shares = []
        for row in rows:
            milli, mib = placement.share_of_device(request, int(self.state.arrays.device_total_mib[slot, row]))
            shares.append(DeviceShare(row, mib, milli))
        return Allocation(node, tuple(shares))

    def guessed(self, uid: str) -> list[int]:
        return [share.index for share in self.ledger.entries[uid].guessed]

    def free_milli(self, node: str) -> list[int]:
        arrays, slot = self.state.arrays, self.state.slot_of[node]
        milli: list[int] = arrays.device_free_milli[slot, : arrays.device_count[slot]].tolist()
        return milli


# -- bookings ----------------------------------------------------------------------------------------------------


def test_a_booking_takes_its_place_and_release_gives_it_back() -> None:
    world = World(inventory("a", devices=[100, 100]))
    before = [array.copy() for array in world.state.arrays]
    world.book("pod", fraction(500, devices=2), "a", 0, 1)
    assert world.free_milli("a") == [500, 500]
    entry = world.ledger.release("pod")
    assert entry is not None
    assert [share.index for share in entry.devices] == [0, 1]
    assert world.ledger.release("pod") is None
    assert all(map(np.array_equal, world.state.arrays, before))


def test_a_booking_replaces_the_earlier_one() -> None:
    world = World(inventory("a", devices=[100]), inventory("b", devices=[100]))
    world.book("pod", whole(1), "a", 0)
    world.book("pod", whole(1), "b", 0)
    assert (world.free_milli("a"), world.free_milli("b")) == ([1000], [0])
    world.book("pod", whole(1), "b", 0)
    assert world.free_milli("b") == [0]


def test_a_booking_that_does_not_fit_leaves_the_earlier_one() -> None:
    world = World(inventory("a", devices=[100]), inventory("b", devices=[100]))
    world.book("pod", whole(1), "a", 0)
    world.book("other", fraction(500), "b", 0)
    with pytest.raises(LedgerError, match="pod pod does not fit on b: device 0 is in use"):
        world.book("pod", whole(1), "b", 0)
    assert world.ledger.entries["pod"].node == "a"
    world.ledger.validate()


@pytest.mark.parametrize(
    ("request_", "rows", "problem"),
    [
        (whole(1, cpu_milli=9000), [0], "too little of a resource"),
        (whole(3), [0, 1, 2], "too little of a resource"),
        (whole(2), [0], "2 different devices are needed, not 1"),
        (whole(1), [2], "device 2 is not there or not healthy"),
        (whole(1), [7], "device 7 is not there or not healthy"),
        (fraction(500, devices=2), [0, 0], "2 different devices"),
        (fraction(601), [1], "device 1 has too little left"),
        (memory(61), [1], "device 1 has too little left"),
        (whole(1), [1], "device 1 is in use"),
        (cpu_only(), [0], "0 different devices are needed, not 1"),
        (whole(1, OTHER_GPU), [], "too little of a resource"),
    ],
)
def test_what_a_booking_must_be(request_: Request, rows: list[int], problem: str) -> None:
    world = World(inventory("a", devices=[100, 100, 100], unhealthy=1))
    world.book("share", fraction(400), "a", 1)
    milli, mib = placement.share_of_device(request_, 100)
    shares = tuple(DeviceShare(row, mib, milli) for row in rows)
    with pytest.raises(LedgerError, match=problem):
        world.ledger.book("pod", request_, Allocation("a", shares), None)
    world.ledger.validate()


def test_a_booking_opens_no_device_that_the_count_does_not_leave() -> None:
    """The second device is idle, but whole devices in use that stand on no row take it."""
    world = World(inventory("a", devices=[100, 100]))
    world.ledger.adopt("ours", whole(1), "a", Allocation("a", (DeviceShare(7, 100, 1000),)))
    world.book("first", fraction(500), "a", 0)
    with pytest.raises(LedgerError, match="the node's count of devices leaves fewer untouched ones"):
        world.book("second", fraction(500), "a", 1)
    world.book("second", fraction(500), "a", 0)


def test_a_booking_takes_the_part_that_the_request_says() -> None:
    world = World(inventory("a", devices=[100]))
    with pytest.raises(LedgerError, match="device 0 would give another part than the pod asks for"):
        world.ledger.book("pod", fraction(500), Allocation("a", (DeviceShare(0, 50, 400),)), None)


def test_no_booking_on_nodes_that_do_not_take_it() -> None:
    world = World(
        inventory("agentless", devices=[100], shares=ShareSupport.NO_AGENT), inventory("unknown-memory", devices=[0])
    )
    with pytest.raises(LedgerError, match="the node takes no shares"):
        world.book("pod", fraction(500), "agentless", 0)
    with pytest.raises(LedgerError, match="device 0 has memory of unknown size"):
        world.book("pod", memory(5), "unknown-memory", 0)
    with pytest.raises(LedgerError, match="does not fit on gone: the node is not known"):
        world.ledger.book("pod", cpu_only(), Allocation("gone"), None)
    world.book("pod", fraction(500), "unknown-memory", 0)


def test_a_bound_pod_is_not_booked_again() -> None:
    world = World(inventory("a"))
    world.ledger.adopt("pod", cpu_only(), "a", None)
    with pytest.raises(LedgerError, match="pod pod is bound to a"):
        world.book("pod", cpu_only(), "a")


def test_bookings_expire_by_deadline_until_they_are_confirmed() -> None:
    world = World(inventory("a"))
    world.book("late", cpu_only(), "a", deadline_ms=300)
    world.book("early", cpu_only(), "a", deadline_ms=200)
    world.book("never", cpu_only(), "a")
    world.book("bound", cpu_only(), "a", deadline_ms=100)
    world.ledger.confirm("bound")
    world.ledger.confirm("unknown")
    assert world.ledger.expired(199) == []
    assert world.ledger.expired(200) == ["early"]
    assert world.ledger.expired(300) == ["early", "late"]
    assert set(world.ledger.bookings) == {"late", "early", "never"}
    world.ledger.validate()


def test_nothing_changes_inside_a_checkpoint() -> None:
    world = World(inventory("a"))
    world.book("pod", cpu_only(), "a")
    world.state.checkpoint()
    with pytest.raises(LedgerError, match="inside a checkpoint"):
        world.ledger.book("other", cpu_only(), Allocation("a"), None)
    with pytest.raises(LedgerError, match="inside a checkpoint"):
        world.ledger.release("pod")


# -- what the API says -------------------------------------------------------------------------------------------


def test_the_own_write_seen_turns_the_booking_into_an_allocation() -> None:
    world = World(inventory("a", devices=[100]))
    world.book("pod", fraction(500), "a", 0, deadline_ms=100)
    version = world.state.version
    entry = world.ledger.adopt("pod", fraction(500), "a", world.allocation(fraction(500), "a", [0]))
    assert (entry.bound, entry.deadline_ms, world.state.version) == (True, None, version)
    assert world.ledger.differences == {}
    world.ledger.validate()


def test_where_the_api_differs_from_a_booking_the_api_wins_and_it_is_noted() -> None:
    world = World(inventory("a", devices=[100, 100]), inventory("b", devices=[100]))
    world.book("pod", fraction(500), "a", 0)
    booked = world.ledger.entries["pod"].allocation
    world.ledger.adopt("pod", fraction(500), "b", world.allocation(fraction(500), "b", [0]))
    assert (world.free_milli("a"), world.free_milli("b")) == ([1000, 1000], [500])
    assert world.ledger.differences == {"pod": booked}
    world.ledger.release("pod")
    assert world.ledger.differences == {}
    world.ledger.validate()


def test_an_allocation_that_names_another_node_counts_for_nothing() -> None:
    world = World(inventory("a", devices=[100]), inventory("b", devices=[100]))
    world.ledger.adopt("pod", fraction(500), "a", world.allocation(fraction(500), "b", [0]))
    assert world.free_milli("a") == [1000]
    assert world.ledger.entries["pod"].allocation == Allocation("a")


def test_a_bound_pod_that_was_resized() -> None:
    world = World(inventory("a", cpu_milli=1000))
    world.ledger.adopt("pod", cpu_only(300), "a", None)
    world.ledger.adopt("pod", cpu_only(500), "a", None)
    assert world.state.arrays.free[0, 0] == 500
    world.ledger.validate()


def test_whole_devices_that_nobody_wrote_down_are_guessed_from_the_highest_index() -> None:
    world = World(inventory("a", devices=[100] * 4, unhealthy=1))
    world.book("share", fraction(500), "a", 0)
    entry = world.ledger.adopt("foreign", whole(1), "a", None)
    assert (world.guessed("foreign"), entry.missing_devices) == ([2], 0)
    assert world.free_milli("a") == [500, 1000, 0, 1000]
    world.ledger.validate()


def test_devices_that_cannot_be_found_are_missing_until_something_frees_up() -> None:
    world = World(inventory("a", devices=[100, 100]))
    world.book("share", fraction(500), "a", 0)
    entry = world.ledger.adopt("foreign", whole(2), "a", None)
    assert (world.guessed("foreign"), entry.missing_devices) == ([1], 1)
    world.ledger.release("share")
    assert (world.guessed("foreign"), entry.missing_devices) == ([1, 0], 0)
    world.ledger.release("foreign")
    assert world.free_milli("a") == [1000, 1000]
    world.ledger.validate()


def test_guesses_do_not_depend_on_who_came_first() -> None:
    arrived = {}
    for order in (("x", "y"), ("y", "x")):
        world = World(inventory("a", devices=[100] * 3))
        for uid in order:
            world.ledger.adopt(uid, whole(1), "a", None)
        arrived[order] = (world.guessed("x"), world.guessed("y"))
    assert set(map(str, arrived.values())) == {"([2], [1])"}


def test_a_guess_makes_room_for_what_was_written_down() -> None:
    world = World(inventory("a", devices=[100, 100]))
    world.ledger.adopt("foreign", whole(1), "a", None)
    world.ledger.adopt("ours", whole(1), "a", world.allocation(whole(1), "a", [1]))
    assert world.guessed("foreign") == [0]
    world.ledger.adopt("share", fraction(500), "a", world.allocation(fraction(500), "a", [0]))
    assert (world.guessed("foreign"), world.ledger.entries["foreign"].missing_devices) == ([], 1)
    world.ledger.validate()


def test_only_the_resource_that_is_modelled_has_guesses() -> None:
    world = World(inventory("a", devices=[100], extended={OTHER_GPU: 2}), inventory("b", counted=4))
    for uid, request, node in (("other", whole(1, OTHER_GPU), "a"), ("counted", whole(2), "b")):
        entry = world.ledger.adopt(uid, request, node, None)
        assert (entry.devices, entry.missing_devices) == ((), 0)
    assert world.state.arrays.free[1, world.state.columns[GPU]] == 2
    world.ledger.validate()


def test_over_use_from_outside_is_borne_and_bookings_know_it() -> None:
    world = World(inventory("a", devices=[100], cpu_milli=1000))
    world.book("pod", fraction(500, cpu_milli=600), "a", 0)
    assert world.ledger.sound("pod")
    world.ledger.adopt("foreign", cpu_only(800), "a", None)
    assert world.state.arrays.free[0, 0] == -400
    assert not world.ledger.sound("pod")
    world.ledger.release("foreign")
    assert world.ledger.sound("pod")
    assert not world.ledger.sound("unknown")
    world.ledger.validate()


def test_what_makes_a_booking_unsound() -> None:
    world = World(inventory("a", devices=[100, 100]))
    world.book("pod", fraction(500), "a", 0)
    world.ledger.adopt("same-device", whole(1), "a", world.allocation(whole(1), "a", [0]))
    assert not world.ledger.sound("pod")
    world.ledger.release("same-device")
    world.ledger.adopt("too-much", fraction(600), "a", world.allocation(fraction(600), "a", [0]))
    assert not world.ledger.sound("pod")
    world.ledger.release("too-much")
    assert world.ledger.sound("pod")
    world.ledger.adopt("by-count", whole(2), "a", None)
    assert not world.ledger.sound("pod")  # one device too few for all that is counted
    world.ledger.release("by-count")
    world.set_node(inventory("a", devices=[100, 100], unhealthy=2))
    assert not world.ledger.sound("pod")
    world.set_node(inventory("a", devices=[100, 100], shares=ShareSupport.NO_AGENT))
    assert not world.ledger.sound("pod")
    world.remove_node("a")
    assert not world.ledger.sound("pod")
    world.set_node(inventory("a", devices=[100, 100]))
    assert world.ledger.sound("pod")


# -- nodes -------------------------------------------------------------------------------------------------------


def test_pods_on_an_unknown_node_wait_for_it() -> None:
    world = World()
    entry = world.ledger.adopt("foreign", whole(1), "a", None)
    written = Allocation("a", (DeviceShare(0, 50, 500),))
    world.ledger.adopt("ours", fraction(500), "a", written)
    world.ledger.validate()
    assert [entry.uid for entry in world.ledger.on_node("a")] == ["foreign", "ours"]
    world.set_node(inventory("a", devices=[100, 100]))
    assert world.free_milli("a") == [500, 0]
    assert (world.guessed("foreign"), entry.missing_devices) == ([1], 0)
    world.remove_node("a")
    assert (entry.guessed, entry.missing_devices) == ((), 0)
    world.ledger.release("ours")
    world.set_node(inventory("a", devices=[100]))
    assert world.free_milli("a") == [0]
    world.ledger.validate()
    assert world.ledger.on_node("elsewhere") == []


def test_a_node_that_loses_devices_keeps_its_pods() -> None:
    world = World(inventory("a", devices=[100] * 4))
    world.book("low", whole(1), "a", 0)
    world.book("high", whole(1), "a", 3)
    world.ledger.adopt("foreign", whole(2), "a", None)
    world.set_node(inventory("a", devices=[100] * 2))
    assert world.free_milli("a") == [0, 0]
    assert world.guessed("foreign") == [1]
    assert world.ledger.entries["foreign"].missing_devices == 1
    assert (world.ledger.sound("low"), world.ledger.sound("high")) == (False, False)  # the count is negative
    world.ledger.release("high")
    world.ledger.validate()
    world.set_node(inventory("a", devices=[100] * 4))
    assert world.free_milli("a") == [0, 1000, 0, 0]
    world.ledger.validate()


def test_memory_that_becomes_known_later_counts_for_what_was_written_before() -> None:
    world = World(inventory("a", devices=[0, 0]))
    world.book("whole", whole(1), "a", 0)
    world.book("half", fraction(500), "a", 1)
    world.set_node(inventory("a", devices=[100, 100]))
    assert world.state.arrays.device_free_mib[0, :2].tolist() == [0, 50]
    assert placement.place_on(world.state, memory(51), 0) is None
    world.ledger.validate()


def test_a_node_told_twice_is_counted_once() -> None:
    world = World(inventory("a", devices=[100]))
    world.book("pod", whole(1), "a", 0)
    world.ledger.set_node("a")
    assert world.free_milli("a") == [0]
    world.ledger.remove_node("a")
    world.ledger.remove_node("a")
    assert world.free_milli("a") == [1000]
