"""A planning round: takes the waiting pods in the order of their queues and places each whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler import placement
from scheduler.allocation import Allocation
from scheduler.candidates import Candidates
from scheduler.cluster import Cluster
from scheduler.gang import Gang
from scheduler.gang_spec import GangKey
from scheduler.gang_turns import GangTurns
from scheduler.ground import Tried
from scheduler.line import Alike, Line, form_of
from scheduler.record import PodRecord
from scheduler.reservation import Reservations
from scheduler.room import Form
from scheduler.second_look import SecondLook

logger = logging.getLogger(__name__)

VAIN_SEARCHES: Final = 32
"""A round ends after so many searches that found nothing, so that webhooks are answered in between."""

GANG_MEMBER_MS: Final = 50
"""kube-scheduler takes one pod after the other: so much longer a place is held for each pod of a step."""

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
    vain: int = 0


def in_order(waiting: Iterable[PodRecord]) -> list[PodRecord]:
    """The order in which waiting pods of one queue are tried: total and stable."""
    return sorted(waiting, key=lambda record: record.rank)


def run(
    cluster: Cluster,
    line: Line,
    *,
    now_ms: int,
    hold_ms: Callable[[int], int],
    limit: int,
    reservations: Reservations | None = None,
    gangs: Mapping[GangKey, Gang] | None = None,
    second_look: SecondLook | None = None,
) -> Round:
    """One round. Books at most `limit` placements, each for `hold_ms(expiries)`; `line` stays as it is.

    Within a round room and quota only shrink, so pods like one that may not start are passed over: ten thousand waiting
    copies of one pod cost one search. They stay passed over until something grows where one of them could go, or until
    their queue holds less.
    """
    result = Round()
    candidates = Candidates(cluster, line, now_ms, reservations)
    gang_turns = GangTurns(cluster, {} if gangs is None else gangs, now_ms, second_look=second_look)
    while (turn := candidates.next()) is not None:
        if not candidates.completing and (len(result.placed) >= limit or result.vain >= VAIN_SEARCHES):
            result.more = True
            break
        record, group = turn
        deadline_ms = now_ms + hold_ms(record.expiries)
        if group.gang is not None:
            placed = _try_gang(cluster, gang_turns, candidates, group, deadline_ms, result)
        else:
            placed = _try(cluster, candidates, record, group, now_ms, deadline_ms, result)
        candidates.done(record, group, placed=placed)
    return result


def _try_gang(
    cluster: Cluster,
    turns: GangTurns,
    candidates: Candidates,
    group: Alike,
    deadline_ms: int,
    result: Round,
) -> bool:
    """Places the next step of a gang. Notes what is found out otherwise."""
    try:
        tried = turns.next_step(candidates, group)
    except Exception:
        logger.exception("planning of %s failed", group.kind.gang)
        result.failed += group.pods
        return False
    if tried is None:
        if group.vain_at is not None:
            result.vain += 1
            result.again_ms = min(group.again_ms, result.again_ms or group.again_ms) or None
        return False
    if not _book_all(cluster, tried, deadline_ms + len(tried) * GANG_MEMBER_MS):
        result.failed += group.pods
        return False
    result.placed += [(record, allocation) for record, _, allocation, _ in tried]
    return True


def _book_all(cluster: Cluster, tried: list[Tried], deadline_ms: int) -> bool:
    """Books all places or none."""
    try:
        for record, _, allocation, _ in tried:
            assert record.request is not None
            cluster.book(record.facts, record.request, allocation, deadline_ms)
            record.has_place = True
    except Exception:
        logger.exception("a gang of %s pods could not be booked as it was planned", len(tried))
        for record, *_ in tried:
            if record.has_place:
                cluster.release(record.uid)
                record.has_place = False
        return False
    return True


def hopeless(cluster: Cluster, line: Line, record: PodRecord, now_ms: int) -> bool:
    """Whether a pod of the line has been looked at and may not start, or fits nowhere, as things are."""
    group = line.alike(record)
    if group.block is not None:
        return True
    if group.gang is not None:
        return group.vain_at is not None
    if group.room is not None and group.room.hopeless_at == cluster.growth.now:
        return True
    return form(cluster, record, now_ms) is None and record.tried_epoch == epoch_of(cluster, record)


def form(cluster: Cluster, record: PodRecord, now_ms: int) -> Form | None:
    """What makes two pods interchangeable for the search, or None for a pod that is like no other.

    A pod that is like no other may go to fewer nodes than others that ask for the same.
    """
    if record.allowed_nodes(now_ms) is not None or cluster.neighbours.matters(record.facts):
        return None
    return form_of(record)


def odd_wait_ms(vain: int) -> int:
    """The wait after so many vain searches: none after the first."""
    return 0 if vain < 2 else min(25 << min(vain, 10), ODD_LONGEST_MS)


def epoch_of(cluster: Cluster, record: PodRecord) -> int:
    """As long as it stays the same, a pod that is like no other need not be tried again.

    Required affinity may be met by pods that come, so there every change counts.
    """
    return cluster.growth.now + (cluster.state.version if record.facts.pod_affinity else 0)


def _try(
    cluster: Cluster,
    candidates: Candidates,
    record: PodRecord,
    group: Alike,
    now_ms: int,
    deadline_ms: int,
    result: Round,
) -> bool:
    """Places the pod if its queue and the nodes have room for it. Notes what is found out otherwise."""
    try:
        room = candidates.room(record, group)
        if room is None or record.request is None:
            return False
        odd = form(cluster, record, now_ms) is None
        if odd and not _odd_one_is_due(cluster, record, now_ms):
            return False
        if not odd and room.is_hopeless(cluster):
            return False
        allocation = cluster.place(
            record.facts, record.request, record.constraints, record.allowed_nodes(now_ms), room.slots(cluster)
        )
        if allocation is not None:
            cluster.book(record.facts, record.request, allocation, deadline_ms)
            result.placed.append((record, allocation))
            return True
    except Exception:
        logger.exception("planning of %s failed", record.facts.key)
        result.failed.append(record)
        return False
    result.vain += 1
    if odd:
        record.tried_epoch = epoch_of(cluster, record)
        record.vain += 1
        record.search_again_ms = result.again_ms = now_ms + odd_wait_ms(record.vain)
    else:
        room.hopeless_at = cluster.growth.now
    return False


def _odd_one_is_due(cluster: Cluster, record: PodRecord, now_ms: int) -> bool:
    return record.tried_epoch != epoch_of(cluster, record) and record.search_again_ms <= now_ms


def validate(cluster: Cluster, line: Line) -> None:
    """Raises AssertionError when a pod is passed over although there is room for it; for tests."""
    for group in line.groups:
        if group.gang is not None:
            continue
        first, room = group.pods[0], group.room
        if room is None or room.hopeless_at is None or first.request is None:
            continue
        grown = cluster.growth.since(room.hopeless_at)
        mask, left = cluster.eligibility.mask(first.constraints), room.slots(cluster)
        if left is not None:
            mask = mask[: left.size] & left
        fitting = set(np.flatnonzero(placement.fits(cluster.state, first.request, mask)).tolist())
        assert grown is None or fitting <= grown, (first.uid, fitting, grown)
