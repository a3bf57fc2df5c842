"""Fair shares: what each queue is entitled to, resource by resource, from the top of the tree down.

KAI's rules: quotas first, then by priority and over-quota weight what they leave, in whole units; then the fractions
that rounding left over, one unit each. All integers, and exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from queues.amounts import NOTHING, RESOURCES, UNITS, UNLIMITED, Amounts
from queues.books import Books, Standing
from queues.siblings import Column, Siblings, column
from queues.spec import Terms

PPM: Final = 1_000_000


class Past(NamedTuple):
    """How much usage over time counts, in thousandths, and what each sibling's is, in parts per million."""

    k_milli: int
    usage_ppm: Sequence[int]


def divide(books: Books, total: Amounts, *, k_milli: int = 0, usage: Mapping[str, Amounts] | None = None) -> None:
    """Writes the fair share of every queue into its standing. `usage` is in parts per million of the capacity; the
    mapping must not change afterwards.

    Only levels are divided in which something changed: what is divided, what a queue holds or wants, or (all of them)
    the usage.
    """
    tree, undivided, standings = books.tree, books.undivided, books.standings
    if not k_milli or not usage:  # without the one the other does not count
        k_milli, usage = 0, None
    terms = (total, k_milli, usage)
    if books.divided_by != terms:
        if books.divided_by is None or books.divided_by[1:] != terms[1:]:
            undivided.update(tree.queues)
        undivided.add(None)
        books.divided_by = terms
    levels: list[tuple[str | None, Amounts]] = [(None, total)] if None in undivided else []
    while levels:
        parent, level_total = levels.pop()
        siblings = tree.siblings(parent)
        level = [standings[name] for name in siblings.names]
        past = None if usage is None else _past(siblings, k_milli, usage)
        shares = _level(siblings, level, level_total, past)
        for at in siblings.inner:
            name = siblings.names[at]
            if name in undivided or level[at].fair_share != shares[at]:
                levels.append((name, Amounts(*shares[at])))
        for standing, share in zip(level, shares, strict=True):
            if standing.fair_share != share:
                standing.fair_share = Amounts(*share)
    undivided.clear()


def model_shares(
    books: Books, totals: Mapping[str, int], wanted: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Queue → GPU model → fair share in thousandths of devices, by the same rule for each model alone.

    `totals` are what there is of each model, `wanted` what waits for one: leaf → model → thousandths. A queue's quota
    for the model is guaranteed (none where it has no end, which bounds only) and its limit holds; priority and weight
    are those of the queue and its GPUs.
    """
    tree = books.tree
    asked = {name: dict(standing.model_gpu_milli) for name, standing in books.standings.items()}
    for leaf, models in wanted.items():
        for name in tree.queues[leaf].path:
            for model, gpu_milli in models.items():
                asked[name][model] = asked[name].get(model, 0) + gpu_milli
    shares: dict[str, dict[str, int]] = {name: {} for name in tree.queues}
    for model, total in totals.items():
        levels: list[tuple[str | None, int]] = [(None, total)]
        while levels:
            parent, level_total = levels.pop()
            level = tree.siblings(parent)
            terms = column([_model_terms(books, name, model) for name in level.names], level.buckets)
            requested = [asked[name].get(model, 0) for name in level.names]
            found = divide_level(level_total, terms, requested, UNITS.gpu_milli)
            for name, share in zip(level.names, found, strict=True):
                shares[name][model] = share
            levels += [(level.names[at], found[at]) for at in level.inner]
    return shares


def divide_level(total: int, terms: Column, requested: Sequence[int], unit: int, past: Past | None = None) -> list[int]:
    """The shares of siblings in one resource, in their order."""
    wants = requested
    if terms.limits:
        wants = [asked if asked < limit else limit for asked, limit in zip(requested, terms.limits, strict=True)]
    if not terms.quotas:
        return divide_rest(total, terms, wants, [0] * len(wants), unit, past)
    quotas: Sequence[int] = terms.quotas
    if terms.endless:
        quotas = [total if quota == UNLIMITED else quota for quota in quotas]
    shares = [want if want < quota else quota for want, quota in zip(wants, quotas, strict=True)]
    return divide_rest(total - sum(shares), terms, wants, shares, unit, past)


def divide_rest(
    left: int, terms: Column, wants: Sequence[int], shares: list[int], unit: int, past: Past | None = None
) -> list[int]:
    """Adds to the shares what all quotas leave; `wants` is what each wants and may have."""
    cuts = []
    for bucket in terms.buckets:
        if left <= 0:
            return shares
        left, cut = _divide_bucket(left, terms, wants, shares, bucket, unit, past)
        cuts.append(cut)
    for cut in cuts:
        for at in sorted(cut, key=lambda at: -cut[at]):  # equals: the older first
            if left <= 0:
                return shares
            given = min(unit, left)
            shares[at] += given
            left -= given
    return shares


def _divide_bucket(
    left: int,
    terms: Column,
    wants: Sequence[int],
    shares: list[int],
    bucket: Sequence[int],
    unit: int,
    past: Past | None,
) -> tuple[int, dict[int, int]]:
    """Rounds among siblings of one priority. Returns what they leave and, by place, what was cut off in the last round
    where that is something: numerators over one denominator.
    """
    cut: dict[int, int] = {}
    wanting = [at for at in bucket if wants[at] > shares[at] and terms.weights[at]]
    again = True
    while again and wanting and left > 0:
        if past is None and (unmet := sum([wants[at] - shares[at] for at in wanting])) <= left:
            for at in wanting:  # what rounds would come to
                shares[at] = wants[at]
            return left - unmet, {}
        weights = _weights(wanting, terms, past)
        total_weight = sum(weights)
        if not total_weight:
            break
        again, cut, given, unsatisfied = False, {}, 0, []
        whole = total_weight * unit
        for at, weight in zip(wanting, weights, strict=True):
            offer = left * weight
            give = wants[at] - shares[at]
            spare = offer - give * total_weight
            if spare < 0:
                give = offer // whole * unit
                unsatisfied.append(at)
                if rest := offer - give * total_weight:
                    cut[at] = rest
            elif spare:
                again = True
            shares[at] += give
            given += give
        left -= given
        wanting = unsatisfied
    return left, cut


def _weights(wanting: Sequence[int], terms: Column, past: Past | None) -> list[int]:
    """What each weighs once its usage over time is taken into account: w = max(0, n + k(n - usage)), n the part of its
    weight in the sum, scaled to whole numbers.
    """
    weights = [terms.weights[at] for at in wanting]
    if past is None:
        return weights
    total = sum(weights)
    factor = PPM * (1000 + past.k_milli)
    return [
        max(0, weight * factor - past.k_milli * past.usage_ppm[at] * total)
        for at, weight in zip(wanting, weights, strict=True)
    ]


def _level(
    siblings: Siblings, level: Sequence[Standing], total: Amounts, past: Sequence[Past] | None
) -> list[tuple[int, ...]]:
    """The shares of siblings in all resources."""
    shares = []
    for index, terms in enumerate(siblings.columns):
        requested = [standing.allocated[index] + standing.pending[index] for standing in level]
        counted = None if past is None else past[index]
        shares.append(divide_level(total[index], terms, requested, UNITS[index], counted))
    return list(zip(*shares, strict=True))


def _past(siblings: Siblings, k_milli: int, usage: Mapping[str, Amounts]) -> list[Past]:
    used = [usage.get(name, NOTHING) for name in siblings.names]
    return [Past(k_milli, [amounts[index] for amounts in used]) for index in range(len(RESOURCES))]


def _model_terms(books: Books, name: str, model: str) -> Terms:
    spec = books.tree.queues[name].spec
    said = spec.models.get(model, Terms())
    return Terms(0 if said.quota == UNLIMITED else said.quota, said.limit, spec.gpu.weight_milli)
