"""Fair shares: the worked examples of the field, and what holds for all inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues import division
from queues.amounts import RESOURCES, UNITS, UNLIMITED, Amounts
from queues.books import Books, Charge
from queues.spec import QueueSpec, Terms
from queues.tree import Tree
from tests.queues import naive
from tests.queues.claims import Claim, divide_level

GPU = UNITS.gpu_milli


def claim(quota: float, weight: float, request: float, priority: int = 100, age: int = 0, **other: Any) -> Claim:
    limit = round(other.pop("limit", -0.001) * GPU)
    terms = Terms(round(quota * GPU), limit, round(weight * 1000))
    return Claim(terms, priority, round(request * GPU), (age, "", ""), **other)


def gpus(total: float, *claims: Claim, k: float = 0) -> list[float]:
    shares = divide_level(round(total * GPU), claims, GPU, round(k * 1000))
    return [share / GPU for share in shares]


# -- worked examples -------------------------------------------------------------------------------------------------


def test_quota_weights_and_rounding() -> None:
    assert gpus(10, claim(4, 1, 10, age=0), claim(2, 1, 2, age=1), claim(0, 2, 10, age=2)) == [5, 2, 3]


def test_priority_buckets_limit_and_redistribution() -> None:
    x, y, z = claim(2, 1, 12, 200, limit=6), claim(2, 3, 3), claim(2, 1, 20)
    assert gpus(16, x, y, z) == [6, 3, 7]


def test_two_levels_and_fractions() -> None:
    specs = [
        queue("d1", quota=6), queue("a", "d1", quota=2), queue("b", "d1"),
        queue("d2", quota=2), queue("c", "d2"), queue("d", "d2", quota=2),
    ]  # fmt: skip
    assert shares(12, specs, {"a": 8, "b": 0.5, "c": 5, "d": 1}) == {
        "d1": 8, "a": 7.5, "b": 0.5, "d2": 4, "c": 3, "d": 1,
    }  # fmt: skip


def test_queue_priority_before_weight() -> None:
    """KAI #143."""
    a, b, c = claim(1, 1, 1, 2), claim(1, 2, 3, 1, age=1), claim(0, 1, 2, 1, age=2)
    assert gpus(5, a, b, c) == [1, 3, 1]


def test_quotas_are_granted_in_full_although_there_is_less() -> None:
    assert gpus(10, claim(8, 1, 9), claim(8, 1, 9)) == [8, 8]


def test_the_unit_that_is_left_goes_to_the_older() -> None:
    """Also beyond what is wanted: the vectors divide in whole units."""
    assert gpus(1, claim(0, 1, 0.9, age=0), claim(0, 1, 0.9, age=1)) == [1, 0]


def test_a_parent_without_weight_starves_its_children() -> None:
    """A likely cause of KAI #1934; `Tree` reports it."""
    specs = [queue("shared", weight=0), queue("alice", "shared", quota=2), queue("bob", "shared", quota=2)]
    wanted = {"alice": 16, "bob": 16}
    assert shares(16, specs, wanted) == {"shared": 0, "alice": 2, "bob": 2}
    specs[0] = queue("shared", weight=1)
    assert shares(16, specs, wanted) == {"shared": 16, "alice": 8, "bob": 8}


@pytest.mark.parametrize(
    ("usage", "k", "expected"),
    [
        ((0.6, 0.1), 0, [5, 5]),
        ((0.6, 0.1), 0.5, [4, 6]),
        ((0.6, 0.1), 1, [3, 7]),
        ((0.6, 0.1), 2, [2, 8]),
        ((1.0, 0.0), 1, [0, 10]),
    ],
)
def test_usage_over_time(usage: tuple[float, float], k: float, expected: list[float]) -> None:
    claims = [claim(0, 1, 10, age=at, usage_ppm=round(part * 1e6)) for at, part in enumerate(usage)]
    assert gpus(10, *claims, k=k) == expected


def test_who_used_far_more_than_its_part_gets_nothing_although_there_is_enough() -> None:
    """Neither in the rounds nor of what is left: no fraction of theirs was cut off."""
    used = [claim(0, 1, 2, age=at, usage_ppm=900_000) for at in (1, 2)]
    assert gpus(10, claim(0, 1, 1), *used, k=2.5) == [1, 0, 0]


def test_usage_reaches_the_division_of_a_tree() -> None:
    books = books_of([queue("a"), queue("b")], {"a": 10, "b": 10})
    usage = {"a": Amounts(0, 0, 600_000), "b": Amounts(0, 0, 100_000)}
    division.divide(books, Amounts(0, 0, 10 * GPU), k_milli=1000, usage=usage)
    assert (books["a"].fair_share.gpu_milli, books["b"].fair_share.gpu_milli) == (3 * GPU, 7 * GPU)


def test_what_is_held_counts_as_wanted() -> None:
    books = books_of([queue("a"), queue("b")], {"a": 4, "b": 6})
    books.hold("a", Charge(Amounts(0, 0, 6 * GPU)))
    division.divide(books, Amounts(0, 0, 10 * GPU))
    assert (books["a"].fair_share.gpu_milli, books["b"].fair_share.gpu_milli) == (5 * GPU, 5 * GPU)


def queue(name: str, parent: str | None = None, quota: float = 0, weight: float = 1) -> QueueSpec:
    return QueueSpec(name, parent, gpu=Terms(round(quota * GPU), UNLIMITED, round(weight * 1000)))


def books_of(specs: list[QueueSpec], wanted: Mapping[str, float]) -> Books:
    aged = [replace(spec, created_ms=at) for at, spec in enumerate(specs)]
    books = Books(Tree(aged))
    for leaf, request in wanted.items():
        books.want(leaf, Amounts(0, 0, round(request * GPU)))
    return books


def shares(total: float, specs: list[QueueSpec], wanted: Mapping[str, float]) -> dict[str, float]:
    books = books_of(specs, wanted)
    division.divide(books, Amounts(0, 0, round(total * GPU)))
    return {name: books[name].fair_share.gpu_milli / GPU for name in books}


# -- what always holds -----------------------------------------------------------------------------------------------

UNIT = 10
AMOUNTS = st.integers(0, 200)
CLAIMS = st.lists(
    st.builds(
        Claim,
        st.builds(
            Terms,
            quota=st.one_of(st.just(UNLIMITED), AMOUNTS),
            limit=st.one_of(st.just(UNLIMITED), AMOUNTS),
            weight_milli=st.sampled_from([0, 500, 1000, 3000, 7001]),
        ),
        priority=st.integers(1, 3),
        requested=AMOUNTS,
        age=st.just((0, "", "")),
        usage_ppm=st.integers(0, 1_000_000),
    ),
    min_size=1,
    max_size=7,
).map(lambda claims: [found._replace(age=(at, "", "")) for at, found in enumerate(claims)])


@given(total=st.integers(0, 400), claims=CLAIMS, k_milli=st.sampled_from([0, 500, 1000, 2500]))
def test_equal_to_the_naive_reference(total: int, claims: list[Claim], k_milli: int) -> None:
    assert divide_level(total, claims, UNIT, k_milli) == naive.divide_level(total, claims, UNIT, k_milli)


@given(total=st.integers(0, 400), claims=CLAIMS, k_milli=st.sampled_from([0, 1000]))
def test_never_more_is_given_beyond_quotas_than_they_leave(total: int, claims: list[Claim], k_milli: int) -> None:
    shares = divide_level(total, claims, UNIT, k_milli)
    quotas = [
        min(total if found.terms.quota == UNLIMITED else found.terms.quota, found.requestable) for found in claims
    ]
    assert all(share >= quota for share, quota in zip(shares, quotas, strict=True))
    assert sum(shares) - sum(quotas) <= max(total - sum(quotas), 0)
    for share, found in zip(shares, claims, strict=True):
        assert share < found.requestable + UNIT, (
            "at most the unit that rounding left over is given beyond what is wanted"
        )


@given(total=st.integers(0, 400), claims=CLAIMS, at=st.integers(0, 6), more=st.integers(1, 100))
def test_who_wants_more_never_gets_less(total: int, claims: list[Claim], at: int, more: int) -> None:
    """To within the unit of rounding: a fraction that is granted whole may be cut off when more is wanted."""
    at %= len(claims)
    before = divide_level(total, claims, UNIT)
    claims[at] = claims[at]._replace(requested=claims[at].requested + more)
    after = divide_level(total, claims, UNIT)
    assert after[at] >= before[at] - UNIT
    if total % UNIT == 0 and all(is_whole(found) for found in claims):
        assert after[at] >= before[at]


@given(total=st.integers(0, 400), claims=CLAIMS, at=st.integers(0, 6), more=st.integers(1, 5000))
def test_who_weighs_more_never_gets_less_than_a_unit_less(total: int, claims: list[Claim], at: int, more: int) -> None:
    at %= len(claims)
    before = divide_level(total, claims, UNIT)
    terms = claims[at].terms
    claims[at] = claims[at]._replace(terms=replace(terms, weight_milli=terms.weight_milli + more))
    after = divide_level(total, claims, UNIT)
    assert after[at] >= before[at] - UNIT


@given(total=st.integers(0, 400), claims=CLAIMS, seed=st.randoms(use_true_random=False))
def test_the_order_of_the_claims_makes_no_difference(total: int, claims: list[Claim], seed: Any) -> None:
    places = list(range(len(claims)))
    seed.shuffle(places)
    plain = divide_level(total, claims, UNIT)
    mixed = divide_level(total, [claims[at] for at in places], UNIT)
    assert mixed == [plain[at] for at in places]


def test_each_resource_is_divided_alone() -> None:
    books = Books(
        Tree(
            [
                QueueSpec("a", cpu=Terms(), memory=Terms()),
                QueueSpec("b", cpu=Terms(weight_milli=3000), memory=Terms()),
            ]
        )
    )
    for name in ("a", "b"):
        books.want(name, Amounts(1000, 10**9, 4000))
    division.divide(books, Amounts(800, 10**9, 4000))
    assert books["a"].fair_share == Amounts(200, 5 * 10**8, 2000)
    assert books["b"].fair_share == Amounts(600, 5 * 10**8, 2000)
    assert len(RESOURCES) == 3


def is_whole(found: Claim) -> bool:
    """Nothing of the claim is a fraction of a unit."""
    bounds = (found.terms.quota, found.terms.limit)
    return found.requested % UNIT == 0 and all(bound == UNLIMITED or bound % UNIT == 0 for bound in bounds)
