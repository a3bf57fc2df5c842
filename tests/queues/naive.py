"""Fair shares and the order of queues once more, as slowly and plainly as the rules are told, and with fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from queues.amounts import UNITS, UNLIMITED, Amounts
from queues.books import Standing
from queues.division import PPM
from queues.tree import Queue
from tests.queues.claims import Claim


def divide_level(total: int, claims: Sequence[Claim], unit: int, k_milli: int = 0) -> list[int]:
    """See `claims.divide_level`."""
    wants = []
    for claim in claims:
        limit = claim.terms.limit
        wants.append(claim.requested if limit == UNLIMITED or claim.requested < limit else limit)
    shares = []
    for claim, want in zip(claims, wants, strict=True):
        quota = total if claim.terms.quota == UNLIMITED else claim.terms.quota
        shares.append(quota if quota < want else want)
    left = total
    for share in shares:
        left -= share
    if left <= 0:
        return shares
    cut: dict[int, Fraction] = {}
    for priority in sorted({claim.priority for claim in claims}, reverse=True):
        bucket = [at for at, claim in enumerate(claims) if claim.priority == priority]
        while True:
            taking = [at for at in bucket if shares[at] < wants[at] and claims[at].terms.weight_milli]
            offers = _offers(left, [claims[at] for at in taking], k_milli)
            somebody_took_less = False
            for at, offer in zip(taking, offers, strict=True):
                unmet = wants[at] - shares[at]
                if unmet <= offer:
                    shares[at] += unmet
                    left -= unmet
                    somebody_took_less = somebody_took_less or unmet < offer
                    cut.pop(at, None)
                else:
                    whole = int(offer / unit) * unit
                    shares[at] += whole
                    left -= whole
                    cut.pop(at, None)
                    if offer > whole:
                        cut[at] = offer - whole
            if not somebody_took_less or left <= 0:
                break
    waiting = list(cut)
    while waiting and left > 0:
        best = min(waiting, key=lambda at: (-claims[at].priority, -cut[at], claims[at].age))
        waiting.remove(best)
        gets = unit if unit < left else left
        shares[best] += gets
        left -= gets
    return shares


def _offers(left: int, claims: Sequence[Claim], k_milli: int) -> list[Fraction]:
    weights = [Fraction(claim.terms.weight_milli, 1000) for claim in claims]
    if k_milli and weights:
        k, total = Fraction(k_milli, 1000), sum(weights)
        normal = [weight / total for weight in weights]
        used = [Fraction(claim.usage_ppm, PPM) for claim in claims]
        weights = [max(Fraction(0), n + k * (n - u)) for n, u in zip(normal, used, strict=True)]
    whole = sum(weights)
    return [left * weight / whole if whole else Fraction(0) for weight in weights]


def goes_first(
    left: tuple[Queue, Standing, Amounts], right: tuple[Queue, Standing, Amounts], total: Amounts
) -> bool | None:
    """Whether of two siblings, each with what its next workload asks for, the left goes first: the first rule that sees
    a difference decides. None where the last but one is asked and neither allocatable is within the other.
    """
    views = [_View(*side, total) for side in (left, right)]
    for rule in _RULES:
        mine, other = (rule(view) for view in views)
        if mine != other:
            return bool(mine < other)
    ours, theirs = (view.allocatable for view in views)
    if ours != theirs:
        if all(a <= b for a, b in zip(ours, theirs, strict=True)):
            return True
        return False if all(a >= b for a, b in zip(ours, theirs, strict=True)) else None
    return left[0].spec.age_order < right[0].spec.age_order


class _View:
    """One side in the units that are divided: devices, millicores and megabytes, with fractions."""

    def __init__(self, queue: Queue, standing: Standing, ask: Amounts, total: Amounts) -> None:
        self.priority = queue.spec.priority
        self.held = [Fraction(held, unit) for held, unit in zip(standing.allocated, UNITS, strict=True)]
        self.then = [held + Fraction(more, unit) for held, more, unit in zip(self.held, ask, UNITS, strict=True)]
        self.fair = [Fraction(fair, unit) for fair, unit in zip(standing.fair_share, UNITS, strict=True)]
        self.quota = _in_units(queue.spec.quota)
        self.limit = _in_units(queue.spec.limit)
        self.allocatable = [self._allocatable(at, Fraction(total[at], UNITS[at])) for at in range(len(UNITS))]

    def _allocatable(self, at: int, total: Fraction) -> Fraction:
        quota, limit = self.quota[at], self.limit[at]
        if quota is None:
            return total if limit is None else limit
        most = max(quota, self.fair[at])
        return most if limit is None else min(limit, most)

    def dominant(self, amounts: Sequence[Fraction]) -> Fraction:
        return max(
            amount / most if most else amount * 1000 for amount, most in zip(amounts, self.allocatable, strict=True)
        )


def _in_units(bound: Amounts) -> list[Fraction | None]:
    return [None if said == UNLIMITED else Fraction(said, unit) for said, unit in zip(bound, UNITS, strict=True)]


_RULES: Final[tuple[Callable[[_View], Any], ...]] = (
    lambda view: all(held > fair for held, fair in zip(view.held, view.fair, strict=True)),
    lambda view: any(q is not None and then > q for then, q in zip(view.then, view.quota, strict=True)),
    lambda view: -view.priority,
    lambda view: any(then > 0 and not most for then, most in zip(view.then, view.allocatable, strict=True)),
    lambda view: view.dominant(view.then),
    lambda view: view.dominant(view.held),
)
