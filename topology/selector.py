"""Label selectors: when requirements hold, exactly as Kubernetes has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64: Final = 1 << 63
_LONGEST_VALUE: Final = 63


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a selector: `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def matches(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether every requirement holds for the labels; without requirements everything matches."""
    # a plain loop: this runs for every node and every pod, and all() costs twice as much
    for requirement in requirements:  # noqa: SIM110
        if not holds(requirement, labels.get(requirement.key)):
            return False
    return True


def holds(requirement: Requirement, value: str | None) -> bool:
    """Whether the requirement holds for the value of its label, None when the label is absent.

    NotIn holds for an absent label; Gt and Lt compare decimal integers and hold for nothing else.
    """
    operator, values = requirement.operator, requirement.values
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or len(values) != 1:
        return False
    have, limit = integer(value), integer(values[0])
    if have is None or limit is None:
        return False
    return (operator == "Gt" and have > limit) or (operator == "Lt" and have < limit)


def well_formed(requirement: Requirement) -> bool:
    """Whether Kubernetes can read the requirement. One that it cannot read makes its whole term match nothing."""
    operator, values = requirement.operator, requirement.values
    if not all(_LABEL_VALUE.fullmatch(value) for value in values):
        return False
    if operator in ("In", "NotIn"):
        return bool(values)
    if operator in ("Exists", "DoesNotExist"):
        return not values
    return operator in ("Gt", "Lt") and len(values) == 1 and integer(values[0]) is not None


def integer(text: str) -> int | None:
    """A decimal integer of 64 bits as Go's ParseInt reads it, or None."""
    if len(text) > _LONGEST_VALUE or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -_INT64 <= value < _INT64 else None
