"""What is asked: pods that have to find room together, and the answer. N is nodes, R resources, W kinds of pods."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Outcome(StrEnum):
    """What came of a search."""

    FOUND = "FOUND"
    IMPOSSIBLE = "IMPOSSIBLE"
    GAVE_UP = "GAVE_UP"
    """The model would be too large, or the limit was reached before an answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Identical pods."""

    amounts: NDArray[np.int64]
    """[R]: what one pod takes of each resource. A node may have less than nothing of what is not asked for."""
    count: int
    allowed: NDArray[np.bool_]
    """[N]"""


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """All pods of these `wanted` (indices) belong into one domain."""

    wanted: tuple[int, ...]
    domains: NDArray[np.int64]
    """[N]: the domain of each node; -1: in none."""
    times: int = 1
    """So many equal groups, each in one domain: every count is a multiple of it. Several may share a domain."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Amounts are integers below 2^56 each, in any units. A node in no domain of a `together` is of no use to it."""

    free: NDArray[np.int64]
    """[N, R]"""
    wanted: tuple[Wanted, ...]
    together: tuple[Together, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The answer to a problem."""

    outcome: Outcome
    counts: NDArray[np.int64] | None = None
    """[W, N], with FOUND: how many pods of each kind each node gets."""
    proven: bool = False
    """FOUND: nothing is better by the wishes."""
