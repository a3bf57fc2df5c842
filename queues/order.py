"""Who goes next: between queues by what they hold beside their share, inside a queue by priority and age."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final, NamedTuple

from queues.amounts import NOTHING, UNITS, UNLIMITED, Amounts
from queues.books import Books, Standing
from queues.spec import Terms
from queues.tree import Queue

NO_CLAIM: Final = 1000
"""How much worse it is to hold a unit of what one has no claim on than to hold all that one may."""
PARTS: Final = 128
"""Shares are counted in 2^128 parts of the whole. Two fractions over less than 2^64 differ by more than one part, so
that comparing the parts is comparing the fractions.
"""


class Rank(NamedTuple):
    """The place of a workload among those that wait in its queue; the smallest goes first. Total: uids are unique.

    `released` work comes first: its gate cannot be put back, so it keeps its place at the head.
    """

    not_released: bool
    minus_priority: int
    created_ms: int
    uid: str


def rank(*, uid: str, priority: int, created_ms: int, released: bool) -> Rank:
    """The rank of one workload."""
    return Rank(not released, -priority, created_ms, uid)


class QueueKey(NamedTuple):
    """The place of a queue among its siblings; the smallest goes first (KAI's eight rules, in their order)."""

    over_share: bool
    beyond_quota: bool
    minus_priority: int
    uses_none: bool
    share_with: int
    share: int
    allocatable: tuple[int, ...]
    age: tuple[int, str, str]


def queue_key(queue: Queue, standing: Standing, ask: Amounts | None, total: Amounts) -> QueueKey:
    """The place of a queue whose next workload asks for `ask` (None: for nothing), in a cluster that has `total`.

    A queue is over its share when it is in all resources, within its quota when it is in all with the next workload.
    Where KAI finds that of two allocatables neither is the smaller, and asks for age, they are compared by resource:
    its rule has circles.
    """
    spec = queue.spec
    over_share, beyond_quota, uses_none = True, False, False
    share = share_with = 0
    usable = []
    columns = zip(spec.terms, standing.allocated, standing.fair_share, total, ask or NOTHING, UNITS, strict=True)
    for terms, now, fair, there, more, unit in columns:
        most = _allocatable(terms, fair, there)
        usable.append(most)
        if now <= fair:
            over_share = False
        after = now + more
        if not after:
            continue
        if terms.quota != UNLIMITED and after > terms.quota:
            beyond_quota = True
        if not most:
            uses_none = True
        share_with = max(share_with, _part(after, most, unit))
        if now:
            share = max(share, _part(now, most, unit))
    age = spec.age_order
    return QueueKey(over_share, beyond_quota, -spec.priority, uses_none, share_with, share, tuple(usable), age)


def _allocatable(terms: Terms, fair_share: int, total: int) -> int:
    """What a queue may come to hold (KAI's definition); where nothing bounds it, what there is."""
    if terms.quota == UNLIMITED:
        return total if terms.limit == UNLIMITED else terms.limit
    most = max(terms.quota, fair_share)
    return most if terms.limit == UNLIMITED else min(most, terms.limit)


def _part(held: int, usable: int, unit: int) -> int:
    return (held << PARTS) // usable if usable else (held * NO_CLAIM << PARTS) // unit


class Turns:
    """Whose turn it is among all leaves, by walking from the top to the sibling that goes first.

    A leaf takes part while it has a head: what its next workload asks for. An inner queue stands for the leaf below it
    that goes first. Each step costs the depth of the tree times the logarithm of its width.
    """

    def __init__(self, books: Books, total: Amounts, heads: Mapping[str, Amounts] | None = None) -> None:
        """`total` is what the top queues divide; `heads` are the first of `set_head`, all at once."""
        self._books = books
        self._total = total
        self._heads: dict[str, Amounts] = dict(heads or {})
        self._keys: dict[str, QueueKey] = {}
        self._heaps: dict[str | None, list[tuple[QueueKey, str]]] = {}
        above = {name for leaf in self._heads for name in books.tree.queues[leaf].path}
        for name in reversed(list(books.tree.queues)):  # children before parents
            if name in above:
                self._place(name)

    def set_head(self, leaf: str, ask: Amounts | None) -> None:
        """What the next workload of the leaf asks for; None: it has none to try."""
        if ask is None:
            self._heads.pop(leaf, None)
        else:
            self._heads[leaf] = ask
        self.refresh(leaf)

    def refresh(self, leaf: str) -> None:
        """The books of the leaf and of those above it have changed."""
        for name in self._books.tree.queues[leaf].path:
            self._place(name)

    def _place(self, name: str) -> None:
        """Puts a queue where it belongs among its siblings; those below it stand where they belong."""
        queue = self._books.tree.queues[name]
        first = name if queue.is_leaf else self._first(name)
        ask = None if first is None else self._ask(first)
        if ask is None:
            self._keys.pop(name, None)
            return
        key = queue_key(queue, self._books[name], ask, self._total)
        if self._keys.get(name) != key:
            self._keys[name] = key
            heapq.heappush(self._heaps.setdefault(queue.spec.parent, []), (key, name))

    def next(self) -> str | None:
        """The leaf whose turn it is, None when no leaf has a head."""
        name = self._first(None)
        while name is not None and not self._books.tree.queues[name].is_leaf:
            name = self._first(name)
        return name

    def _ask(self, name: str) -> Amounts | None:
        """What the leaf below a queue (or itself) that goes first asks for."""
        step: str | None = name
        while step is not None and not self._books.tree.queues[step].is_leaf:
            step = self._first(step)
        return None if step is None else self._heads.get(step)

    def _first(self, parent: str | None) -> str | None:
        """The child that goes first, None when none has a head below it."""
        heap = self._heaps.get(parent, [])
        while heap:
            key, name = heap[0]
            if self._keys.get(name) == key:
                return name
            heapq.heappop(heap)
        return None
