"""Trying places for many pods at once: what is tried counts as taken until it is undone, and is booked at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler import placement
from scheduler.allocation import Allocation
from scheduler.cluster import Cluster
from scheduler.gang_parts import Bucket
from scheduler.neighbours import is_one_to_a_node
from scheduler.record import PodRecord

Slots = NDArray[np.int64]


class Tried(NamedTuple):
    """A place for a pod. `later`: it needs what somebody is still about to give back."""

    record: PodRecord
    slot: int
    allocation: Allocation
    later: bool = False


class Ground(Protocol):
    """What the search places on."""

    tried: list[Tried]
    """In the order in which they were tried; shortened by `undo`."""

    @property
    def cluster(self) -> Cluster:
        """The cluster by which capacity is judged."""
        ...

    def allowed(self, bucket: Bucket) -> NDArray[np.bool_]:
        """bool[slots]: nodes to which rules and claims let the bucket go, whatever room they have."""
        ...

    def copies(self, bucket: Bucket) -> NDArray[np.int64]:
        """int64[slots]: how many pods of the bucket fit on each node now; for odd ones at most."""
        ...

    def fill(self, bucket: Bucket, records: Sequence[PodRecord], slots: Slots) -> int:
        """Places the pods, which are of the bucket, on some of the slots, as many as fit. Returns how many."""
        ...

    def mark(self) -> int:
        """What was tried up to here stays when later tries are undone by this mark."""
        ...

    def undo(self, mark: int) -> None:
        """Undoes what was tried since the mark."""
        ...


class LiveGround:
    """Tries on the state of one cluster. Until `close` it stays in a checkpoint."""

    def __init__(self, cluster: Cluster, left: NDArray[np.bool_] | None, now_ms: int) -> None:
        """`left` is bool[slots], the nodes that no claim keeps from the gang; None: all."""
        self.tried: list[Tried] = []
        self._cluster = cluster
        self._left = left
        self._now_ms = now_ms
        self._outer = cluster.state.checkpoint()
        self._allowed: dict[int, NDArray[np.bool_]] = {}
        self._copies: dict[int, tuple[int, NDArray[np.int64]]] = {}
        self._changes = 0

    @property
    def cluster(self) -> Cluster:
        """See `Ground`."""
        return self._cluster

    def allowed(self, bucket: Bucket) -> NDArray[np.bool_]:
        """See `Ground`."""
        found = self._allowed.get(id(bucket))
        if found is None:
            found = self._mask(bucket, bucket.records[0])
            self._allowed[id(bucket)] = found
        return found

    def _mask(self, bucket: Bucket, record: PodRecord) -> NDArray[np.bool_]:
        constraints = bucket.form.constraints
        if bucket.alone:
            mask = self._cluster.mask(record.facts, constraints, record.allowed_nodes(self._now_ms))
        else:
            mask = self._cluster.eligibility.mask(constraints)[: len(self._cluster.state.inventories)]
        return mask if self._left is None else mask & self._left

    def copies(self, bucket: Bucket) -> NDArray[np.int64]:
        """See `Ground`."""
        known = self._copies.get(id(bucket))
        if known is None or known[0] != self._changes:
            mask = self.allowed(bucket)
            counts = placement.copies(self._cluster.state, bucket.request, mask)
            if bucket.alone and is_one_to_a_node(bucket.records[0].facts):
                np.minimum(counts, 1, out=counts)
            known = (self._changes, counts)
            self._copies[id(bucket)] = known
        return known[1]

    def fill(self, bucket: Bucket, records: Sequence[PodRecord], slots: Slots) -> int:
        """See `Ground`."""
        mask = np.zeros(len(self._cluster.state.inventories), np.bool_)
        mask[slots] = True
        fills = self._cluster.state.policy.fills(self._cluster.state.ask(bucket.request))
        if len(records) > 1 and fills and not bucket.alone:
            return self._many(bucket, records, mask & self.allowed(bucket))
        for count, record in enumerate(records):
            own = self._mask(bucket, record) if bucket.alone else self.allowed(bucket)
            if not self._one(bucket, record, mask & own):
                return count
        return len(records)

    def _one(self, bucket: Bucket, record: PodRecord, mask: NDArray[np.bool_]) -> bool:
        allocation = placement.place(self._cluster.state, bucket.request, mask)
        if allocation is None:
            return False
        self._take(bucket, record, self._cluster.state.slot_of[allocation.node], allocation)
        return True

    def _many(self, bucket: Bucket, records: Sequence[PodRecord], mask: NDArray[np.bool_]) -> int:
        """Node after node, each as full as it gets."""
        state, done = self._cluster.state, 0
        fitting = placement.copies(state, bucket.request, mask)
        for slot in placement.ranked(state, bucket.request, mask).tolist():
            inventory = state.inventories[slot]
            for record in records[done : done + int(fitting[slot])]:
                devices = placement.place_on(state, bucket.request, slot)
                if devices is None or inventory is None:
                    break
                self._take(bucket, record, slot, Allocation(inventory.name, devices))
                done += 1
            if done == len(records):
                break
        return done

    def _take(self, bucket: Bucket, record: PodRecord, slot: int, allocation: Allocation) -> None:
        self._cluster.state.take(slot, bucket.request, allocation.devices)
        if bucket.alone:
            self._cluster.neighbours.add(record.facts, slot)
        self._changes += 1
        self.tried.append(Tried(record, slot, allocation))

    def mark(self) -> int:
        """See `Ground`."""
        return len(self.tried)

    def undo(self, mark: int) -> None:
        """See `Ground`."""
        state = self._cluster.state
        while len(self.tried) > mark:
            tried = self.tried.pop()
            assert tried.record.request is not None
            state.give(tried.slot, tried.record.request, tried.allocation.devices)
            self._cluster.neighbours.remove(tried.record.uid)
            self._changes += 1

    def close(self) -> list[Tried]:
        """Leaves the cluster as it was; returns what was tried last, which may be booked now."""
        for tried in self.tried:
            self._cluster.neighbours.remove(tried.record.uid)
        self._cluster.state.rollback(self._outer)
        return self.tried
