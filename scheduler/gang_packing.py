"""A group whose pods should take few domains of a level: which domain is next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.landscape import Near, Path

TAKEN: Final = 0
WHOLE: Final = 1
PART: Final = 2
"""Domains in the order in which they are taken: those that have pods of the group already, those that hold all that are
left (the tightest first), the others (the roomiest first).
"""


@dataclass(slots=True)
class Packing:
    """The wish, the number of pods still to come, and the domains of its preferred level that are taken already."""

    near: Near
    left: int
    taken: tuple[int, ...]

    def first(self, copies: NDArray[Any], tried: set[int], paths: list[Path]) -> int | None:
        """The domain that takes pods next, None when none has room. `copies` is [domains], pods that fit."""
        rooms = {int(number): int(copies[number]) for number in np.flatnonzero(copies) if int(number) not in tried}
        return next(iter(self.in_order(rooms, paths)), None)

    def in_order(self, rooms: Mapping[int, int], paths: list[Path]) -> list[int]:
        """Domains (number → pods that fit) as they are to be taken. Of equals the last by name, as in KAI's order."""
        by_name: Iterable[int] = sorted(rooms, key=paths.__getitem__, reverse=True)
        return sorted(by_name, key=lambda number: self._key(number, rooms[number]))

    def _key(self, number: int, room: int) -> tuple[int, int]:
        if number in self.taken:
            return TAKEN, self.taken.index(number)
        return (WHOLE, room) if room >= self.left else (PART, -room)
