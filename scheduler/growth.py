"""Where room has appeared lately, so that what did not fit is tried again only where that can help."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

REMEMBERED: Final = 1024


class Growth:
    """A numbered list of places where something grew or became free. `now` is the number of the last."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        """`remembered` is how many places are kept."""
        self.now = 0
        self._slots: deque[int | None] = deque(maxlen=remembered)

    def at(self, slot: int) -> None:
        """On one node there may be room now for something that did not fit there."""
        self._note(slot)

    def anywhere(self) -> None:
        """A rule changed: any node may take what it did not take before."""
        self._note(None)

    def since(self, mark: int) -> frozenset[int] | None:
        """The slots since `now` was `mark`; None when it may be any slot."""
        count = self.now - mark
        if count > len(self._slots):
            return None
        slots = set(islice(reversed(self._slots), count))
        return None if None in slots else frozenset(slot for slot in slots if slot is not None)

    def _note(self, slot: int | None) -> None:
        self.now += 1
        self._slots.append(slot)
