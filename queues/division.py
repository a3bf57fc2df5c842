"""Fair shares: what each queue is entitled to, resource by resource, from the top of the tree down.

KAI's rules: quotas first, then by priority and over-quota weight what they leave, in whole units; then the fractions
that rounding left over, one unit each. All integers, and exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Final, NamedTuple

from queues.amounts import NOTHING, RESOURCES, UNITS, UNLIMITED, Amounts
from queues.books import Books
from queues.spec import Terms

PPM: Final = 1_000_000


class Claim(NamedTuple):
    """What one of several siblings claims of one resource. `usage_ppm` is its part of the capacity over time."""

    terms: Terms
    priority: int
    requested: int
    age: tuple[int, str, str]
    usage_ppm: int = 0

    @property
    def requestable(self) -> int:
        """What it wants and may have."""
        limit = self.terms.limit
        return self.requested if limit == UNLIMITED else min(limit, self.requested)


def divide(books: Books, total: Amounts, *, k_milli: int = 0, usage: Mapping[str, Amounts] | None = None) -> None:
    """Writes the fair share of every queue into its standing. `usage` is in parts per million of the capacity.

    Only levels are divided in which something changed: what is divided, what a queue holds or wants, or (all of them)
    the usage.
    """
    undivided = books.undivided
    terms = (total, k_milli, usage)
    if books.divided_by != terms:
        if books.divided_by is None or books.divided_by[1:] != terms[1:]:
            undivided.update(books.tree.queues)
        undivided.add(None)
        books.divided_by = terms
    levels: list[tuple[str | None, Amounts]] = [(None, total)] if None in undivided else []
    while levels:
        parent, level_total = levels.pop()
        names = books.tree.roots if parent is None else books.tree.queues[parent].children
        for name, share in zip(names, _level(books, names, level_total, k_milli, usage or {}), strict=True):
            standing = books[name]
            if books.tree.queues[name].children and (name in undivided or standing.fair_share != share):
                levels.append((name, share))
            standing.fair_share = share
    undivided.clear()


def _level(
    books: Books, names: Sequence[str], total: Amounts, k_milli: int, usage: Mapping[str, Amounts]
) -> list[Amounts]:
    """The shares of siblings, in their order."""
    queues = [books.tree.queues[name].spec for name in names]
    requested = [books[name].requested for name in names]
    used = [usage.get(name, NOTHING) for name in names]
    shares = []
    for index in range(len(RESOURCES)):
        claims = [
            Claim(spec.terms[index], spec.priority, asked[index], spec.age_order, past[index])
            for spec, asked, past in zip(queues, requested, used, strict=True)
        ]
        shares.append(divide_level(total[index], claims, UNITS[index], k_milli))
    return [Amounts(*found) for found in zip(*shares, strict=True)]


def divide_level(total: int, claims: Sequence[Claim], unit: int, k_milli: int = 0) -> list[int]:
    """The shares of siblings in one resource, in the order of the claims."""
    shares = [
        min(total if claim.terms.quota == UNLIMITED else claim.terms.quota, claim.requestable) for claim in claims
    ]
    left = max(total - sum(shares), 0)
    if not left or all(share >= claim.requestable for share, claim in zip(shares, claims, strict=True)):
        return shares
    return divide_rest(left, claims, shares, unit, k_milli)


def divide_rest(left: int, claims: Sequence[Claim], shares: list[int], unit: int, k_milli: int) -> list[int]:
    """Adds to the shares what all quotas leave."""
    shares = list(shares)
    cut: dict[int, Fraction] = {}
    order = sorted(range(len(claims)), key=lambda at: -claims[at].priority)
    for _, bucket in groupby(order, key=lambda at: claims[at].priority):
        left = _divide_bucket(left, claims, shares, list(bucket), cut, unit, k_milli)
    for at in sorted(cut, key=lambda at: (-claims[at].priority, -cut[at], claims[at].age)):
        if left <= 0:
            break
        given = min(unit, left)
        shares[at] += given
        left -= given
    return shares


def _divide_bucket(
    left: int,
    claims: Sequence[Claim],
    shares: list[int],
    bucket: list[int],
    cut: dict[int, Fraction],
    unit: int,
    k_milli: int,
) -> int:
    """Rounds among queues of one priority. Returns what they leave."""
    again = True
    while again and left > 0:
        again = False
        wanting = [at for at in bucket if claims[at].requestable > shares[at] and claims[at].terms.weight_milli > 0]
        weights = _weights([claims[at] for at in wanting], k_milli)
        total_weight = sum(weights)
        if not total_weight:
            break
        given = 0
        for at, weight in zip(wanting, weights, strict=True):
            unmet = claims[at].requestable - shares[at]
            offer = left * weight
            if unmet * total_weight <= offer:
                give = unmet
                cut.pop(at, None)
                again = again or unmet * total_weight < offer
            else:
                give = offer // (total_weight * unit) * unit
                cut[at] = Fraction(offer, total_weight) - give
            shares[at] += give
            given += give
        left -= given
    return left


def _weights(claims: Sequence[Claim], k_milli: int) -> list[int]:
    """What each weighs once its usage over time is taken into account: w = max(0, n + k(n - usage)), n the part of its
    weight in the sum, scaled to whole numbers.
    """
    if not k_milli:
        return [claim.terms.weight_milli for claim in claims]
    total = sum(claim.terms.weight_milli for claim in claims)
    return [
        max(0, claim.terms.weight_milli * PPM * (1000 + k_milli) - k_milli * claim.usage_ppm * total)
        for claim in claims
    ]
