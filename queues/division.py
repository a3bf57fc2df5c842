"""Fair shares: what each queue is entitled to, resource by resource, from the top of the tree down.

KAI's rules: quotas first, then by priority and over-quota weight what they leave, in whole units; then the fractions
that rounding left over, one unit each. All integers, and exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Final, NamedTuple

from queues.amounts import RESOURCES, UNITS, UNLIMITED, Amounts
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
    """Writes the fair share of every queue into its standing. `usage` is in parts per million of the capacity."""
    usage = usage or {}
    tree = books.tree
    none = Amounts()
    levels: list[tuple[tuple[str, ...], Amounts]] = [(tree.roots, total)]
    while levels:
        names, level_total = levels.pop()
        shares = []
        for index in range(len(RESOURCES)):
            claims = [
                Claim(
                    tree.queues[name].spec.terms[index],
                    tree.queues[name].spec.priority,
                    books[name].requested[index],
                    tree.queues[name].spec.age_order,
                    usage.get(name, none)[index],
                )
                for name in names
            ]
            shares.append(divide_level(level_total[index], claims, UNITS[index], k_milli))
        for at, name in enumerate(names):
            share = Amounts(*(found[at] for found in shares))
            books[name].fair_share = share
            if tree.queues[name].children:
                levels.append((tree.queues[name].children, share))


def divide_level(total: int, claims: Sequence[Claim], unit: int, k_milli: int = 0) -> list[int]:
    """The shares of siblings in one resource, in the order of the claims."""
    shares = [
        min(total if claim.terms.quota == UNLIMITED else claim.terms.quota, claim.requestable) for claim in claims
    ]
    left = max(total - sum(shares), 0)
    return shares if not left else divide_rest(left, claims, shares, unit, k_milli)


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
