"""Small gangs on small trees, and the slow and obvious way to place them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from scheduler.exact import Problem, Together, Wanted

NODES, PODS = 6, 6


def wanted(amounts: list[int], count: int, allowed: list[bool]) -> Wanted:
    """Identical pods."""
    return Wanted(np.array(amounts, np.int64), count, np.array(allowed, np.bool_))


def together(kinds: tuple[int, ...], domains: list[int]) -> Together:
    """Pods in one domain."""
    return Together(kinds, np.array(domains, np.int64))


@st.composite
def trees(draw: st.DrawFn, nodes: int) -> list[list[int]]:
    """Two levels above the nodes: the domain of each node in either, the narrow ones inside the broad ones."""
    racks = draw(st.lists(st.integers(-1, 3), min_size=nodes, max_size=nodes))
    block_of = draw(st.lists(st.integers(0, 1), min_size=4, max_size=4))
    return [[-1 if rack < 0 else block_of[rack] for rack in racks], racks]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """A few kinds of pods, some of which have to be in one domain, and some of those in a domain inside it."""
    nodes, resources = draw(st.integers(1, NODES)), draw(st.integers(1, 2))
    scale = draw(st.sampled_from([1, 1, 1 << 40]))
    row = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 4]), min_size=resources, max_size=resources)
    alike = draw(st.booleans())
    free = [draw(row)] * nodes if alike else draw(st.lists(row, min_size=nodes, max_size=nodes))
    kinds, left = [], PODS
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, left))
        left -= count
        amounts = draw(st.lists(st.integers(0, 3), min_size=resources, max_size=resources))
        usable = draw(st.one_of(st.just([True] * nodes), st.lists(st.booleans(), min_size=nodes, max_size=nodes)))
        kinds.append(wanted([amount * scale for amount in amounts], count, usable))
    levels = draw(trees(nodes))
    if draw(st.integers(0, 3)) == 0:
        return _replicas(draw, np.array(free, np.int64) * scale, kinds[:2], levels)
    indices = st.lists(st.integers(0, len(kinds) - 1), min_size=1, unique=True)
    outer = draw(indices)
    groups = []
    if draw(st.booleans()):
        groups.append(together(tuple(outer), levels[0]))
    for _ in range(draw(st.integers(0, 2))):
        inner = draw(st.lists(st.sampled_from(outer), min_size=1, unique=True))
        groups.append(together(tuple(inner), levels[draw(st.integers(0, 1))]))
    return Problem(np.array(free, np.int64) * scale, tuple(kinds), tuple(groups))


def _replicas(draw: st.DrawFn, free: NDArray[np.int64], kinds: list[Wanted], levels: list[list[int]]) -> Problem:
    """Equal groups of pods, each in a narrow domain, maybe all in a broad one."""
    pods = max(sum(each.count for each in kinds), 1)
    times = draw(st.integers(1, max(PODS // pods, 1)))
    all_kinds = kinds * times
    size = len(kinds)
    groups = [together(tuple(range(size * i, size * i + size)), levels[1]) for i in range(times)]
    if draw(st.booleans()):
        groups.append(together(tuple(range(len(all_kinds))), levels[0]))
    return Problem(free, tuple(all_kinds), tuple(groups))


def placements(problem: Problem) -> Iterator[NDArray[np.int64]]:
    """Every way (int64[W, N]) to place all pods, pod by pod and node by node."""
    pods = [kind for kind, each in enumerate(problem.wanted) for _ in range(each.count)]
    yield from _continued(
        problem, pods, 0, 0, problem.free.tolist(), np.zeros((len(problem.wanted), len(problem.free)), np.int64)
    )


def _continued(
    problem: Problem, pods: list[int], done: int, first: int, free: list[list[int]], counts: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    if done == len(pods):
        yield counts.copy()
        return
    kind = pods[done]
    amounts = problem.wanted[kind].amounts.tolist()
    for node in range(first if done and pods[done - 1] == kind else 0, len(free)):
        left = [have - need for have, need in zip(free[node], amounts, strict=True)]
        if not problem.wanted[kind].allowed[node] or any(n and rest < 0 for n, rest in zip(amounts, left, strict=True)):
            continue
        before, free[node] = free[node], left
        counts[kind, node] += 1
        if not any(kind in group.wanted and _scattered(group, counts) for group in problem.together):
            yield from _continued(problem, pods, done + 1, node, free, counts)
        counts[kind, node] -= 1
        free[node] = before


def _scattered(group: Together, counts: NDArray[np.int64]) -> bool:
    used = {int(domain) for domain in group.domains[counts[list(group.wanted)].any(axis=0)]}
    return -1 in used or len(used) > 1


def fault(problem: Problem, counts: NDArray[np.int64]) -> str | None:
    """What is wrong with a placement (int64[W, N]), None when nothing is."""
    if counts.shape != (len(problem.wanted), len(problem.free)) or (counts < 0).any():
        return "no placement at all"
    for kind, each in enumerate(problem.wanted):
        if counts[kind].sum() != each.count:
            return f"not all pods of kind {kind}"
        if counts[kind, ~each.allowed].any():
            return f"kind {kind} where it may not be"
    taken = sum(np.outer(counts[kind], each.amounts) for kind, each in enumerate(problem.wanted))
    if ((taken > problem.free) & (taken > 0)).any():
        return "too much on a node"
    return next(("scattered" for group in problem.together if _scattered(group, counts)), None)


def domains_used(wish: Together, counts: NDArray[np.int64]) -> int:
    """The cost of a placement by a wish: domains with pods, and pods in no domain."""
    pods = counts[list(wish.wanted)].sum(axis=0)
    inside = wish.domains >= 0
    return len(set(wish.domains[inside & (pods > 0)].tolist())) + int(pods[~inside].sum())
