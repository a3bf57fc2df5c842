"""A hall of blocks and racks with nodes, and gangs that want in: what the tests of the search stand on.

What is naive here looks at labels and numbers alone, never at the code that it checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from scheduler.allocation import Allocation
from scheduler.cluster import Cluster
from scheduler.constraints import constraints_of
from scheduler.gang import Gang, Step, pods_of
from scheduler.gang_placing import Failure, GangPlacing
from scheduler.gang_spec import ROOT, GangKey, GangSpec, Group, Nearness, Slice
from scheduler.ground import LiveGround, Tried
from scheduler.membership import Membership
from scheduler.placement import place_on
from scheduler.policy import PlacementPolicy
from scheduler.record import PodRecord
from scheduler.request import parse_request
from tests.engine import world
from topology.inventory import InventorySettings
from topology.topology import Topology

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
NETWORK = Topology("network", (BLOCK, RACK, HOST), {"rack": RACK})
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Place:
    """A node: its name, devices, and labels of the network ("": none)."""

    name: str
    gpus: int
    block: str = ""
    rack: str = ""

    @property
    def labels(self) -> dict[str, str]:
        return {key: value for key, value in ((BLOCK, self.block), (RACK, self.rack)) if value}

    def domain(self, level: str) -> tuple[str, ...]:
        """By hand: the values down to the level, a missing one the node's own."""
        own = f"only {self.name}"
        values = {BLOCK: self.block or own, RACK: self.rack or own, HOST: self.name}
        levels = [BLOCK, RACK, HOST]
        return tuple(values[key] for key in levels[: levels.index(level) + 1])


def places(text: str) -> list[Place]:
    """`a/1: 2 1, b/1: 4`: devices of nodes by block and rack; nodes are named n0, n1, …"""
    found: list[Place] = []
    for rack in text.split(","):
        where, _, sizes = rack.partition(":")
        block, _, name = where.strip().partition("/")
        found += [Place(f"n{len(found) + i}", int(size), block, name) for i, size in enumerate(sizes.split())]
    return found


@st.composite
def halls(draw: st.DrawFn, most: int, *, blocks: Sequence[str], racks: Sequence[str]) -> list[Place]:
    """Up to `most` nodes, each with up to four devices, in the blocks and racks; what stands twice is likelier."""
    return [
        Place(f"n{i}", draw(st.integers(0, 4)), draw(st.sampled_from(blocks)), draw(st.sampled_from(racks)))
        for i in range(draw(st.integers(1, most)))
    ]


def near(required: str = "", preferred: str = "") -> Nearness:
    """A wish in the network."""
    return Nearness(required, preferred)


def leaf(
    name: str = ROOT,
    minimum: int = 0,
    *,
    required: str = "",
    preferred: str = "",
    slices: Sequence[tuple[int, str]] = (),
) -> Group:
    """A leaf."""
    wish = near(required, preferred) if required or preferred else None
    return Group(name, minimum, nearness=wish, slices=tuple(Slice(size, level) for size, level in slices))


def inner(name: str, *children: Group, needed: int | None = None, required: str = "", preferred: str = "") -> Group:
    """A group of groups."""
    wish = near(required, preferred) if required or preferred else None
    return Group(name, children=children, min_children=needed, nearness=wish)


def record(
    name: str, gpus: int = 1, leaf: str = ROOT, *, index: int | None = None, placed: bool = False, **other: object
) -> PodRecord:
    """A waiting pod, or one that has a place."""
    facts = world.pod(name, whole=gpus, cpu_milli=0, **other)  # type: ignore[arg-type]
    found = PodRecord(facts, constraints_of(facts), parse_request(facts, [GPU]), None, since_ms=0)
    found.membership = Membership(GangKey("default", "PodGroup", "gang"), leaf, index)
    found.has_place = placed
    return found


def shared(name: str, fraction: str = "0.5", leaf: str = ROOT) -> PodRecord:
    """A waiting pod that asks for a share of a device."""
    return record(name, 0, leaf, annotations={"gpu-fraction": fraction})


def gang_of(root: Group, records: Iterable[PodRecord], name: str = "gang", **ended: int) -> Gang:
    """A gang with these members."""
    gang = Gang(GangKey("default", "PodGroup", name), GangSpec(root), ended=dict(ended))
    for one in records:
        one.gang = gang
        gang.add(one)
    return gang


@dataclass
class Hall:
    """A cluster with a network, and gangs in it."""

    nodes: Sequence[Place]
    topologies: Sequence[Topology] = (NETWORK,)
    exact_limit: float = 0
    gangs: dict[GangKey, Gang] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = Cluster(inventory=InventorySettings(), policy=PlacementPolicy())
        self.cluster.set_topologies(self.topologies)
        for one in self.nodes:
            self.cluster.set_node(world.node(one.name, one.gpus, labels=one.labels))
        self.by_name = {one.name: one for one in self.nodes}

    def put(self, one: PodRecord, node: str) -> None:
        """Books the pod on the node."""
        assert one.request is not None
        devices = place_on(self.cluster.state, one.request, self.cluster.state.slot_of[node])
        assert devices is not None, f"no room for {one.facts.name} on {node}"
        self.cluster.book(one.facts, one.request, Allocation(node, devices), None)
        one.has_place = True

    def place(self, gang: Gang, step: Step | None = None) -> dict[str, str] | Failure:
        """Pod → node of the next step (or the given one), nothing booked; or why not."""
        self.gangs[gang.key] = gang
        ground = LiveGround(self.cluster, None, 0)
        placing = GangPlacing(self.cluster, self.gangs, self.exact_limit)
        before = [array.copy() for array in self.cluster.state.arrays]
        try:
            failure = placing.place(ground, gang, step or next(gang.view().steps()), 0)
        finally:
            self.tried: list[Tried] = list(ground.close())
        after = self.cluster.state.arrays
        assert all((old == new).all() for old, new in zip(before, after, strict=True)), "a try left something behind"
        if failure is not None:
            return failure
        assert len({tried.record.uid for tried in self.tried}) == len(self.tried), "a pod has two places"
        return {tried.record.facts.name: tried.allocation.node for tried in self.tried}

    def book(self, gang: Gang) -> dict[str, str] | Failure:
        """Places the next step and books it."""
        found = self.place(gang)
        for tried in [] if isinstance(found, Failure) else self.tried:
            assert tried.record.request is not None
            self.cluster.book(tried.record.facts, tried.record.request, tried.allocation, None)
            tried.record.has_place = True
        return found

    def free(self) -> dict[str, int]:
        """Node → devices that nobody holds."""
        arrays = self.cluster.state.arrays
        return {name: int(arrays.idle[slot]) for name, slot in self.cluster.state.slot_of.items()}

    def slots(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """All of them."""
        return np.arange(len(self.nodes), dtype=np.int64)

    # -- the slow and obvious way ----------------------------------------------------------------------------------

    def assignments(self, gang: Gang, step: Step) -> Iterator[dict[str, str]]:
        """All ways to place the step, pod → node, but for permutations of pods that nothing tells apart."""
        assert gang.spec is not None
        at = {
            one.facts.name: self.cluster.ledger.entries[one.uid].node for one in gang.members.values() if one.has_place
        }
        together = list(_together(gang.spec.root, list(gang.members.values())))
        pods = sorted(pods_of(step), key=lambda one: (one.membership.leaf, one.place_in_leaf, one.facts.name))
        yield from self._assigned(pods, 0, self.free(), at, together)

    def _assigned(
        self,
        pods: list[PodRecord],
        done: int,
        free: dict[str, int],
        at: dict[str, str],
        together: list[tuple[str, frozenset[str]]],
    ) -> Iterator[dict[str, str]]:
        if done == len(pods):
            yield dict(at)
            return
        pod = pods[done]
        gpus = _gpus(pod)
        groups = [one for one in together if pod.facts.name in one[1]]
        twin = next((one for one in pods[:done] if _gpus(one) == gpus and _same_groups(one, pod, together)), None)
        for name in sorted(free):
            if free[name] < gpus:
                continue
            # of twins the later one goes no further left: the rest are the same with the names exchanged
            if twin is not None and name < max(
                at[one.facts.name] for one in pods[:done] if _gpus(one) == gpus and _same_groups(one, pod, together)
            ):
                continue
            domains = ((level, {self.by_name[at[other]].domain(level) for other in names & at.keys()})
                       for level, names in groups)  # fmt: skip
            if any(others and self.by_name[name].domain(level) not in others for level, others in domains):
                continue
            at[pod.facts.name] = name
            free[name] -= gpus
            yield from self._assigned(pods, done + 1, free, at, together)
            free[name] += gpus
            del at[pod.facts.name]

    def fault(self, gang: Gang, found: Mapping[str, str]) -> str | None:
        """What is wrong with a placement, None when nothing is."""
        assert gang.spec is not None
        held = {name: 0 for name in self.by_name}
        gpus = {one.facts.name: _gpus(one) for one in gang.members.values()}
        for name, node in found.items():
            held[node] += gpus[name]
        if any(held[node] > free for node, free in self.free().items()):
            return "too much on a node"
        at = dict(found) | {
            one.facts.name: self.cluster.ledger.entries[one.uid].node for one in gang.members.values() if one.has_place
        }
        for level, names in _together(gang.spec.root, list(gang.members.values())):
            if len({self.by_name[at[name]].domain(level) for name in names & at.keys()}) > 1:
                return f"{sorted(names)} not in one {level}"
        return None


def _gpus(one: PodRecord) -> int:
    assert one.request is not None
    return one.request.device_count


def _same_groups(one: PodRecord, other: PodRecord, together: list[tuple[str, frozenset[str]]]) -> bool:
    return all((one.facts.name in names) == (other.facts.name in names) for _, names in together)


def _together(group: Group, members: list[PodRecord]) -> Iterator[tuple[str, frozenset[str]]]:
    """(level, names of pods) of everything that has to be in one domain."""
    leaves = {one.name for one in group.leaves()}
    mine = [one for one in members if one.membership.leaf in leaves]
    if group.nearness is not None and group.nearness.required:
        yield group.nearness.required, frozenset(one.facts.name for one in mine)
    for layer in group.slices:
        for number in {one.place_in_leaf // layer.size for one in mine}:
            yield layer.level, frozenset(one.facts.name for one in mine if one.place_in_leaf // layer.size == number)
    for child in group.children:
        yield from _together(child, members)
