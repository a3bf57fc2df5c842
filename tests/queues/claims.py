"""Siblings as claims one by one, in any order, for tests that look at a single division."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from queues import division
from queues.amounts import UNLIMITED
from queues.division import Past
from queues.siblings import Column, by_priority, column
from queues.spec import Terms


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
        return self.requested if self.terms.limit == UNLIMITED else min(self.terms.limit, self.requested)


def divide_level(total: int, claims: Sequence[Claim], unit: int, k_milli: int = 0) -> list[int]:
    """Shares in the order of the claims, by `division.divide_level`."""
    order, terms, past = _arranged(claims, k_milli)
    shares = division.divide_level(total, terms, [claims[at].requested for at in order], unit, past)
    return _back(order, shares)


def divide_rest(left: int, claims: Sequence[Claim], before: Sequence[int], unit: int, k_milli: int = 0) -> list[int]:
    """The same with shares that are given already."""
    order, terms, past = _arranged(claims, k_milli)
    wants, shares = [claims[at].requestable for at in order], [before[at] for at in order]
    return _back(order, division.divide_rest(left, terms, wants, shares, unit, past))


def _arranged(claims: Sequence[Claim], k_milli: int) -> tuple[list[int], Column, Past | None]:
    order = sorted(range(len(claims)), key=lambda at: claims[at].age)
    terms = column([claims[at].terms for at in order], by_priority([claims[at].priority for at in order]))
    return order, terms, Past(k_milli, [claims[at].usage_ppm for at in order]) if k_milli else None


def _back(order: Sequence[int], shares: Sequence[int]) -> list[int]:
    return [shares[order.index(at)] for at in range(len(order))]
