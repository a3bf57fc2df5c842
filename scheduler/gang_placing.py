"""Places for a step of a gang: the tree of parts, the search over it, and ranks that follow the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.cluster import Cluster
from scheduler.exact import could_fit, solve
from scheduler.gang import Gang, Step, pods_of
from scheduler.gang_exact import problem_of, propose, wishes_of
from scheduler.gang_parts import Bucket, Part, Parts, WishError, number_members
from scheduler.gang_search import EVERYWHERE, Search
from scheduler.gang_spec import GangKey, Group
from scheduler.ground import Ground, Slots
from scheduler.landscape import Near, Path
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord
from scheduler.request import Demand
from scheduler.second_look import SecondLook

SEPARATOR: Final = "/"
Placed = Mapping[str, list[tuple[PodRecord, int]]]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no place. `sure` says that everything was tried."""

    reason: Reason
    sure: bool = True


class GangPlacing:
    """Places steps of gangs on a ground. `gangs` are all there are: some keep a domain to themselves."""

    def __init__(
        self,
        cluster: Cluster,
        gangs: Mapping[GangKey, Gang],
        exact_limit: float = 0,
        second_look: SecondLook | None = None,
    ) -> None:
        """What the search does not find is looked for exactly: at once, for so long (see `exact.solve`; 0: never), or
        beside the loop by `second_look`.
        """
        self._cluster = cluster
        self._gangs = gangs
        self._exact_limit = exact_limit
        self._second_look = second_look

    def place(self, ground: Ground, gang: Gang, step: Step, now_ms: int) -> Failure | None:
        """Tries the step on the ground; None when all of it has a place, which `ground.tried` then says.

        Records of the step get their domain and their rank.
        """
        assert gang.spec is not None
        placed = placed_of(self._cluster, gang)
        for leaf in gang.spec.root.leaves():
            if leaf.slices:
                number_members(leaf, [one for one in gang.members.values() if one.membership.leaf == leaf.name])
        try:
            part = self._parts(gang, step, now_ms).of(gang.spec, step, placed)
        except WishError as err:
            return Failure(Reason(Code.GANG_INVALID, {"gang": str(gang.key), "problem": str(err)}))
        if self._second_look is not None:
            chosen = self._second_look.propose(gang.key, part, ground, self._cluster.landscape)
            if chosen is not None:
                self._placed(ground, gang, part, chosen)
                return None
        sure = True
        for slots in self._identities(placed):
            search = Search(ground, self._cluster.landscape, self._occupied(gang))
            if search.run(part, slots):
                self._placed(ground, gang, part, search.chosen)
                return None
            ground.undo(0)
            sure = sure and not search.gave_up
            chosen = self._exactly(ground, part, slots)
            if chosen is not None:
                self._placed(ground, gang, part, chosen)
                return None
            if self._second_look is not None:
                self._second_look.ask(gang.key, part, ground, self._cluster.landscape, slots, now_ms)
        return Failure(self._does_not_fit(ground, gang, part), sure)

    def _placed(self, ground: Ground, gang: Gang, part: Part, chosen: Mapping[str, int]) -> None:
        self._arrange(ground, part, chosen)
        number(gang, self._along_the_network(ground, part))

    def _exactly(self, ground: Ground, part: Part, slots: Slots) -> Mapping[str, int] | None:
        landscape = self._cluster.landscape
        problem = problem_of(part, ground, landscape, slots) if self._exact_limit > 0 else None
        if problem is None or not could_fit(problem):
            return None
        solution = solve(problem, limit=self._exact_limit, few=wishes_of(part, landscape, slots))
        return propose(part, ground, landscape, slots, solution)

    def _parts(self, gang: Gang, step: Step, now_ms: int) -> Parts:
        assert gang.oldest is not None, "a step has members"
        queue = self._cluster.accounts.tree.of(gang.oldest.queue)
        return Parts(self._cluster.landscape, None if queue is None else queue.spec.topology, self._odd(step, now_ms))

    def _odd(self, step: Step, now_ms: int) -> set[str]:
        """Pods that have to be looked at one by one: rules about neighbours concern them, or offers are known."""
        records = pods_of(step)
        matters = self._cluster.neighbours.matters
        if any(one.facts.pod_affinity or one.facts.pod_anti_affinity for one in records):
            return {record.uid for record in records}  # a rule of one may speak of any other
        return {one.uid for one in records if one.allowed_nodes(now_ms) is not None or matters(one.facts)}

    def _identities(self, placed: Placed) -> Iterator[Slots]:
        """Slots by the cluster behind them, real nodes first: a gang stays in one."""
        inventories = self._cluster.state.inventories
        found: dict[str, list[int]] = {}
        for slot, inventory in enumerate(inventories):
            if inventory is not None:
                found.setdefault(inventory.cluster if inventory.virtual else "", []).append(slot)
        pinned = {slot for places in placed.values() for _, slot in places}
        for _, slots in sorted(found.items()):
            if not pinned or pinned & set(slots):
                yield np.array(slots, np.int64)

    def _occupied(self, gang: Gang) -> _Occupied:
        return _Occupied(self._cluster, self._gangs, gang)

    # -- what follows from the places ----------------------------------------------------------------------------------

    def _arrange(self, ground: Ground, part: Part, chosen: Mapping[str, int]) -> None:
        """Gives pods that are alike their places in the order of the network, and notes their domains."""
        at = {tried.record.uid: index for index, tried in enumerate(ground.tried)}
        for bucket, near, level in _with_nearness(part, None, EVERYWHERE, chosen):
            indices = sorted(at[record.uid] for record in bucket.records)
            places = [ground.tried[index] for index in indices]
            numbered = all(record.membership.index is not None for record in bucket.records)
            if numbered and not bucket.alone and len(places) > 1:
                places.sort(key=lambda tried: self._on_the_network(near, tried.slot))
                for index, record, place in zip(indices, bucket.records, places, strict=True):
                    ground.tried[index] = place._replace(record=record)
            for index in indices:
                tried = ground.tried[index]
                tried.record.domain = self._domain(near, level, tried.slot)

    def _along_the_network(self, ground: Ground, part: Part) -> list[PodRecord]:
        """The pods that were placed, in the order of their places."""
        order = sorted(ground.tried, key=lambda tried: self._on_the_network(part.near, tried.slot))
        return [tried.record for tried in order]

    def _on_the_network(self, near: Near | None, slot: int) -> tuple[Path, int]:
        topology = near.topology if near is not None else next(iter(self._cluster.landscape.topologies), None)
        rank = int(self._cluster.state.arrays.rank[slot])
        if topology is None:
            return (), rank
        layer = self._cluster.landscape.layer(topology, len(topology.levels) - 1)
        return layer.paths[layer.ids[slot]], rank

    def _domain(self, near: Near | None, level: int, slot: int) -> str:
        if near is None or level == EVERYWHERE:
            return ""
        return SEPARATOR.join(self._cluster.landscape.path(near.topology, level, slot))

    def _does_not_fit(self, ground: Ground, gang: Gang, part: Part) -> Reason:
        """How many of the pods there would be room for, if they did not have to be near one another."""
        every = np.flatnonzero(self._cluster.state.occupied)
        buckets = list(part.all_buckets())
        wanted = sum(len(bucket.records) for bucket in buckets)
        fitting = _counted(ground, buckets)
        if fitting is None:
            fitting = sum(ground.fill(bucket, bucket.records, every) for bucket in buckets)
            ground.undo(0)
        numbers: dict[str, int | str] = {"gang": str(gang.key), "pods": wanted, "fitting": fitting}
        if fitting == wanted and part.near is not None and part.near.required is not None:
            numbers["level"] = part.near.topology.levels[part.near.required]
        return Reason(Code.GANG_DOES_NOT_FIT, numbers)


def _counted(ground: Ground, buckets: Sequence[Bucket]) -> int | None:
    """How many pods there is room for, where that is known without trying each: it takes long for thousands."""
    if len(buckets) > 1 or buckets[0].alone or buckets[0].request.demand is Demand.SHARE:
        return None
    return min(int(ground.copies(buckets[0]).sum()), len(buckets[0].records))


class _Occupied:
    """Slots of other groups that keep a domain to themselves under the same label key."""

    def __init__(self, cluster: Cluster, gangs: Mapping[GangKey, Gang], gang: Gang) -> None:
        self._cluster = cluster
        self._gangs = gangs
        self._gang = gang

    def __call__(self, key: str, part: Part) -> list[int]:
        found: list[int] = []
        for other in self._gangs.values():
            if other.spec is None:
                continue
            groups = [group for group in _groups(other.spec.root) if _exclusive(group) == key]
            if not groups:
                continue
            placed = placed_of(self._cluster, other)
            for group in groups:
                if other is self._gang and group.name == part.name:
                    continue
                found += [slot for leaf in group.leaves() for _, slot in placed.get(leaf.name, [])]
        return found


def placed_of(cluster: Cluster, gang: Gang) -> dict[str, list[tuple[PodRecord, int]]]:
    """The members that have a place on a known node, by leaf, with their slots."""
    found: dict[str, list[tuple[PodRecord, int]]] = {}
    for record in gang.members.values():
        entry = cluster.ledger.entries.get(record.uid) if record.has_place else None
        slot = None if entry is None else cluster.state.slot_of.get(entry.node)
        if slot is not None:
            found.setdefault(record.membership.leaf, []).append((record, slot))
    return found


def number(gang: Gang, records: Sequence[PodRecord]) -> None:
    """Gives pods their ranks in the gang: by leaf, then as their creator numbers them, then in the order in which they
    are given. Ranks are the lowest that are free.
    """
    assert gang.spec is not None
    leaves = {leaf.name: index for index, leaf in enumerate(gang.spec.root.leaves())}
    new = {record.uid for record in records}
    taken = {one.gang_rank for one in gang.members.values() if one.has_place and one.uid not in new}
    rank = 0
    for record in sorted(records, key=lambda one: (leaves.get(one.membership.leaf, 0), _index(one))):
        while rank in taken:
            rank += 1
        record.gang_rank = rank
        rank += 1


def _index(record: PodRecord) -> int:
    return 1 << 62 if record.membership.index is None else record.membership.index


def _with_nearness(
    part: Part, near: Near | None, level: int, chosen: Mapping[str, int]
) -> Iterator[tuple[Bucket, Near | None, int]]:
    """Buckets with the innermost nearness that holds for them, and the level of the domain that is theirs."""
    if part.near is not None:
        near, level = part.near, chosen.get(part.name, EVERYWHERE)
        level = level if near.preferred is None else max(level, near.preferred)
    for bucket in part.buckets:
        yield bucket, near, level
    for child in part.children:
        yield from _with_nearness(child, near, level, chosen)


def _groups(group: Group) -> Iterator[Group]:
    yield group
    for child in group.children:
        yield from _groups(child)


def _exclusive(group: Group) -> str:
    return "" if group.nearness is None else group.nearness.exclusive
