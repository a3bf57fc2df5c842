"""How long work of a kind has run, learnt from what has ended. Few cases give a low bound only."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, NamedTuple

REMEMBERED: Final = 64
"""Run times that are kept of a kind: the latest, since programs change."""
KINDS: Final = 4096
ENOUGH: Final = 5
"""So many cases make a high bound: with fewer, one long run is too likely to come next."""


class Span(NamedTuple):
    """A time between two bounds in milliseconds; `high_ms` None is unknown."""

    low_ms: int
    high_ms: int | None


class Runtimes:
    """Run times by kind, of the kinds that were used last."""

    def __init__(self) -> None:
        self._of: OrderedDict[Hashable, deque[int]] = OrderedDict()

    def ended(self, kind: Hashable, runtime_ms: int) -> None:
        """One more case."""
        found = self._of.setdefault(kind, deque(maxlen=REMEMBERED))
        found.append(max(runtime_ms, 0))
        self._of.move_to_end(kind)
        if len(self._of) > KINDS:
            self._of.popitem(last=False)

    def expect(self, kind: Hashable) -> Span | None:
        """From the shortest quarter to the longest case (a tenth left out where there are many); None without cases."""
        found = self._of.get(kind)
        if not found:
            return None
        ordered = sorted(found)
        low_ms = ordered[(len(ordered) - 1) // 4]
        if len(ordered) < ENOUGH:
            return Span(low_ms, None)
        return Span(low_ms, ordered[len(ordered) - 1 - len(ordered) // 10])
