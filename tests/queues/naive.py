"""Fair shares once more, written down as slowly and plainly as the rules are told: with fractions, unit by unit."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from queues.amounts import UNLIMITED
from queues.division import PPM
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
