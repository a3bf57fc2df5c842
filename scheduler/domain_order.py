"""In which order the domains of a level are tried for a part of a gang."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from scheduler.gang_packing import Packing
from scheduler.gang_parts import Bucket, Part
from scheduler.ground import Ground, Slots
from scheduler.kernels.arrays import CPU
from scheduler.kernels.copies import MOST_COPIES
from scheduler.kernels.score import POOL
from scheduler.landscape import OUTSIDE, Landscape, Near
from scheduler.request import Demand


class DomainOrder:
    """Those of running members first, then as a group around the part takes its own, then those inside which fewer
    domains of the preferred level are needed, then those that cost least by the placement policy, in whole devices,
    then the fullest that has room, then by name.
    """

    def __init__(self, ground: Ground, landscape: Landscape) -> None:
        self._ground = ground
        self._landscape = landscape

    def of(
        self, part: Part, near: Near, level: int, slots: Slots, packing: Packing | None, closed: Iterable[int]
    ) -> list[int]:
        """The numbers of the domains of a level with room for the part, the best first, without those that are closed.

        `packing` is that of a group around the part, whose domains come in its order.
        """
        layer = self._landscape.layer(near.topology, level)
        size = len(layer.paths)
        ids = np.where(layer.ids[slots] == OUTSIDE, size, layer.ids[slots])
        times = self._times(part, slots, ids, size)
        fits = (times > 0) & self._enough(part, slots, ids, size)
        fits[size] = False
        for number in closed:
            fits[number] = False
        numbers = np.flatnonzero(fits)
        if not numbers.size:
            return []
        free = np.bincount(ids, weights=self._free(part, slots), minlength=size + 1)
        price = self._prices(part, slots, ids, size)
        pinned = set(layer.ids[part.pinned].tolist())
        fewest = self._spans(part, near, level, slots, ids, numbers.tolist())
        turn = {} if packing is None else self._turns(packing, part, slots, ids, times, numbers.tolist())
        return sorted(
            numbers.tolist(),
            key=lambda number: (
                number not in pinned, turn.get(number, 0), fewest.get(number, 1), price[number], free[number],
                layer.paths[number],
            ),
        )  # fmt: skip

    def _times(self, part: Part, slots: Slots, ids: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """int64[size + 1]: how many times the part would fit into each domain, each bucket looked at by itself."""
        found = np.full(size + 1, MOST_COPIES, np.int64)
        for bucket in part.all_buckets():
            copies = copies_by_domain(self._ground, bucket, slots, ids, size + 1)
            np.minimum(found, copies // len(bucket.records), out=found)
        return found

    def _turns(
        self,
        packing: Packing,
        part: Part,
        slots: Slots,
        ids: NDArray[np.int64],
        times: NDArray[np.int64],
        numbers: list[int],
    ) -> dict[int, int]:
        """Domain → the turn of the domain of an outer group's preferred level that it is in. Empty where that level is
        the narrower one.
        """
        outer = self._landscape.layer(packing.near.topology, packing.near.preferred or 0)
        around = np.full((2, times.size), outer.ids.max(initial=0))
        np.minimum.at(around[0], ids, outer.ids[slots])
        around[1] = OUTSIDE
        np.maximum.at(around[1], ids, outer.ids[slots])
        if (around[0, numbers] != around[1, numbers]).any():
            return {}
        pods = sum(len(bucket.records) for bucket in part.all_buckets())
        rooms: dict[int, int] = {}
        for number in numbers:
            there = int(around[0, number])
            rooms[there] = rooms.get(there, 0) + int(times[number]) * pods
        order = {number: turn for turn, number in enumerate(packing.in_order(rooms, outer.paths))}
        return {number: order[int(around[0, number])] for number in numbers}

    def _enough(self, part: Part, slots: Slots, ids: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
        """bool[size + 1]: domains that have enough of everything in sum."""
        state = self._ground.cluster.state
        vectors = [len(bucket.records) * state.vector(bucket.request) for bucket in part.all_buckets()]
        asked = np.sum(vectors, axis=0)
        enough = np.ones(size + 1, np.bool_)
        for column in np.flatnonzero(asked):
            free = np.maximum(state.arrays.free[slots, column], 0)
            enough &= np.bincount(ids, weights=free, minlength=size + 1) >= asked[column]
        return enough

    def _free(self, part: Part, slots: Slots) -> NDArray[np.int64]:
        """int64[len(slots)]: what orders nodes by how full they are: free devices where any are asked for, else CPU."""
        arrays = self._ground.cluster.state.arrays
        if any(bucket.request.demand is not Demand.NONE for bucket in part.all_buckets()):
            return np.asarray(arrays.idle[slots], np.int64)
        return np.asarray(np.maximum(arrays.free[slots, CPU], 0), np.int64)

    def _prices(self, part: Part, slots: Slots, ids: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """int64[size + 1]: what the cheapest places for the part cost in each domain, each pod looked at by itself.

        In devices, since smaller differences say less than how full a domain is; 0 where the policy says nothing.
        """
        state = self._ground.cluster.state
        prices = np.zeros(size + 1, np.int64)
        unit = state.policy.device_cost
        if not unit:
            return prices
        for bucket in part.all_buckets():
            copies = self._ground.copies(bucket)[slots]
            costs = state.costs(bucket.request)[slots] % POOL
            order = np.lexsort((costs, ids))
            before = np.cumsum(copies[order]) - copies[order]
            before -= np.maximum.accumulate(np.where(np.diff(ids[order], prepend=-1) != 0, before, 0))
            taken = np.clip(len(bucket.records) - before, 0, copies[order])
            prices += np.bincount(ids[order], weights=taken * (costs[order] / unit), minlength=size + 1).astype(
                np.int64
            )
        return prices

    def _spans(
        self, part: Part, near: Near, level: int, slots: Slots, ids: NDArray[np.int64], numbers: list[int]
    ) -> dict[int, int]:
        """How many domains of the preferred level the part needs inside each of the domains, where that is known."""
        if near.preferred is None or level >= near.preferred:
            return {}
        buckets = list(part.all_buckets())
        inner = self._landscape.layer(near.topology, near.preferred)
        inner_ids = inner.ids[slots]
        largest = max(buckets, key=lambda bucket: len(bucket.records))
        wanted = sum(len(bucket.records) for bucket in buckets)
        copies = copies_by_domain(self._ground, largest, slots, inner_ids, len(inner.paths))
        taken = set(inner.ids[part.pinned].tolist())
        found = {}
        for number in numbers:
            inside = np.unique(inner_ids[ids == number])
            fresh = sorted((int(copies[one]) for one in inside if int(one) not in taken), reverse=True)
            left = wanted - sum(int(copies[one]) for one in inside if int(one) in taken)
            count = 0
            while left > 0 and count < len(fresh):
                left -= fresh[count]
                count += 1
            found[number] = count
        return found


def copies_by_domain(
    ground: Ground, bucket: Bucket, slots: Slots, ids: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """int64[size]: how many pods of the bucket fit into each domain; `ids` are the domains of the slots."""
    return np.bincount(ids, weights=ground.copies(bucket)[slots], minlength=size).astype(np.int64)
