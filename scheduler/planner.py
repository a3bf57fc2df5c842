"""A planning round: takes the waiting pods in order and places each whole or not at all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from scheduler.allocation import Allocation
from scheduler.cluster import Cluster
from scheduler.record import PodRecord


@dataclass(slots=True)
class Round:
    """What a round did. `placed` is booked; `unplaced` was tried and fits nowhere; `more` says that it stopped at its
    limit and something is left to try."""

    placed: list[tuple[PodRecord, Allocation]] = field(default_factory=list)
    unplaced: list[PodRecord] = field(default_factory=list)
    more: bool = False


def in_order(waiting: Iterable[PodRecord]) -> list[PodRecord]:
    """The order in which waiting pods are tried: total and stable."""
    return sorted(waiting, key=lambda record: record.rank)


def ready(waiting: Iterable[PodRecord], growth: int, now_ms: int) -> Iterator[PodRecord]:
    """Those worth a try: not backing off, and not tried since something last grew.

    Pods with required affinity may start to fit when others are placed, so they are always worth it; so is a pod
    whose list of offered nodes is no longer believed.
    """
    for record in waiting:
        if record.not_before_ms > now_ms:
            continue
        fact_expired = record.offered is not None and record.offered.expires_ms <= now_ms
        if record.tried_epoch != growth or fact_expired or record.facts.pod_affinity:
            yield record


def run(cluster: Cluster, waiting: Iterable[PodRecord], *, now_ms: int, deadline_ms: int, limit: int) -> Round:
    """One round over `waiting` (in order). Books at most `limit` placements, each with the deadline.

    Within a round room only shrinks, so a shape that failed once is not tried again: ten thousand waiting copies of
    one pod cost one search.
    """
    result = Round()
    failed: set[Hashable] = set()
    growth = cluster.growth
    for record in ready(waiting, growth, now_ms):
        if len(result.placed) >= limit:
            result.more = True
            break
        form = shape(cluster, record, now_ms)
        allocation = None if form in failed else _place(cluster, record, now_ms, deadline_ms)
        if allocation is None:
            if form is not None:
                failed.add(form)
            record.tried_epoch = growth
            result.unplaced.append(record)
        else:
            result.placed.append((record, allocation))
    return result


def shape(cluster: Cluster, record: PodRecord, now_ms: int) -> Hashable | None:
    """What makes two pods interchangeable for the search, or None for a pod that is like no other."""
    if record.allowed_nodes(now_ms) is not None or cluster.neighbours.matters(record.facts):
        return None
    return (record.request, record.constraints)


def _place(cluster: Cluster, record: PodRecord, now_ms: int, deadline_ms: int) -> Allocation | None:
    if record.request is None:
        return None
    allocation = cluster.place(record.facts, record.request, record.constraints, record.allowed_nodes(now_ms))
    if allocation is not None:
        cluster.book(record.facts, record.request, allocation, deadline_ms)
    return allocation
