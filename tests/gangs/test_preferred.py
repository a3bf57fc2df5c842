"""Which domains a group of equal pods takes: as few as can be, and which of equal ones."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.gang import Gang
from scheduler.gang_placing import Failure
from tests.gangs.hall import BLOCK, HOST, RACK, Hall, Place, gang_of, halls, leaf, places, record

LEVELS = [BLOCK, RACK, HOST]


def group(
    count: int, size: int = 1, *, required: str = "", preferred: str = "", slice_: int = 0, level: str = HOST
) -> Gang:
    slices = [(slice_, level)] if slice_ else []
    records = [record(f"p{i:02}", size) for i in range(count)]
    return gang_of(leaf(minimum=count, required=required, preferred=preferred, slices=slices), records)


def by_domain(hall: Hall, found: dict[str, str], level: str) -> dict[tuple[str, ...], int]:
    """Domain → pods in it."""
    counts: dict[tuple[str, ...], int] = {}
    for node in found.values():
        domain = hall.by_name[node].domain(level)
        counts[domain] = counts.get(domain, 0) + 1
    return counts


# -- generated ---------------------------------------------------------------------------------------------------


def fewest(hall: Hall, inside: list[Place], count: int, size: int, preferred: str) -> int | None:
    """By trying all sets of preferred domains: the size of the smallest that holds all; None when none does."""
    room: dict[tuple[str, ...], int] = {}
    for one in inside:
        room[one.domain(preferred)] = room.get(one.domain(preferred), 0) + one.gpus // size
    for number in range(1, len(room) + 1):
        if any(sum(chosen) >= count for chosen in combinations(room.values(), number)):
            return number
    return None


def expected(hall: Hall, count: int, size: int, required: str, preferred: str) -> tuple[set[str], int] | None:
    """The nodes of the best domain that holds all, on the deepest level that has one, and how many preferred domains it
    takes there.
    """
    lowest = LEVELS.index(preferred)
    highest = LEVELS.index(required) if required else -1
    for depth in range(lowest, highest - 1, -1):
        domains: dict[tuple[str, ...], list[Place]] = {}
        for one in hall.nodes:
            domains.setdefault(one.domain(LEVELS[depth]) if depth >= 0 else (), []).append(one)
        fitting = []
        for path, inside in domains.items():
            number = fewest(hall, inside, count, size, preferred)
            if number is not None:
                free = sum(one.gpus for one in inside)
                fitting.append((number, free, path, {one.name for one in inside}))
        if fitting:
            number, _, _, names = min(fitting)
            return names, number
    return None


@given(
    halls(9, blocks="aab", racks="1233"),
    st.integers(1, 8),
    st.integers(1, 3),
    st.sampled_from([("", BLOCK), ("", RACK), ("", HOST), (BLOCK, BLOCK), (BLOCK, RACK), (BLOCK, HOST), (RACK, HOST)]),
)
@settings(max_examples=200)
def test_the_deepest_domain_that_holds_all_the_fullest_and_in_it_the_fewest(
    nodes: list[Place], count: int, size: int, levels: tuple[str, str]
) -> None:
    required, preferred = levels
    hall = Hall(nodes)
    gang = group(count, size, required=required, preferred=preferred)
    found = hall.place(gang)
    wanted = expected(hall, count, size, required, preferred)
    if wanted is None:
        assert isinstance(found, Failure)
        return
    names, number = wanted
    assert not isinstance(found, Failure)
    assert set(found.values()) <= names
    assert len(by_domain(hall, found, preferred)) == number
    assert hall.fault(gang, found) is None
    for tried in hall.tried:
        assert tried.record.domain == "/".join(hall.by_name[tried.allocation.node].domain(preferred))


# -- of equal ones -----------------------------------------------------------------------------------------------


def test_two_racks_where_two_are_enough() -> None:
    """Zone A has racks with 2, 1, 1 and 1 free, zone B 2, 2 and 2 → A, the fuller one, the rack with 2 first."""
    hall = Hall(places("a/1: 2, a/2: 1, a/3: 1, a/4: 1, b/1: 2, b/2: 2, b/3: 2"))
    found = hall.place(group(3, required=BLOCK, preferred=RACK))
    assert not isinstance(found, Failure)
    counts = by_domain(hall, found, RACK)
    assert len(counts) == 2
    assert counts[("a", "1")] == 2


@pytest.mark.parametrize(
    ("hall", "count", "racks"),
    [
        pytest.param("a/1: 3, a/2: 2", 2, {("a", "2"): 2}, id="the fullest that has room"),
        pytest.param("a/2: 2, a/1: 2", 2, {("a", "1"): 2}, id="of equals the first by name"),
        pytest.param("a/1: 2, a/2: 2, a/3: 2", 4, {("a", "2"): 2, ("a", "3"): 2}, id="inside the last by name"),
        pytest.param("a/1: 3, a/2: 3, a/3: 2, a/4: 1", 7, {("a", "1"): 3, ("a", "2"): 3, ("a", "4"): 1},
                     id="the most free first, the last the tightest that holds the rest"),
        pytest.param("a/1: 1, b/1: 3, b/2: 3", 4, {("b", "1"): 1, ("b", "2"): 3}, id="one block rather than two"),
    ],
)  # fmt: skip
def test_which_racks(hall: str, count: int, racks: dict[tuple[str, ...], int]) -> None:
    world = Hall(places(hall))
    found = world.place(group(count, preferred=RACK))
    assert not isinstance(found, Failure)
    assert by_domain(world, found, RACK) == racks


# Kueue's oracles. BestFit is what we do for a preferred level, with slices or without. Where nothing is preferred we
# fill nodes in the order of fullness, as its LeastFreeCapacity does. Not followed: Balanced (it evens out pods over
# domains; ours are filled one after the other), and BestFit where a level is only required: inside the required domain
# we fill the fullest nodes first instead of the emptiest.


@pytest.mark.parametrize(
    ("free", "count", "size", "preferred", "taken"),
    [
        pytest.param("3 3 2 1", 7, 0, RACK, "3 3 - 1", id="BestFit"),
        pytest.param("3 3 2 1", 7, 0, "", "3 1 2 1", id="LeastFreeCapacity"),
        pytest.param("6 5 4 3 2", 12, 2, RACK, "6 - 4 - 2", id="BestFit, slices of two"),
        pytest.param("6 5 4 3 2", 10, 2, "", "- 2 4 2 2", id="LeastFreeCapacity, slices of two"),
    ],
)
def test_what_kueue_does(free: str, count: int, size: int, preferred: str, taken: str) -> None:
    hall = Hall(places(", ".join(f"a/{rack}: {gpus}" for rack, gpus in enumerate(free.split()))))
    found = hall.place(group(count, preferred=preferred, slice_=size, level=RACK))
    assert not isinstance(found, Failure)
    counts = by_domain(hall, found, RACK)
    assert " ".join(str(counts.get(("a", str(rack)), "-")) for rack in range(len(free.split()))) == taken


def test_slices_also_take_few_racks_when_one_is_wider_than_them() -> None:
    hall = Hall(places("a/1: 2 2, a/2: 2 2 2, a/3: 2 2"))
    found = hall.place(group(8, preferred=RACK, slice_=2, level=HOST))
    assert not isinstance(found, Failure)
    assert by_domain(hall, found, RACK) == {("a", "2"): 6, ("a", "3"): 2}


def test_members_that_run_draw_the_others_near() -> None:
    hall = Hall(places("a/1: 1, a/2: 5, b/1: 3"))
    gang = group(2, preferred=RACK)
    first, second = gang.members.values()
    hall.put(first, "n1")
    assert hall.place(gang) == {second.facts.name: "n1"}
