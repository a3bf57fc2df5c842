"""Numbers as users write them: Kubernetes quantities and shares of a device, read exactly into integers.

There is one rounding rule: up (away from zero), as Kubernetes' own `Value()` and `MilliValue()` do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

CPU: Final = "cpu"
MAX: Final = (1 << 63) - 1
"""Larger amounts count as this one, as in Kubernetes, so that every amount fits a signed 64-bit integer."""

_BINARY: Final = {name: 1 << 10 * power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL: Final = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_LARGE: Final = {"": 1} | _DECIMAL | _BINARY
_SMALL: Final = {"m": 10**3, "u": 10**6, "n": 10**9}

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?0*[0-9]{1,3}))?"
)
_SHARE: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?")
# Longer texts are no quantities of this world; the limit keeps hostile ones cheap.
_LONGEST: Final = 256
_CACHED: Final = 1 << 13

Written = str | int | float
"""A quantity as it stands in JSON or YAML."""


class QuantityError(ValueError):
    """A text that is no quantity, or no share; the message quotes it."""


def parse(text: Written) -> Fraction:
    """The exact value of a quantity, in its base unit: `parse("1500m") == Fraction(3, 2)`.

    Raises QuantityError.
    """
    return _parse(text if type(text) is str else _as_text(text))


def cpu_milli(text: Written) -> int:
    """A CPU quantity in millicores, rounded up. Raises QuantityError."""
    return _cpu_milli(text if type(text) is str else _as_text(text))


def whole(text: Written) -> int:
    """A quantity in its base unit (bytes, a count), rounded up. Raises QuantityError."""
    return _whole(text if type(text) is str else _as_text(text))


def amount(resource: str, text: Written) -> int:
    """The amount of a resource in our unit: millicores for `cpu`, the base unit for every other one."""
    return cpu_milli(text) if resource == CPU else whole(text)


def amounts(quantities: Mapping[str, Written]) -> dict[str, int]:
    """A resource list in our units. Raises QuantityError that also names the resource."""
    found = {}
    for resource, text in quantities.items():
        try:
            found[resource] = amount(resource, text)
        except QuantityError as err:
            raise QuantityError(f"{resource}: {err}") from None
    return found


def share_milli(text: str) -> int:
    """A share of a device in thousandths: `share_milli("0.29") == 290`, by decimal arithmetic.

    Raises QuantityError unless it is a plain decimal above 0 and below 1 with at most three decimals.
    """
    match = _SHARE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match["whole"] or match["part"]):
        raise _share_error(text, "it is no plain decimal number")
    part = match["part"] or ""
    if len(part) > 3:
        raise _share_error(text, "it has more than three decimals")
    milli = int(match["whole"] or "0") * 1000 + int(part.ljust(3, "0"))
    if milli <= 0:
        raise _share_error(text, "it is not above 0")
    if milli >= 1000:
        raise _share_error(text, "it is not below 1")
    return milli


def share_memory_mib(milli: int, usable_mib: int) -> int:
    """What a share takes of a device's memory, in MiB; rounded down, so that two halves always fit."""
    return milli * usable_mib // 1000


@lru_cache(maxsize=_CACHED)
def _parse(text: str) -> Fraction:
    return Fraction(*_ratio(text))


@lru_cache(maxsize=_CACHED)
def _cpu_milli(text: str) -> int:
    if text[-1:] == "m" and _plain(text[:-1]):
        return min(int(text[:-1]), MAX)
    if _plain(text):
        return min(int(text) * 1000, MAX)
    return _rounded(text, 1000)


@lru_cache(maxsize=_CACHED)
def _whole(text: str) -> int:
    if _plain(text):
        return min(int(text), MAX)
    factor = _BINARY.get(text[-2:])
    if factor is not None and _plain(text[:-2]):
        return min(int(text[:-2]) * factor, MAX)
    return _rounded(text, 1)


def _plain(text: str) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= _LONGEST


def _rounded(text: str, unit: int) -> int:
    numerator, denominator = _ratio(text)
    size = min(-(-abs(numerator) * unit // denominator), MAX)
    return size if numerator >= 0 else -size


def _ratio(text: str) -> tuple[int, int]:
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match["whole"] or match["part"]):
        raise QuantityError(f"{_quoted(text)} is not a Kubernetes quantity")
    part = match["part"] or ""
    numerator, denominator = int(match["whole"] + part), int(10 ** len(part))
    if match["exponent"]:
        power = int(10 ** abs(int(match["exponent"])))
        if "-" in match["exponent"]:
            denominator *= power
        else:
            numerator *= power
    elif match["suffix"] in _SMALL:
        denominator *= _SMALL[match["suffix"]]
    else:
        numerator *= _LARGE[match["suffix"] or ""]
    return (-numerator if match["sign"] == "-" else numerator), denominator


def _as_text(value: Written) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"{value!r} is not a Kubernetes quantity")
    if isinstance(value, int) and value.bit_length() > 2 * _LONGEST:
        raise QuantityError("a number this long is not a Kubernetes quantity")
    # a float is taken as it is printed: 0.1 is one tenth, as its author meant
    return repr(value)


def _share_error(text: str, why: str) -> QuantityError:
    form = 'a decimal above 0 and below 1 with at most three decimals, such as "0.5"'
    return QuantityError(f"{_quoted(text)} is not a share of a device: {why}; write {form}")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 64 else text[:61] + "...")
