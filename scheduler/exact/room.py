"""Bounds that cost little: where pods of each kind could be at all, each kind and each domain looked at by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.exact.problem import Problem, Together
from scheduler.exact.twins import merge

MOST_PASSES: Final = 4
_SUM_BITS: Final = 62


def could_fit(problem: Problem) -> bool:
    """Whether no simple bound forbids it. False is certain, True is not."""
    problem = merge(problem).problem
    return enough(problem, narrowed(problem))


def enough(problem: Problem, room: NDArray[np.int64]) -> bool:
    """Whether there is room (int64[W, N]) for all pods of each kind, each by itself."""
    return all(int(room[i].sum()) >= wanted.count for i, wanted in enumerate(problem.wanted))


def narrowed(problem: Problem) -> NDArray[np.int64]:
    """int64[W, N]: how many pods of each kind fit on each node if alone there, at most as many as are wanted.

    0 also in domains that are too small for everything that has to be there.
    """
    room = copies(problem)
    groups = [_Group(problem, together) for together in _groups(problem)]
    for _ in range(MOST_PASSES):
        before = int(room.sum())
        for group in groups:
            room[group.wanted] *= group.useful(room)
        if int(room.sum()) == before:
            break
    return room


def copies(problem: Problem) -> NDArray[np.int64]:
    """int64[W, N]: how many pods of each kind fit on each node if alone there, at most as many as are wanted."""
    room = np.zeros((len(problem.wanted), len(problem.free)), np.int64)
    for i, wanted in enumerate(problem.wanted):
        most = np.full(len(problem.free), wanted.count, np.int64)
        asked = np.flatnonzero(wanted.amounts > 0)
        if asked.size:
            most = np.minimum(most, (problem.free[:, asked] // wanted.amounts[asked]).min(axis=1))
        room[i] = np.where(wanted.allowed, np.maximum(most, 0), 0)
    return room


def _groups(problem: Problem) -> Iterator[Together]:
    yield from problem.together
    yield Together(tuple(range(len(problem.wanted))), np.zeros(len(problem.free), np.int64))


class _Group:
    """Pods that belong into one domain: what they need, and what nodes have, in units whose sums fit 64 bits."""

    def __init__(self, problem: Problem, together: Together) -> None:
        self.wanted = np.asarray(together.wanted, np.intp)
        self._counts = np.array([problem.wanted[i].count // together.times for i in together.wanted], np.int64)
        self._inside = together.domains >= 0
        names, self._place = np.unique(together.domains, return_inverse=True)
        self._domains = len(names)
        free = np.maximum(problem.free, 0)
        unit = 1 + len(free) * (free.max(axis=0, initial=0) >> 20) // (1 << (_SUM_BITS - 20))
        self._free = -(-free // unit)
        need = [
            sum(
                count * int(problem.wanted[i].amounts[r])
                for i, count in zip(together.wanted, self._counts.tolist(), strict=True)
            )
            for r in range(free.shape[1])
        ]
        self._need = np.array([min(n // int(u), 1 << _SUM_BITS) for n, u in zip(need, unit, strict=True)], np.int64)

    def useful(self, room: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool[N]: the nodes in domains that have enough of everything, given the room (int64[W, N])."""
        mine = room[self.wanted] * self._inside
        good: NDArray[np.bool_] = np.all(self._per_domain(mine.T) >= self._counts, axis=1)
        takes = np.any(mine, axis=0)[:, np.newaxis]
        good &= np.all(self._per_domain(self._free * takes) >= self._need, axis=1)
        found: NDArray[np.bool_] = good[self._place] & self._inside
        return found

    def _per_domain(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        sums = np.zeros((self._domains, values.shape[1]), np.int64)
        np.add.at(sums, self._place, values)
        return sums
