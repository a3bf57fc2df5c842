"""A planning round: takes the waiting pods in order and places each whole or not at all."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler import placement
from scheduler.allocation import Allocation
from scheduler.cluster import Cluster
from scheduler.line import Alike, Form, Line, form_of
from scheduler.record import PodRecord

logger = logging.getLogger(__name__)

VAIN_SEARCHES: Final = 32
"""A round ends after so many searches that found nothing, so that webhooks are answered in between."""

ODD_LONGEST_MS: Final = 1000
"""A pod that is like no other needs searches of its own. After a few in vain it is searched for ever more rarely, at
least this often, so that many such pods do not use up every round."""


@dataclass(slots=True)
class Round:
    """What a round did. `placed` is booked; `more` says that it stopped at a limit and something is left to try.

    `failed` are pods over which the search itself broke; they must not stop the others. At `again_ms` a pod that is
    like no other may be searched for again.
    """

    placed: list[tuple[PodRecord, Allocation]] = field(default_factory=list)
    failed: list[PodRecord] = field(default_factory=list)
    more: bool = False
    again_ms: int | None = None


def in_order(waiting: Iterable[PodRecord]) -> list[PodRecord]:
    """The order in which waiting pods are tried: total and stable."""
    return sorted(waiting, key=lambda record: record.rank)


def run(cluster: Cluster, line: Line, *, now_ms: int, hold_ms: Callable[[int], int], limit: int) -> Round:
    """One round. Books at most `limit` placements, each for `hold_ms(expiries)`; `line` stays as it is.

    Within a round room only shrinks, so pods like one that found none are passed over: ten thousand waiting copies of
    one pod cost one search. They stay passed over until something grows where one of them could go.
    """
    result = Round()
    vain = 0
    for record, group in _worth_a_try(cluster, line, now_ms):
        if len(result.placed) >= limit or vain >= VAIN_SEARCHES:
            result.more = True
            break
        try:
            allocation = _place(cluster, record, now_ms, now_ms + hold_ms(record.expiries))
        except Exception:
            logger.exception("planning of %s failed", record.facts.key)
            result.failed.append(record)
            continue
        if allocation is not None:
            result.placed.append((record, allocation))
            continue
        vain += 1
        if form(cluster, record, now_ms) is None:
            record.tried_epoch = _epoch(cluster, record)
            record.vain += 1
            record.search_again_ms = result.again_ms = now_ms + odd_wait_ms(record.vain)
        else:
            group.hopeless_at = cluster.growth.now
    return result


def hopeless(cluster: Cluster, line: Line, record: PodRecord, now_ms: int) -> bool:
    """Whether a pod of the line has been looked at and fits nowhere as things are."""
    if line.alike(record).hopeless_at == cluster.growth.now:
        return True
    return form(cluster, record, now_ms) is None and record.tried_epoch == _epoch(cluster, record)


def form(cluster: Cluster, record: PodRecord, now_ms: int) -> Form | None:
    """What makes two pods interchangeable for the search, or None for a pod that is like no other.

    A pod that is like no other may go to fewer nodes than others that ask for the same.
    """
    if record.allowed_nodes(now_ms) is not None or cluster.neighbours.matters(record.facts):
        return None
    return form_of(record)


def _worth_a_try(cluster: Cluster, line: Line, now_ms: int) -> Iterator[tuple[PodRecord, Alike]]:
    """Waiting pods in order, without those of which it is known that they fit nowhere."""
    heads = [(group.pods[0].rank, 0, group) for group in line.groups if not _still_hopeless(cluster, group)]
    heapq.heapify(heads)
    while heads:
        _, place, group = heads[0]
        if group.hopeless_at is not None:  # found out in this round
            heapq.heappop(heads)
            continue
        if place + 1 < len(group.pods):
            heapq.heapreplace(heads, (group.pods[place + 1].rank, place + 1, group))
        else:
            heapq.heappop(heads)
        record = group.pods[place]
        if record.not_before_ms > now_ms:
            continue
        if form(cluster, record, now_ms) is not None or _odd_one_is_due(cluster, record, now_ms):
            yield record, group


def odd_wait_ms(vain: int) -> int:
    """The wait after so many vain searches: none after the first."""
    return 0 if vain < 2 else min(25 << min(vain, 10), ODD_LONGEST_MS)


def _odd_one_is_due(cluster: Cluster, record: PodRecord, now_ms: int) -> bool:
    return record.tried_epoch != _epoch(cluster, record) and record.search_again_ms <= now_ms


def _still_hopeless(cluster: Cluster, group: Alike) -> bool:
    """Brings `hopeless_at` up to date: looks only at nodes where something grew since."""
    if group.hopeless_at is None:
        return False
    grown = cluster.growth.since(group.hopeless_at)
    first = group.pods[0]
    if grown is None or (first.request is not None and cluster.opens(first.request, first.constraints, grown)):
        group.hopeless_at = None
    else:
        group.hopeless_at = cluster.growth.now
    return group.hopeless_at is not None


def _epoch(cluster: Cluster, record: PodRecord) -> int:
    """As long as it stays the same, a pod that is like no other need not be tried again.

    Required affinity may be met by pods that come, so there every change counts.
    """
    return cluster.growth.now + (cluster.state.version if record.facts.pod_affinity else 0)


def _place(cluster: Cluster, record: PodRecord, now_ms: int, deadline_ms: int) -> Allocation | None:
    if record.request is None:
        return None
    allocation = cluster.place(record.facts, record.request, record.constraints, record.allowed_nodes(now_ms))
    if allocation is not None:
        cluster.book(record.facts, record.request, allocation, deadline_ms)
    return allocation


def validate(cluster: Cluster, line: Line) -> None:
    """Raises AssertionError when a pod is passed over although there is room for it; for tests."""
    for group in line.groups:
        first = group.pods[0]
        if group.hopeless_at is None or first.request is None:
            continue
        grown = cluster.growth.since(group.hopeless_at)
        mask = cluster.eligibility.mask(first.constraints)
        fitting = set(np.flatnonzero(placement.fits(cluster.state, first.request, mask)).tolist())
        assert grown is None or fitting <= grown, (first.uid, fitting, grown)
