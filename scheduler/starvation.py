"""Who has waited so long for room that it gets a reservation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from queues.amounts import UNLIMITED
from scheduler import planner
from scheduler.cluster import Cluster
from scheduler.line import Alike
from scheduler.record import PodRecord
from scheduler.reservation import Reservations
from scheduler.roster import Roster

LOOK_EVERY_MS: Final = 1000
"""Ages are minutes, so nobody minds a second; and a look costs a little for each kind of pod that waits."""


class Starvation:
    """Looks for starving work, the oldest of each queue first. `after_ms` 0: there is none.

    Protected is work that its queue's share could bear, in a queue that is not beyond its share: age does not outrank
    fairness between queues. In a queue that has nothing, all work is.
    """

    def __init__(self, cluster: Cluster, roster: Roster, reservations: Reservations, *, after_ms: int) -> None:
        self._cluster = cluster
        self._roster = roster
        self._reservations = reservations
        self._after_ms = after_ms
        self._next_ms = 0

    def look(self, now_ms: int) -> None:
        """Brings reservations up to date, and makes those that are due."""
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + LOOK_EVERY_MS
        for kept in list(self._reservations):
            if kept.uid not in self._roster.waiting or not self._is_entitled(kept.record):
                self._reservations.drop(kept.uid)
        self._reservations.refresh(now_ms)
        if self._reservations.full:
            return
        starving = [record for group in self._roster.line.groups for record in self._starving(group, now_ms)]
        for record in sorted(starving, key=lambda record: (record.since_ms, record.rank)):
            if self._reservations.full:
                return
            if self._is_entitled(record):
                self._reservations.claim(record, now_ms)

    def _starving(self, group: Alike, now_ms: int) -> Iterator[PodRecord]:
        """The first pods of the group that only room has been missing for, for long; no more than may get any."""
        if group.block is not None or group.gang is not None:
            return  # a reservation keeps one node
        said = self._cluster.accounts.tree.queues[group.kind.queue].spec.starving_after_ms
        after_ms = self._after_ms if said is None else said
        if after_ms <= 0:
            return
        for record in islice(group.pods, self._reservations.most):
            if now_ms - record.since_ms < after_ms or self._reservations.of(record.uid) is not None:
                continue
            if planner.hopeless(self._cluster, self._roster.line, record, now_ms):
                yield record

    def _is_entitled(self, record: PodRecord) -> bool:
        """Whether its queue lets it start, and is not beyond its share."""
        if record.request is None or self._blocked(record):
            return False
        return self._within_share(record)

    def _blocked(self, record: PodRecord) -> bool:
        assert record.request is not None
        admission = self._cluster.admit(record)
        return admission.reason is not None

    def _within_share(self, record: PodRecord) -> bool:
        accounts = self._cluster.accounts
        if accounts.tree.implicit:
            return True
        for queue, standing in accounts.books.path(record.queue):
            for index, asked in enumerate(record.wants):
                quota, held = queue.spec.quota[index], standing.allocated[index]
                share = max(quota, standing.fair_share[index])
                if asked and held and quota != UNLIMITED and max(asked, held) > share:
                    return False
        return True
