"""Which slots changed lately, so that what is known of all nodes is brought up to date at a few."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

REMEMBERED: Final = 4096


class ChangeLog:
    """A numbered list of slots, the last of them remembered. `now` is how many changes there were."""

    __slots__ = ("_size", "_slots", "now")

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self.now = 0
        self._size: Final = remembered
        self._slots = np.zeros(remembered, np.int64)

    def note(self, slot: int) -> None:
        """Something on the slot is not as it was."""
        self._slots[self.now % self._size] = slot
        self.now += 1

    def since(self, mark: int) -> NDArray[np.int64] | None:
        """int64[n]: the slots noted since `now` was `mark`, some more than once; None when that is not known."""
        if self.now - mark > self._size:
            return None
        begin, end = mark % self._size, self.now % self._size
        if begin <= end and self.now - mark < self._size:
            return self._slots[begin:end]
        return np.concatenate((self._slots[begin:], self._slots[:end]))
