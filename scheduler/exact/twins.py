"""Equal groups of pods are one group several times over: sixteen replicas are no sixteen questions.

A search would otherwise try every order of what nobody can tell apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scheduler.exact.problem import Problem, Together, Wanted


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """A problem with equal groups merged, and the way back."""

    problem: Problem
    few: tuple[Together, ...]
    members: tuple[tuple[int, ...], ...]
    """The kinds of pods of the first problem that each kind stands for."""
    orders: tuple[NDArray[np.int64] | None, ...]
    """[N] for each kind: the domains that its members are kept together in, None where they are not."""

    def split(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """A placement (int64[kinds, N]) as one of the first problem.

        Each domain holds whole groups, so handing out pods domain by domain never tears one.
        """
        parts = np.zeros((sum(map(len, self.members)), counts.shape[1]), np.int64)
        for kind, (members, order) in enumerate(zip(self.members, self.orders, strict=True)):
            each = self.problem.wanted[kind].count // len(members)
            nodes = np.flatnonzero(counts[kind])
            if order is not None:
                nodes = nodes[np.argsort(order[nodes], kind="stable")]
            pods = np.repeat(nodes, counts[kind, nodes])
            for place, member in enumerate(members):
                np.add.at(parts[member], pods[place * each : (place + 1) * each], 1)
        return parts


def merge(problem: Problem, few: tuple[Together, ...] = ()) -> Merged:
    """Merges groups of pods that differ in nothing, then kinds of pods that differ in nothing. Loses no placement."""
    groups = (*problem.together, *few)
    inside: list[set[int]] = [set() for _ in problem.wanted]
    for i, group in enumerate(groups):
        for kind in group.wanted:
            inside[kind].add(i)
    looks = [(each.amounts.tobytes(), each.count, each.allowed.tobytes()) for each in problem.wanted]

    def look(kind: int, without: int = -1) -> tuple[bytes, int, bytes, tuple[int, ...]]:
        return (*looks[kind], tuple(sorted(inside[kind] - {without})))

    members: list[tuple[int, ...]] = []
    orders: list[NDArray[np.int64] | None] = []
    times: dict[int, int] = {}
    done: set[int] = set()
    alike = defaultdict(list)
    for i, group in enumerate(problem.together):
        kinds = [kind for _, kind in sorted((look(kind, i), kind) for kind in set(group.wanted))]
        alike[group.domains.tobytes(), group.times, tuple(look(kind, i) for kind in kinds)].append((i, kinds))
    for twins in alike.values():
        taken = {kind for _, kinds in twins for kind in kinds}
        if len(twins) == 1 or taken & done:
            continue
        done |= taken
        members += zip(*(kinds for _, kinds in twins), strict=True)
        orders += [groups[twins[0][0]].domains] * len(twins[0][1])
        times |= {i: 0 for i, _ in twins} | {twins[0][0]: len(twins)}
    same = defaultdict(list)
    for kind in range(len(problem.wanted)):
        if kind not in done:
            same[look(kind)].append(kind)
    members += map(tuple, same.values())
    orders += [None] * len(same)
    return _merged(problem, few, members, orders, times)


def _merged(
    problem: Problem,
    few: tuple[Together, ...],
    members: Sequence[tuple[int, ...]],
    orders: Sequence[NDArray[np.int64] | None],
    times: dict[int, int],
) -> Merged:
    """`times` says of a group how many it stands for, 0 where another stands for it."""
    kind_of = {member: kind for kind, each in enumerate(members) for member in each}

    def renamed(groups: Iterable[Together]) -> tuple[Together, ...]:
        return tuple(replace(group, wanted=tuple(sorted({kind_of[kind] for kind in group.wanted}))) for group in groups)

    def all_of(each: tuple[int, ...]) -> Wanted:
        return replace(problem.wanted[each[0]], count=sum(problem.wanted[member].count for member in each))

    together = [
        replace(group, times=group.times * times.get(i, 1))
        for i, group in enumerate(problem.together)
        if times.get(i, 1)
    ]
    return Merged(
        Problem(problem.free, tuple(map(all_of, members)), renamed(together)),
        renamed(few),
        tuple(members),
        tuple(orders),
    )
