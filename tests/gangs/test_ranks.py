"""Pods that are numbered go along the network, and what they are told of it: their domain and their rank."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.gang import Gang
from scheduler.gang_placing import Failure
from scheduler.gang_spec import ROOT
from tests.gangs.hall import BLOCK, HOST, RACK, Hall, Place, gang_of, halls, inner, leaf, places, record


def numbered(count: int, *, size: int = 1, backwards: bool = False, **wishes: str) -> Gang:
    """A gang whose pods are numbered otherwise than their names are in order, if `backwards`."""
    names = [f"p{count - 1 - i if backwards else i:02}" for i in range(count)]
    return gang_of(leaf(minimum=count, **wishes), [record(name, size, index=i) for i, name in enumerate(names)])  # type: ignore[arg-type]


def along(hall: Hall, gang: Gang) -> list[str]:
    """The nodes of the pods in the order of their numbers, as they were placed last."""
    order = sorted(hall.tried, key=lambda tried: tried.record.membership.index or 0)
    return [tried.allocation.node for tried in order]


def runs(values: list[tuple[str, ...]]) -> int:
    """How many stretches of equal values there are."""
    return sum(1 for i, value in enumerate(values) if i == 0 or values[i - 1] != value)


@given(halls(8, blocks="ab", racks="123"), st.integers(1, 8), st.booleans(), st.sampled_from(["", BLOCK, RACK]))
@settings(max_examples=150)
def test_neighbours_in_number_are_neighbours_in_the_network(
    nodes: list[Place], count: int, backwards: bool, preferred: str
) -> None:
    hall, gang = Hall(nodes), numbered(count, backwards=backwards, preferred=preferred)
    if isinstance(hall.place(gang), Failure):
        return
    there = [hall.by_name[node] for node in along(hall, gang)]
    for level in (BLOCK, RACK, HOST):
        domains = [one.domain(level) for one in there]
        assert runs(domains) == len(set(domains)), f"some {level} is entered twice"
    assert [tried.record.gang_rank for tried in sorted(hall.tried, key=lambda t: t.record.membership.index or 0)] == [
        *range(count)
    ]


@given(halls(8, blocks="ab", racks="123"), st.lists(st.integers(1, 2), min_size=1, max_size=6))
@settings(max_examples=100)
def test_ranks_are_each_there_once(nodes: list[Place], sizes: list[int]) -> None:
    """Whatever is numbered, and whether it is alike or not."""
    hall = Hall(nodes)
    records = [record(f"p{i}", size, index=i if i % 2 else None) for i, size in enumerate(sizes)]
    gang = gang_of(leaf(minimum=len(sizes)), records)
    if not isinstance(hall.place(gang), Failure):
        assert sorted(one.gang_rank for one in records) == [*range(len(sizes))]


def test_pods_without_numbers_get_ranks_along_the_network() -> None:
    hall = Hall(places("b/1: 1, a/1: 1, a/2: 1"))
    records = [record(name) for name in "xyz"]
    found = hall.place(gang_of(leaf(minimum=3), records))
    assert not isinstance(found, Failure)
    assert [found[one.facts.name] for one in sorted(records, key=lambda one: one.gang_rank)] == ["n1", "n2", "n0"]


def test_ranks_go_leaf_by_leaf() -> None:
    hall = Hall(places("a/1: 4"))
    records = [
        record("w1", 1, "workers", index=1),
        record("w0", 1, "workers", index=0),
        record("m", 1, "zmaster", index=0),
    ]
    gang = gang_of(inner(ROOT, leaf("zmaster", 1), leaf("workers", 2)), records)
    assert not isinstance(hall.place(gang), Failure)
    assert {one.facts.name: one.gang_rank for one in records} == {"m": 0, "w0": 1, "w1": 2}


def test_who_follows_a_member_that_went_gets_its_rank() -> None:
    hall, gang = Hall(places("a/1: 2, a/2: 2")), numbered(4)
    assert not isinstance(hall.book(gang), Failure)
    ranks = {one.facts.name: one.gang_rank for one in gang.members.values()}
    gone = next(one for one in gang.members.values() if one.facts.name == "p02")
    hall.cluster.release(gone.uid)
    gang.remove(gone.uid)
    again = record("p02-again", index=2)
    gang.add(again)
    assert not isinstance(hall.book(gang), Failure)
    assert again.gang_rank == ranks["p02"] == 2
    assert {one.facts.name: one.gang_rank for one in gang.members.values() if one is not again} == {
        name: rank for name, rank in ranks.items() if name != "p02"
    }


@pytest.mark.parametrize(
    ("wishes", "domain"),
    [
        pytest.param({}, {""}, id="nothing asked"),
        pytest.param({"required": BLOCK}, {"a"}, id="required"),
        pytest.param({"preferred": RACK}, {"a/1", "a/2"}, id="the preferred level, though it took two"),
        pytest.param({"required": BLOCK, "preferred": HOST}, {"a/1/n0", "a/2/n1"}, id="hosts"),
    ],
)
def test_the_domain_that_is_told(wishes: dict[str, str], domain: set[str]) -> None:
    hall, gang = Hall(places("a/1: 2, a/2: 2")), numbered(4, **wishes)  # type: ignore[arg-type]
    assert not isinstance(hall.place(gang), Failure)
    assert {tried.record.domain for tried in hall.tried} == domain
    if len(domain) > 1:
        assert {tried.record.domain: tried.allocation.node for tried in hall.tried} == {
            path: hall_node for path, hall_node in zip(sorted(domain), ("n0", "n1"), strict=True)
        }


def test_the_domain_of_the_innermost_group_that_asks() -> None:
    hall = Hall(places("a/1: 2, a/2: 2"))
    records = [record("x", 2, "one"), record("y", 2, "two")]
    gang = gang_of(inner(ROOT, leaf("one", 1, required=RACK), leaf("two", 1), required=BLOCK), records)
    found = hall.place(gang)
    assert not isinstance(found, Failure)
    assert {one.facts.name: one.domain for one in records} == {
        "x": f"a/{hall.by_name[found['x']].rack}", "y": "a",
    }  # fmt: skip


def test_slices_hold_neighbours() -> None:
    """Pods 0 to 3 and 4 to 7 each in one rack, though another order would fit as well."""
    hall = Hall(places("a/1: 2 2, a/2: 4, a/3: 1 1"))
    records = [record(f"p{i}", index=i) for i in range(8)]
    gang = gang_of(leaf(minimum=8, slices=[(4, RACK)]), records)
    found = hall.place(gang)
    assert not isinstance(found, Failure)
    racks = [hall.by_name[found[f"p{i}"]].rack for i in range(8)]
    assert len(set(racks[:4])) == len(set(racks[4:])) == 1
    assert {tried.record.domain for tried in hall.tried} == {"a/1", "a/2"}
