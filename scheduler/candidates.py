"""Whose turn it is: waiting pods one after the other, in the order of their queues, without those known to be vain."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from queues.amounts import UNLIMITED
from queues.order import Rank, Turns
from queues.runtimes import Span
from scheduler.cluster import Cluster
from scheduler.gang_views import GangViews
from scheduler.line import NO_FORM, Alike, Kind, Line, Mark, form_of
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord
from scheduler.reservation import Reservations
from scheduler.room import Kept, Room

Turn = tuple[PodRecord, Alike]
"""The pod whose turn it is, and those that stand with it. Of a gang the first that waits speaks for all."""
Heap = list[tuple[Rank, int, Alike]]


@dataclass(slots=True)
class _StrictHead:
    """The pod that holds up those behind it in a strict queue.

    It waits for room on `slots`, or, where these are None, for its queue to hold less of a resource.
    """

    uid: str
    slots: NDArray[np.bool_] | None
    resource: str = ""


@dataclass(slots=True)
class _Waiting:
    """One queue's heap of groups by the pod that is next in each: rank, place in the group, group."""

    heap: Heap
    strict: bool
    mark: Mark
    strict_head: _StrictHead | None = None
    current: Turn | None = None


class Candidates:
    """The pods to try in one round. `next` gives one; `done` must be told what became of it before the next.

    Gangs that have begun and are below their minimum come first, whatever their queue, then released pods: their gate
    cannot be put back. Then the queues take turns.
    """

    def __init__(self, cluster: Cluster, line: Line, now_ms: int, reservations: Reservations | None) -> None:
        self._cluster = cluster
        self._line = line
        self._now_ms = now_ms
        self._reservations = reservations
        self.views: Final = GangViews()
        self._waiting = {
            leaf: waiting for leaf, groups in line.queues.items() if (waiting := self._heap(leaf, groups)) is not None
        }
        self._begun = iter(self._begun_gangs())
        self._released = self._released_first()
        self._turns: Turns | None = None
        self.completing = False
        """Whether the turn is that of a gang of which some have places already, and too few."""

    def next(self) -> Turn | None:
        """Whose turn it is, None when nobody is left."""
        if self._turns is None:
            turn = next(self._begun, None)
            self.completing = turn is not None
            turn = turn or next(self._released, None)
            if turn is not None:
                return turn
            self._start_turns()
        assert self._turns is not None
        leaf = self._turns.next()
        return None if leaf is None else self._waiting[leaf].current

    def done(self, record: PodRecord, group: Alike, *, placed: bool) -> None:
        """The pod was tried."""
        waiting = self._waiting[record.queue]
        if placed and group.gang is not None:
            self._again(waiting, group)
        if waiting.strict and not placed and waiting.strict_head is None:
            self._hold_up(waiting, record, group)
        if self._turns is None:
            return
        self._advance(record.queue)

    def room(self, record: PodRecord, group: Alike) -> Room | None:
        """What is known about room for the pod; None, and the group's `block`, when its queue does not let it start."""
        waiting, request = self._waiting[record.queue], record.request
        group.block, group.room, group.mark = None, None, waiting.mark
        group.tried_rank, group.tried_span = record.rank, self._run_span(record)
        if request is None:
            return None
        admission = self._cluster.admit(record)
        group.block = admission.reason or self._behind(waiting, record)
        if group.block is not None:
            return None
        kept, slots = self._behind_head(Kept(admission.classes, self._reserved(record)), waiting, record)
        group.room = self._line.room(form_of(record), kept, slots)
        return group.room

    def _behind_head(self, kept: Kept, waiting: _Waiting, record: PodRecord) -> tuple[Kept, NDArray[np.bool_] | None]:
        """What is kept from a pod, with what the first of its strict queue may go to."""
        head = waiting.strict_head
        if head is None or head.slots is None or head.uid == record.uid or self.completing:
            return kept, None
        return kept._replace(strict_head=(head.uid, self._cluster.node_changes)), head.slots

    # -- gangs -------------------------------------------------------------------------------------------------------

    def mark(self, group: Alike) -> Mark:
        """The circumstances of the group's queue in this round."""
        return self._waiting[group.kind.queue].mark

    def left(self, group: Alike, records: Sequence[PodRecord]) -> Room | None:
        """The nodes that are left to a step of a gang; None, and the group's `block`, when its queue does not let it
        start.
        """
        waiting, record = self._waiting[group.kind.queue], records[0]
        group.block, group.room, group.mark = None, None, waiting.mark
        group.tried_rank, group.tried_span = group.pods[0].rank, self._run_span(group.pods[0])
        admission = self._cluster.admit_all(records)
        group.block = admission.reason or self._behind(waiting, record)
        if group.block is not None:
            return None
        reserved = frozenset[int]().union(*(self._reserved(one) for one in _one_of_each_form(records)))
        kept, slots = self._behind_head(Kept(admission.classes, reserved), waiting, record)
        group.room = Room(NO_FORM, kept, slots)
        return group.room

    def _again(self, waiting: _Waiting, group: Alike) -> None:
        """A gang that got a step comes again with its next one, if there are pods for it."""
        self.views.forget(group)
        rest = next((record for record in group.pods if not record.has_place), None)
        if rest is not None and all(entry[2] is not group for entry in waiting.heap):
            heapq.heappush(waiting.heap, (self.views.rank(group), group.pods.index(rest), group))

    # -- queues ------------------------------------------------------------------------------------------------------

    def _heap(self, leaf: str, groups: Mapping[Kind, Alike]) -> _Waiting | None:
        """None when it is known that nobody of the queue may start now."""
        queue, circumstances = self._cluster.accounts.tree.queues[leaf], (self._mark(leaf), self._cluster.growth.now)
        if not queue.spec.strict_fifo and self._line.vain.get(leaf) == circumstances:
            return None
        heap = [(group.pods[0].rank, 0, group) for group in groups.values()]
        waiting = _Waiting(heap, queue.spec.strict_fifo, circumstances[0])
        if waiting.strict:
            self._find_strict_head(waiting)
        waiting.heap = [(self.views.rank(group), 0, group) for _, _, group in heap if self._is_open(group, waiting)]
        if not waiting.heap:
            if all(group.again_ms <= self._now_ms for _, _, group in heap):
                self._line.vain[leaf] = circumstances
            return None
        heapq.heapify(waiting.heap)
        return waiting

    def _mark(self, leaf: str) -> Mark:
        accounts = self._cluster.accounts
        freed = sum(standing.freed for _, standing in accounts.books.path(leaf))
        reservations = 0 if self._reservations is None else self._reservations.version
        return Mark(accounts.epoch, reservations, accounts.classes.version, freed)

    def _is_open(self, group: Alike, waiting: _Waiting) -> bool:
        room, mark = group.room, waiting.mark
        if room is not None and room.kept.classes is None:
            # its queue is not in its way
            mark = mark._replace(freed=group.mark.freed, classes=group.mark.classes)
        if group.mark != mark or (room is not None and self._others_may_use_more(group, room)):
            return True
        if group.gang is not None:
            return group.block is None and self._is_due(group)
        return group.block is None and not (room is not None and room.is_hopeless(self._cluster))

    def _is_due(self, group: Alike) -> bool:
        """Whether a gang that its queue lets start is worth another try."""
        return group.vain_at != self._cluster.growth.now and group.again_ms <= self._now_ms

    def _others_may_use_more(self, group: Alike, room: Room) -> bool:
        """Whether what was found out about the first of the group says nothing about the one that is first now.

        Reservations keep a node from those behind and from those that run too long, and a strict queue's first keeps
        what was open to it as nodes were then.
        """
        if room.kept.strict_head is not None and room.kept.strict_head[1] != self._cluster.node_changes:
            return True
        if not room.kept.reserved or self._reservations is None:
            return False
        first = group.pods[0]
        return first.rank < group.tried_rank or self._run_span(first) != group.tried_span

    def _run_span(self, record: PodRecord) -> Span | None:
        return None if self._reservations is None else self._reservations.run_span(record)

    def _start_turns(self) -> None:
        accounts = self._cluster.accounts
        accounts.divide()
        heads = {leaf: self.views.wants(*head) for leaf in self._waiting if (head := self._head(leaf)) is not None}
        self._turns = Turns(accounts.books, accounts.capacity, heads)

    def _advance(self, leaf: str) -> None:
        """The queue's next pod that is worth a try."""
        assert self._turns is not None
        head = self._head(leaf)
        self._turns.set_head(leaf, None if head is None else self.views.wants(*head))

    def _head(self, leaf: str) -> Turn | None:
        waiting = self._waiting[leaf]
        waiting.current = self._pop(waiting)
        return waiting.current

    def _pop(self, waiting: _Waiting) -> Turn | None:
        while waiting.heap:
            _, place, group = waiting.heap[0]
            record = group.pods[place]
            if not self._is_open(group, waiting):  # found out in this round
                heapq.heappop(waiting.heap)
                continue
            if group.gang is not None:
                heapq.heappop(waiting.heap)
                left = next((one for one in group.pods if not one.has_place), None)
                if left is not None and self._is_ready(group):
                    return left, group
                continue
            self._step(waiting.heap)
            if record.not_before_ms <= self._now_ms and record.rank.not_released:
                return record, group
        return None

    @staticmethod
    def _step(heap: Heap) -> None:
        """Goes on to the next pod of the first group."""
        _, place, group = heap[0]
        if place + 1 < len(group.pods):
            heapq.heapreplace(heap, (group.pods[place + 1].rank, place + 1, group))
        else:
            heapq.heappop(heap)

    def _released_first(self) -> Iterator[Turn]:
        """Released pods of all queues, by rank."""
        found = []
        for waiting in self._waiting.values():
            for _, _, group in waiting.heap:
                if group.gang is not None:
                    found += [(record.rank, group, record) for record in islice(_released(group), 1)]
                    continue
                found += [(record.rank, group, record) for record in _released(group)]
        for _, group, record in sorted(found, key=lambda item: item[0]):
            if record.not_before_ms <= self._now_ms and self._is_open(group, self._waiting[record.queue]):
                yield record, group

    def _begun_gangs(self) -> list[Turn]:
        """Gangs of all queues of which some have places, and too few: those that run longest so come first."""
        found = []
        for waiting in self._waiting.values():
            for rank, _, group in waiting.heap:
                if group.gang is None or not self._is_ready(group):
                    continue
                if self.views.has_begun(group):
                    since_ms = group.gang.broken_since_ms
                    found.append((since_ms is None, since_ms or 0, rank, group))
        return [(group.pods[0], group) for *_, group in sorted(found, key=lambda item: item[:3])]

    def _is_ready(self, group: Alike) -> bool:
        return all(record.not_before_ms <= self._now_ms for record in group.pods)

    def _reserved(self, record: PodRecord) -> frozenset[int]:
        return frozenset() if self._reservations is None else self._reservations.forbidden(record, self._now_ms)

    # -- strict queues -----------------------------------------------------------------------------------------------

    def _find_strict_head(self, waiting: _Waiting) -> None:
        """Who holds up the queue since an earlier round."""
        for _, _, group in sorted(waiting.heap, key=lambda entry: entry[0]):
            record = group.pods[0]
            if group.mark.strict_head is not None and group.mark.strict_head[0] != record.uid:
                return  # what held it up has gone
            as_before = waiting.mark._replace(strict_head=group.mark.strict_head)
            if self._is_open(group, replace(waiting, mark=as_before)):
                return  # has to be tried, which tells
            if group.block is None and self._is_beyond(record):
                group.mark = Mark()  # its queue has come to hold more since: now it waits for that, and not for room
                return
            if record.not_before_ms <= self._now_ms and self._hold_up(waiting, record, group):
                return

    def _is_beyond(self, record: PodRecord) -> bool:
        """Whether its queue does not let the pod start."""
        if record.request is None:
            return False
        admission = self._cluster.admit(record)
        return admission.reason is not None

    def _hold_up(self, waiting: _Waiting, record: PodRecord, group: Alike) -> bool:
        """The pod, which may not start now, holds up those behind it, unless it can never start as things are."""
        if record.request is None:
            return False
        head = None
        if group.block is not None:
            head = _waits_for_quota(record.uid, group.block)
        else:
            slots = self._could_hold(record, group)
            left = None if group.room is None else group.room.slots(self._cluster)
            slots = slots if left is None else slots & left
            if slots.any():
                head = _StrictHead(record.uid, slots)
        if head is None:
            return False
        waiting.strict_head = head
        waiting.mark = waiting.mark._replace(strict_head=(head.uid, head.resource))
        group.mark = waiting.mark
        return True

    def _could_hold(self, record: PodRecord, group: Alike) -> NDArray[np.bool_]:
        """bool[slots]: nodes that a pod could go to, or any of its gang's."""
        found = np.zeros(len(self._cluster.state.inventories), np.bool_)
        for one in [record] if group.gang is None else _one_of_each_form(group.pods):
            if one.request is not None:
                found |= self._cluster.could_hold(one.request, one.constraints)
        return found

    def _behind(self, waiting: _Waiting, record: PodRecord) -> Reason | None:
        """Why a pod of a strict queue may not start before the one that is first."""
        head = waiting.strict_head
        if head is None or head.slots is not None or head.uid == record.uid or self.completing:
            return None
        if getattr(record.wants, head.resource, 1) <= 0:
            return None
        return Reason(Code.BEHIND_STRICT_HEAD, {"queue": record.queue, "head": head.uid, "resource": head.resource})


def _waits_for_quota(uid: str, block: Reason) -> _StrictHead | None:
    """A pod that asks for more than its queue may ever have waits for an administrator, and holds up nobody."""
    asked, bound, resource = (block.numbers.get(name) for name in ("asked", "bound", "resource"))
    if not isinstance(asked, int) or not isinstance(bound, int) or (bound != UNLIMITED and asked > bound):
        return None
    return _StrictHead(uid, None, str(resource))


def _one_of_each_form(records: Sequence[PodRecord]) -> Iterable[PodRecord]:
    return {form_of(record): record for record in records}.values()


def _released(group: Alike) -> Iterator[PodRecord]:
    for record in group.pods:
        if record.rank.not_released:
            return
        yield record
