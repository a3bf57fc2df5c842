"""Who may take back from whom: the worked example, the traps, and that nothing goes back and forth."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues import division, reclaim
from queues.amounts import UNLIMITED, Amounts
from queues.books import Books, Charge
from queues.spec import QueueSpec, Terms
from queues.tree import Tree, sides

GPU = 1000


def queue(name: str, parent: str | None = None, *, quota: int = 0, limit: int = UNLIMITED, age: int = 0) -> QueueSpec:
    milli = limit if limit == UNLIMITED else limit * GPU
    return QueueSpec(name, parent, uid=name, created_ms=age, gpu=Terms(quota * GPU, milli))


def one(gpus: int, *, preemptible: bool = True) -> Charge:
    return Charge(Amounts(0, 0, gpus * GPU), preemptible)


def books_of(
    specs: list[QueueSpec], held: Mapping[str, int], wanted: Mapping[str, int], total: int, *, divided: bool = True
) -> Books:
    """Books in devices; `wanted` beyond what is held."""
    books = Books(Tree(specs))
    for leaf, gpus in held.items():
        books.hold(leaf, one(gpus))
    for leaf, gpus in wanted.items():
        books.want(leaf, one(gpus).amounts)
    if divided:
        division.divide(books, Amounts(0, 0, total * GPU))
    return books


def may(books: Books, leaf: str, charge: Charge, victims: Mapping[str, list[int]], **options: int) -> bool:
    """Whether all rules let the workload of the leaf take these batches (devices by leaf)."""
    tree = books.tree
    if not reclaim.can_reclaim(tree.queues[leaf].spec, books[leaf], charge):
        return False
    for victim in victims:
        pair = sides(tree.queues[leaf], tree.queues[victim])
        assert pair is not None
        ours, theirs = (
            reclaim.Side(tree.queues[name].spec, books[name].allocated, books[name].fair_share) for name in pair
        )
        if not reclaim.filter_victim(ours, theirs, charge.amounts):
            return False
    batches = {victim: [one(gpus).amounts for gpus in found] for victim, found in victims.items()}
    return reclaim.reclaimable(books, leaf, charge, batches, **options)


def swap(books: Books, leaf: str, victim: str, gpus: int) -> None:
    """The reclaimer runs, its victim waits again."""
    books.free(victim, one(gpus))
    books.want(victim, one(gpus).amounts)
    books.unwant(leaf, one(gpus).amounts)
    books.hold(leaf, one(gpus))


def test_three_reclaims_then_stop() -> None:
    books = books_of([queue("a", quota=4), queue("b", quota=2, age=1)], {"a": 3, "b": 7}, {"a": 4, "b": 2}, 10)
    total = Amounts(0, 0, 10 * GPU)
    steps = []
    while may(books, "a", one(1), {"b": [1]}):
        swap(books, "a", "b", 1)
        division.divide(books, total)
        steps.append((books["a"].allocated.gpu_milli // GPU, books["b"].allocated.gpu_milli // GPU))
        assert len(steps) < 10
    assert steps == [(4, 6), (5, 5), (6, 4)]
    assert (books["a"].fair_share.gpu_milli, books["b"].fair_share.gpu_milli) == (6 * GPU, 4 * GPU)
    assert not may(books, "b", one(1), {"a": [1]}), "and nothing comes back"


def test_a_gang_larger_than_its_fair_share_takes_nothing() -> None:
    books = books_of([queue("a", quota=4), queue("b", quota=2, age=1)], {"b": 10}, {"a": 7, "b": 2}, 10)
    assert books["a"].fair_share.gpu_milli == 6 * GPU
    assert may(books, "a", one(6), {"b": [6]})
    assert not may(books, "a", one(7), {"b": [7]})


def test_work_that_cannot_give_way_takes_back_its_quota_and_no_more() -> None:
    specs = [queue("top", quota=2), queue("a", "top", quota=4), queue("b", quota=2, age=1)]
    books = books_of(specs, {"b": 10}, {"a": 8}, 10)
    assert may(books, "a", one(2, preemptible=False), {"b": [2]})
    assert not may(books, "a", one(3, preemptible=False), {"b": [3]}), "more than the quota of the queue above"
    assert may(books, "a", one(3), {"b": [3]})
    books = books_of([queue("a", quota=1), queue("b", age=1)], {"b": 10}, {"a": 8}, 10)
    assert not may(books, "a", one(2, preemptible=False), {"b": [2]}), "more than the quota of the leaf"
    leaf = books.tree.queues["a"].spec
    assert not reclaim.can_reclaim(leaf, books["a"], one(2, preemptible=False))
    assert reclaim.can_reclaim(leaf, books["a"], one(1, preemptible=False))


def test_within_its_quota_it_takes_what_others_borrow_although_they_are_within_their_share() -> None:
    specs = [queue("a", quota=4), queue("b", quota=2, age=1), queue("c", quota=2, age=2)]
    books = books_of(specs, {"a": 2, "b": 4, "c": 2}, {"a": 2}, 8, divided=False)
    for name, gpus in (("a", 4), ("b", 4), ("c", 2)):
        books[name].fair_share = Amounts(0, 0, gpus * GPU)
    assert may(books, "a", one(2), {"b": [1, 1]})
    assert not may(books, "a", one(2), {"b": [1, 1, 1]}), "the third would be of its quota"
    assert not may(books, "a", one(2), {"c": [2]})


def test_a_queue_is_protected_at_the_level_where_the_two_meet() -> None:
    """A leaf within its quota is a victim when its ancestor there is over its own (used on purpose in KAI #1934)."""
    specs = [queue("a", quota=4), queue("top", quota=2, age=1), queue("b", "top", quota=6)]
    books = books_of(specs, {"b": 6}, {"a": 4}, 6)
    assert may(books, "a", one(2), {"b": [2]})
    specs[1] = queue("top", quota=6, age=1)
    assert not may(books_of(specs, {"b": 6}, {"a": 4}, 6), "a", one(2), {"b": [2]})


def test_the_own_queue_and_what_is_above_it_are_no_victims() -> None:
    books = books_of([queue("a", quota=4), queue("b", age=1)], {"a": 2, "b": 4}, {"a": 2}, 8)
    assert not reclaim.reclaimable(books, "a", one(1), {"a": [one(1).amounts]})


@pytest.mark.parametrize("multiplier_milli", [0, 1000, 1500, 2000])
def test_saturations_are_kept_apart_by_the_multiplier(multiplier_milli: int) -> None:
    """Beyond its share it may go only where the other stays more saturated by so much; below 1 means 1."""
    books = books_of([queue("a"), queue("b", age=1)], {"a": 4, "b": 8}, {}, 0, divided=False)
    for name in ("a", "b"):
        books[name].fair_share = Amounts(0, 0, 4 * GPU)
    found = reclaim.reclaimable(
        books, "a", one(1), {"b": [one(1).amounts]}, multiplier_milli=multiplier_milli
    )  # then 5/4 and 7/4, which is 1.4 times as much
    assert found == (multiplier_milli <= 1000)
    as_much = reclaim.reclaimable(books, "a", one(1), {"b": [one(3).amounts]}, multiplier_milli=multiplier_milli)
    assert not as_much, "5/4 both"


@pytest.mark.parametrize("fair_share", [0, UNLIMITED])
def test_who_has_no_share_to_speak_of_is_not_compared(fair_share: int) -> None:
    """It loses all it holds to a queue that goes beyond its own share."""
    books = books_of([queue("a"), queue("b", age=1)], {"a": 4, "b": 2}, {}, 0, divided=False)
    books["a"].fair_share, books["b"].fair_share = one(4).amounts, Amounts(0, 0, fair_share)
    assert reclaim.reclaimable(books, "a", one(1), {"b": [one(2).amounts]})
    books["b"].fair_share = one(1).amounts
    assert not reclaim.reclaimable(books, "a", one(1), {"b": [one(2).amounts]})


def test_something_held_of_nothing_is_endless() -> None:
    assert reclaim.saturation(0, 0) == 0
    assert reclaim.saturation(1, 0) is None
    assert reclaim.saturation(5, UNLIMITED) == 0
    assert reclaim.saturation(3, 6) == Fraction(1, 2)


def test_a_resource_that_is_not_involved_is_no_obstacle() -> None:
    """A queue beyond its share of CPU may take devices back."""
    books = books_of([queue("a"), queue("b", age=1)], {"b": 8}, {}, 0, divided=False)
    books["a"].allocated, books["b"].allocated = Amounts(900, 0, 0), Amounts(100, 0, 8 * GPU)
    for name in ("a", "b"):
        books[name].fair_share = Amounts(500, 0, 4 * GPU)
    assert reclaim.reclaimable(books, "a", one(1), {"b": [one(1).amounts]})
    assert not reclaim.reclaimable(books, "a", Charge(Amounts(10, 0, GPU)), {"b": [one(1).amounts]})


def test_the_order_of_the_victims_queues_makes_no_difference_to_who_is_within_quota() -> None:
    """Taking from the own side first does not make room in its quota for taking from the other."""
    specs = [
        queue("left", quota=4), queue("a", "left", quota=4), queue("a2", "left", age=1),
        queue("right", quota=2, age=2), queue("b", "right", quota=2),
    ]  # fmt: skip
    books = books_of(specs, {"a2": 4, "b": 4}, {"a": 4}, 8, divided=False)
    for name, gpus in (("left", 4), ("a", 4), ("a2", 0), ("right", 4), ("b", 4)):
        books[name].fair_share = Amounts(0, 0, gpus * GPU)
    one_each = [one(1).amounts]
    assert not reclaim.reclaimable(books, "a", one(1), {"a2": one_each, "b": one_each})
    assert not reclaim.reclaimable(books, "a", one(1), {"b": one_each, "a2": one_each})
    assert reclaim.reclaimable(books, "a", one(1), {"a2": one_each})


GPUS = st.integers(0, 8)


@given(
    quotas=st.tuples(GPUS, GPUS),
    weights=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    priorities=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    held=st.tuples(GPUS, st.lists(st.integers(1, 3), min_size=1, max_size=4)),
    wanted=st.tuples(GPUS, GPUS),
    spare=st.integers(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_what_was_taken_is_not_taken_back(
    quotas: tuple[int, int],
    weights: tuple[int, int],
    priorities: tuple[int, int],
    held: tuple[int, list[int]],
    wanted: tuple[int, int],
    spare: int,
) -> None:
    """The victims, waiting again as one, may not evict the work that took their place.

    Each alone they may: where a large victim pushed its queue below its quota, a small one is within it again.
    """
    specs = [
        QueueSpec(name, created_ms=at, priority=priorities[at], gpu=Terms(quotas[at] * GPU, -1, weights[at] * 1000))
        for at, name in enumerate("ab")
    ]
    theirs = sum(held[1])
    total = held[0] + theirs + spare
    for count in range(1, len(held[1]) + 1):
        victims = held[1][:count]
        taken = sum(victims)
        books = books_of(specs, {"a": held[0], "b": theirs}, {"a": wanted[0] + theirs, "b": wanted[1]}, total)
        if may(books, "a", one(taken), {"b": victims}):
            swap(books, "a", "b", taken)
            division.divide(books, Amounts(0, 0, total * GPU))
            assert not may(books, "b", one(taken), {"a": [taken]})


def test_one_of_two_victims_alone_may_take_it_back() -> None:
    """Which is why a plan is also checked against each victim alone before it is carried out."""
    books = books_of([queue("a"), queue("b", quota=1, age=1)], {"b": 3}, {"a": 3}, 4, divided=False)
    books["a"].fair_share, books["b"].fair_share = one(3).amounts, one(1).amounts
    assert may(books, "a", one(3), {"b": [1, 2]})
    swap(books, "a", "b", 3)
    assert may(books, "b", one(1), {"a": [3]})
    assert not may(books, "b", one(3), {"a": [3]})
