"""Who goes next. For now one implicit queue: priority, then age."""

from __future__ import annotations

from typing import NamedTuple


class Rank(NamedTuple):
    """The place of a workload among those that wait; the smallest goes first. A total order (uid is unique).

    `released` work comes first: its gate cannot be put back, so it keeps its place at the head.
    """

    not_released: bool
    minus_priority: int
    created_ms: int
    uid: str


def rank(*, uid: str, priority: int, created_ms: int, released: bool) -> Rank:
    """The rank of one workload."""
    return Rank(not released, -priority, created_ms, uid)
