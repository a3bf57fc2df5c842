"""A step of a gang as an exact problem, and the answer as places: for what the search does not find.

Three things that need not happen at one time. `problem_of` asks, on the state as it is (and `exact.could_fit` says at
little cost whether asking is worth while). `exact.solve` answers and touches no state, so it may run in a thread.
`propose` tries the answer on a ground, maybe a later one: what has changed since can only make it fail.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from scheduler.exact import Problem, Solution, Together, Wanted
from scheduler.gang_parts import Bucket, Part
from scheduler.gang_search import EVERYWHERE
from scheduler.ground import Ground, Slots
from scheduler.landscape import OUTSIDE, Landscape, Near
from scheduler.request import Demand


def problem_of(part: Part, ground: Ground, landscape: Landscape, slots: Slots) -> Problem | None:
    """Whether the parts have room on the slots, as a question: kinds are the buckets in order, nodes the slots.

    None where a problem cannot say what is asked: shares of devices, pods that each have to be looked at for
    themselves, domains that a group has for itself.
    """
    buckets = list(part.all_buckets())
    if any(one.alone or one.request.demand is Demand.SHARE for one in buckets):
        return None
    if any(one.exclusive for one in _parts(part)):
        return None
    allowed = [ground.allowed(bucket)[slots] for bucket in buckets]
    together = []
    for kinds, near, pinned in _required(part):
        ids = _ids(landscape, near, slots)
        together.append(Together(kinds, ids))
        if pinned:
            there = ids == _ids(landscape, near, np.array(pinned[:1]))[0]
            for kind in kinds:
                allowed[kind] = allowed[kind] & there
    state = ground.cluster.state
    for bucket in buckets:
        state.vector(bucket.request)  # first of all: it may make the arrays and all vectors wider
    wanted = tuple(
        Wanted(state.vector(bucket.request), len(bucket.records), mask)
        for bucket, mask in zip(buckets, allowed, strict=True)
    )
    return Problem(_free(ground, slots), wanted, tuple(together))


def wishes_of(part: Part, landscape: Landscape, slots: Slots) -> tuple[Together, ...]:
    """What the parts prefer, for `few` of `exact.solve`: few domains of the preferred levels."""
    return tuple(
        Together(kinds, landscape.layer(one.near.topology, one.near.preferred).ids[slots])
        for one, kinds in _numbered(part)
        if one.near is not None and one.near.preferred is not None and kinds
    )


def propose(
    part: Part, ground: Ground, landscape: Landscape, slots: Slots, solution: Solution
) -> dict[str, int] | None:
    """Tries an answer to the problem of the same parts and slots on the ground.

    Returns what `Search.chosen` would say; None, with nothing tried any more, where there is no answer or the ground or
    the network does not agree with it (any more).
    """
    buckets = list(part.all_buckets())
    counts = solution.counts
    if counts is None or counts.shape != (len(buckets), len(slots)):
        return None
    mark = ground.mark()
    if all(_placed(ground, bucket, slots, row) for bucket, row in zip(buckets, counts, strict=True)):
        taken = [slots[row > 0] for row in counts]
        if not _scattered(part, landscape, taken):
            return _levels(part, landscape, taken)
    ground.undo(mark)
    return None


def _placed(ground: Ground, bucket: Bucket, slots: Slots, row: NDArray[np.int64]) -> bool:
    """Whether the bucket went where the answer says: `row` is int64[slots], pods on each."""
    done = 0
    for index in np.flatnonzero(row):
        records = bucket.records[done : done + int(row[index])]
        if len(records) < row[index] or ground.fill(bucket, records, slots[index : index + 1]) < len(records):
            return False
        done += len(records)
    return done == len(bucket.records)


def _scattered(part: Part, landscape: Landscape, taken: list[Slots]) -> bool:
    for kinds, near, pinned in _required(part):
        there = np.concatenate([np.array(pinned[:1], np.int64), *(taken[kind] for kind in kinds)])
        ids = np.unique(_ids(landscape, near, there))
        if ids.size > 1 or OUTSIDE in ids:
            return True
    return False


def _levels(part: Part, landscape: Landscape, taken: list[Slots]) -> dict[str, int]:
    """Part → the level of the one domain that holds it, as deep as is asked for, of parts that ask for nearness."""
    found = {}
    for one, kinds in _numbered(part):
        if one.near is None:
            continue
        there = np.concatenate([np.zeros(0, np.int64), *(taken[kind] for kind in kinds)])
        found[one.name] = _level(one.near, landscape, there)
    return found


def _level(near: Near, landscape: Landscape, there: Slots) -> int:
    lowest = near.preferred if near.preferred is not None else near.required
    highest = near.required if near.required is not None else EVERYWHERE
    if lowest is None:
        return EVERYWHERE
    for level in range(lowest, highest, -1):
        if np.unique(landscape.layer(near.topology, level).ids[there]).size <= 1:
            return level
    return highest


def _free(ground: Ground, slots: Slots) -> NDArray[np.int64]:
    """int64[slots, R]: what is free; of modelled devices only those that may still be taken whole."""
    arrays = ground.cluster.state.arrays
    free = arrays.free[slots]
    column = arrays.device_column[slots]
    rows = np.flatnonzero((arrays.device_count[slots] > 0) & (column >= 0))
    free[rows, column[rows]] = np.minimum(free[rows, column[rows]], arrays.openable[slots[rows]])
    return free


def _required(part: Part) -> Iterator[tuple[tuple[int, ...], Near, list[int]]]:
    """Kinds that have to be in one domain, which level that is, and the slots where others of them are already."""
    for one, kinds in _numbered(part):
        if one.near is not None and one.near.required is not None and kinds:
            yield kinds, one.near, one.pinned


def _numbered(part: Part, first: int = 0) -> Iterator[tuple[Part, tuple[int, ...]]]:
    """Parts of the tree with the places of their buckets in its `all_buckets`."""
    yield part, tuple(range(first, first + len(list(part.all_buckets()))))
    first += len(part.buckets)
    for child in part.children:
        yield from _numbered(child, first)
        first += len(list(child.all_buckets()))


def _parts(part: Part) -> Iterator[Part]:
    return (one for one, _ in _numbered(part))


def _ids(landscape: Landscape, near: Near, slots: Slots) -> NDArray[np.int64]:
    """int64[slots]: the domains of the required level."""
    assert near.required is not None
    return landscape.layer(near.topology, near.required).ids[slots]
