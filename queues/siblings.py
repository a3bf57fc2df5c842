"""The queues below one parent in columns: what a division reads of them, gone through once for a tree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

from queues.amounts import RESOURCES, UNLIMITED
from queues.spec import QueueSpec, Terms

ENDLESS: Final = 1 << 128
"""Beyond every amount: a limit that bounds nothing."""

Buckets = tuple[tuple[int, ...], ...]
"""Places of siblings by priority, the highest first."""


class Column(NamedTuple):
    """One resource of siblings, from old to young. What says nothing at all is empty, and need not be looked at.

    `quotas` are empty where all are 0, `limits` where all are UNLIMITED; else such a limit is ENDLESS. `endless` tells
    that some quota is UNLIMITED.
    """

    quotas: tuple[int, ...]
    limits: tuple[int, ...]
    weights: tuple[int, ...]
    endless: bool
    buckets: Buckets


class Siblings(NamedTuple):
    """Siblings from old to young, with a column for each resource in the order of `Amounts`.

    `inner` are the places of those that have children themselves.
    """

    names: tuple[str, ...]
    inner: tuple[int, ...]
    buckets: Buckets
    columns: tuple[Column, ...]


def siblings(specs: Sequence[QueueSpec], inner: tuple[int, ...]) -> Siblings:
    """The children of one queue (or the top queues), from old to young."""
    buckets = by_priority([spec.priority for spec in specs])
    columns = [column([spec.terms[index] for spec in specs], buckets) for index in range(len(RESOURCES))]
    return Siblings(tuple(spec.name for spec in specs), inner, buckets, tuple(columns))


def by_priority(priorities: Sequence[int]) -> Buckets:
    """The places of siblings with these priorities."""
    order = sorted(range(len(priorities)), key=lambda at: -priorities[at])
    return tuple(tuple(places) for _, places in groupby(order, key=lambda at: priorities[at]))


def column(terms: Sequence[Terms], buckets: Buckets) -> Column:
    """What is said of siblings about one resource."""
    quotas = tuple(said.quota for said in terms)
    limits = tuple(ENDLESS if said.limit == UNLIMITED else said.limit for said in terms)
    return Column(
        quotas if any(quotas) else (),
        limits if min(limits, default=ENDLESS) < ENDLESS else (),
        tuple(said.weight_milli for said in terms),
        UNLIMITED in quotas,
        buckets,
    )
