"""Durations as people write them in Kubernetes objects."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)", re.ASCII)
_LONGEST: Final = 64
MOST_MS: Final = 10 * 366 * 86_400_000
"""Ten years; whoever means longer means for ever."""
PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+$"
FORM: Final = "a duration such as 90s, 5m, 1h30m or 2d"


class DurationError(ValueError):
    """A text that is no duration."""


def parse_ms(text: str) -> int:
    """Milliseconds, rounded up, of Go's form (`1h30m`), with days and weeks beside it. Raises DurationError."""
    text = text.strip()
    parts = _PART.findall(text) if len(text) <= _LONGEST else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise DurationError(f"{text[:_LONGEST]!r} is not {FORM}")
    total = sum(Fraction(number) * _UNITS_MS[unit] for number, unit in parts)
    milliseconds = -(-total.numerator // total.denominator) if isinstance(total, Fraction) else total
    if milliseconds > MOST_MS:
        raise DurationError(f"{text!r} is longer than ten years")
    return int(milliseconds)
