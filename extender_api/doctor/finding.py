"""What the doctor says: one finding for each thing it looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is. `WARN` works, but not as it should; `ERROR` does not work or is not safe."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """`title` is what was looked at, `found` what is there, `mend` what to do; `mend` is empty when all is well."""

    level: Level
    title: str
    found: str
    mend: str = ""


def ok(title: str, found: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, title, found)


def warn(title: str, found: str, mend: str) -> Finding:
    """Works, but not as it should."""
    return Finding(Level.WARN, title, found, mend)


def error(title: str, found: str, mend: str) -> Finding:
    """Does not work, or is not safe."""
    return Finding(Level.ERROR, title, found, mend)


def worst(findings: Iterable[Finding]) -> Level:
    """The worst level among the findings; OK where there are none."""
    ranked = tuple(Level)
    return max((finding.level for finding in findings), key=ranked.index, default=Level.OK)
