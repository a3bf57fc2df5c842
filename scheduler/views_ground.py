"""Trying places in a cluster at two moments: for the stateless planner, where some pods are about to go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler import placement
from scheduler.cluster import Cluster
from scheduler.gang_parts import Bucket
from scheduler.ground import Slots, Tried
from scheduler.now_and_later import NowAndLater
from scheduler.record import PodRecord


class ViewsGround:
    """Books at once in both views, pod by pod, and gives back what is undone. See `Ground`."""

    def __init__(self, views: NowAndLater, left: NDArray[np.bool_] | None) -> None:
        """`left` is bool[slots], the nodes that no claim keeps from the gang; None: all."""
        self.tried: list[Tried] = []
        self._views = views
        self._left = left

    @property
    def cluster(self) -> Cluster:
        """See `Ground`."""
        return self._views.later

    def allowed(self, bucket: Bucket) -> NDArray[np.bool_]:
        """See `Ground`."""
        mask = self.cluster.eligibility.mask(bucket.form.constraints)[: len(self.cluster.state.inventories)]
        return mask if self._left is None else mask & self._left

    def copies(self, bucket: Bucket) -> NDArray[np.int64]:
        """See `Ground`."""
        return placement.copies(self.cluster.state, bucket.request, self.allowed(bucket))

    def fill(self, bucket: Bucket, records: Sequence[PodRecord], slots: Slots) -> int:
        """See `Ground`."""
        mask = np.zeros(len(self.cluster.state.inventories), np.bool_)
        mask[slots] = True
        mask &= self.allowed(bucket)
        for count, record in enumerate(records):
            place = self._views.place(record, mask)
            if place is None:
                return count
            allocation, when = place
            slot = self.cluster.state.slot_of[allocation.node]
            self.tried.append(Tried(record, slot, allocation, later=when == "after-release"))
        return len(records)

    def mark(self) -> int:
        """See `Ground`."""
        return len(self.tried)

    def undo(self, mark: int) -> None:
        """See `Ground`."""
        while len(self.tried) > mark:
            self._views.give_back(self.tried.pop().record.uid)
