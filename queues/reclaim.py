"""Who may take capacity back from whom, between queues (KAI's rules).

Comparisons are between two siblings: the ancestors, of the one that wants and of the one that has, that are children of
their lowest common ancestor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from queues.amounts import RESOURCES, UNLIMITED, Amounts
from queues.books import Books, Charge, Standing
from queues.spec import QueueSpec
from queues.tree import sides

ONE_MILLI: Final = 1000
_INDICES: Final = range(len(RESOURCES))


@dataclass(frozen=True, slots=True)
class Side:
    """One of two siblings: what is said of it, what it holds (by now, in a plan), and its fair share."""

    spec: QueueSpec
    allocated: Amounts
    fair_share: Amounts

    def allocatable(self, index: int) -> int:
        """What it may come to hold of a resource; UNLIMITED possible."""
        quota, limit = self.spec.quota[index], self.spec.limit[index]
        if quota == UNLIMITED:
            return limit
        most = max(quota, self.fair_share[index])
        return most if limit == UNLIMITED else min(limit, most)


def can_reclaim(spec: QueueSpec, standing: Standing, charge: Charge) -> bool:
    """Whether a workload of the leaf may try: with it the leaf stays within its fair share, and non-preemptible work
    within the quota.
    """
    held = standing.allocated.plus(charge.amounts)
    if not _within(held, standing.fair_share):
        return False
    return charge.preemptible or _within(standing.allocated_non_preemptible.plus(charge.amounts), spec.quota)


def filter_victim(reclaimer: Side, victim: Side, asked: Amounts) -> bool:
    """Whether work of the victim's side is looked at at all.

    One that would exceed its quota may look at those beyond what they are entitled to; one that would not also at
    those beyond their quota in something that is asked for, or below it in nothing that is.
    """
    if not _within(reclaimer.allocated.plus(asked), reclaimer.spec.quota):
        return maintain_fair_share(victim)
    quota = victim.spec.quota
    wanted = [index for index in _INDICES if asked[index]]
    if any(quota[index] != UNLIMITED and victim.allocated[index] > quota[index] for index in wanted):
        return True
    return not any(quota[index] == UNLIMITED or victim.allocated[index] < quota[index] for index in wanted)


def maintain_fair_share(victim: Side) -> bool:
    """Whether the victim's side holds more than it is entitled to in some resource, so that it keeps its share."""
    return any(
        (most := victim.allocatable(index)) != UNLIMITED and victim.allocated[index] > most for index in _INDICES
    )


def guarantee_quota(reclaimer: Side, victim: Side, asked: Amounts) -> bool:
    """Whether the reclaimer's side stays within its quota, and the victim's side is beyond its own in something."""
    if not _within(reclaimer.allocated.plus(asked), reclaimer.spec.quota):
        return False
    return not _within(victim.allocated, victim.spec.quota)


def reclaimable(
    books: Books,
    leaf: str,
    charge: Charge,
    victims: Mapping[str, Sequence[Amounts]],
    *,
    multiplier_milli: int = ONE_MILLI,
) -> bool:
    """Whether a workload of the leaf may have all these batches of work evicted: leaf of the victims → amounts, in
    order. `multiplier_milli` (at least 1000) keeps a distance between saturations.
    """
    tree, asked = books.tree, charge.amounts
    left: dict[str, Amounts] = {}
    """What a queue and those above it hold without the victims."""
    for victim, batches in victims.items():
        pair = sides(tree.queues[leaf], tree.queues[victim])
        if pair is None:
            return False
        ours = _side(books, pair[0], books[pair[0]].allocated)
        for batch in batches:
            theirs = _side(books, pair[1], left.get(pair[1], books[pair[1]].allocated))
            if not maintain_fair_share(theirs) and not guarantee_quota(ours, theirs, asked):
                return False
            for name in tree.queues[victim].path:
                left[name] = left.get(name, books[name].allocated).minus(batch)
    if not _non_preemptible_within_quota(books, leaf, charge):
        return False
    involved = [
        index for index in _INDICES if asked[index] or any(batch[index] for some in victims.values() for batch in some)
    ]
    return not _overtakes(books, leaf, asked, left, involved, max(multiplier_milli, ONE_MILLI))


def saturation(allocated: int, fair_share: int) -> Fraction | None:
    """What is held of the fair share; None is without end (something is held of nothing)."""
    if fair_share == UNLIMITED or allocated <= 0:
        return Fraction(0)
    return Fraction(allocated, fair_share) if fair_share else None


def _side(books: Books, name: str, held: Amounts) -> Side:
    return Side(books.tree.queues[name].spec, held, books[name].fair_share)


def _non_preemptible_within_quota(books: Books, leaf: str, charge: Charge) -> bool:
    return charge.preemptible or all(
        _within(standing.allocated_non_preemptible.plus(charge.amounts), queue.spec.quota)
        for queue, standing in books.path(leaf)
    )


def _overtakes(
    books: Books,
    leaf: str,
    asked: Amounts,
    left: Mapping[str, Amounts],
    involved: Sequence[int],
    multiplier_milli: int,
) -> bool:
    """Whether an ancestor of the reclaimer ends beyond its share, and no worse off than a sibling it took from."""
    for queue, standing in books.path(leaf):
        held = left.get(queue.name, standing.allocated).plus(asked)
        for name in books.tree.siblings(queue.spec.parent).names:
            if name == queue.name or name not in left:
                continue
            for index in involved:
                mine, fair = saturation(held[index], standing.fair_share[index]), books[name].fair_share[index]
                if fair > 0 and _beyond(mine, saturation(left[name][index], fair), multiplier_milli):
                    return True
    return False


def _beyond(mine: Fraction | None, other: Fraction | None, multiplier_milli: int) -> bool:
    if mine is None:
        return True
    return mine > 1 and other is not None and mine * multiplier_milli >= other * ONE_MILLI


def _within(held: Amounts, bound: Amounts) -> bool:
    return all(bound[index] == UNLIMITED or held[index] <= bound[index] for index in _INDICES)
