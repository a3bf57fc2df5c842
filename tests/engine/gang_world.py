"""A world with gangs: PodGroups that come and change, and a kube-scheduler whose binds wait, fly and fail.

It counts by itself who is at bind, and refuses to write the first Binding of a gang that is not whole there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from queues.spec import QueueSpec
from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.instruction import BindOrder, BindRefusal, BindWait, Evict
from scheduler.object_facts import ObjectFacts
from scheduler.object_index import ObjectIndex
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy
from tests.engine.world import pod
from tests.replay.queued import QueuedWorld
from topology import vocabulary
from topology.inventory import InventorySettings
from topology.node import NodeFacts
from topology.topology import Topology

KINDS = [(vocabulary.API_GROUP, "PodGroup")]
RACK = "example.com/rack"
TOPOLOGY = Topology("racks", (RACK, "kubernetes.io/hostname"))


def group(name: str, minimum: int | None = None, **spec: Any) -> ObjectFacts:
    """A PodGroup of ours."""
    said = spec if minimum is None else {"minMember": minimum, **spec}
    return ObjectFacts(f"{vocabulary.API_GROUP}/v1alpha1", "PodGroup", "default", name, f"uid-group-{name}", spec=said)


def member(gang: str, at: int, *, subgroup: str = "", whole: int = 1, **other: Any) -> PodFacts:
    """The pod `gang-at`."""
    labels = {vocabulary.POD_GROUP.key: gang, **other.pop("labels", {})}
    if subgroup:
        labels[vocabulary.SUBGROUP.key] = subgroup
    return pod(f"{gang}-{at}", whole=whole, labels=labels, **other)


def members(gang: str, count: int, *, first: int = 0, **other: Any) -> list[PodFacts]:
    """Pods `gang-first` and on."""
    return [member(gang, at, **other) for at in range(first, first + count)]


@dataclass
class GangWorld(QueuedWorld):
    """`waiting` are pods that wait at bind, with what they were told; `flying` are Bindings of which nobody knows yet
    what became of them.
    """

    engine: Engine = field(init=False)
    settings: dict[str, Any] = field(default_factory=dict)
    objects: ObjectIndex = field(init=False)
    queues: tuple[QueueSpec, ...] = ()
    waiting: dict[str, tuple[BindWait, str]] = field(default_factory=dict)
    flying: dict[str, BindOrder] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    """What kube-scheduler was told of its last bind: the error, or "" for bound."""
    begun: set[str] = field(default_factory=set)
    """Gangs of which a Binding may have been written since none was bound."""

    def __post_init__(self) -> None:
        self.objects = ObjectIndex(KINDS)
        self._start()

    def _start(self) -> None:
        cluster = Cluster(inventory=InventorySettings(), policy=PlacementPolicy())
        self.engine = Engine(cluster, EngineSettings(**self.settings), self.objects)
        self.engine.set_topologies([TOPOLOGY])
        self.engine.barrier.on_decided = lambda key: self.decided.add(key)
        self.decided: set[Any] = set()

    def restart(self) -> None:
        """Everything in memory is lost; binds on their way to the API server arrive there, or not, before it."""
        self.waiting.clear()
        self.flying.clear()
        self._start()
        for facts in self.nodes.values():
            self.engine.cluster.set_node(facts)
        if self.queues:
            self.engine.set_queues(self.queues, self.now_ms)
        for uid in sorted(self.pods):
            self.show(uid)

    def set_queues(self, *specs: QueueSpec) -> None:
        self.queues = specs
        super().set_queues(*specs)

    # -- what there is ---------------------------------------------------------------------------------------------

    def set_group(self, facts: ObjectFacts) -> None:
        old = self.objects.named(facts.group, facts.kind, facts.namespace, facts.name)
        self.objects.add(facts)
        self.engine.object_changed(old, facts, self.now_ms)

    def drop_group(self, facts: ObjectFacts) -> None:
        self.objects.remove(facts)
        self.engine.object_changed(facts, None, self.now_ms)

    def change(self, uid: str, **facts: Any) -> None:
        self.pods[uid] = replace(self.pods[uid], **facts)
        self.show(uid)

    def drop_node(self, name: str) -> None:
        del self.nodes[name]
        self.engine.cluster.remove_node(name)

    def delete(self, uid: str) -> None:
        super().delete(uid)
        self._forget_the_begun()

    def end(self, *names: str) -> None:
        super().end(*names)
        self._forget_the_begun()

    def end_badly(self, *names: str) -> None:
        """The pods were killed: they are deleted, and go."""
        for name in names:
            self.change(f"uid-{name}", deleted_ms=self.now_ms)
            self.delete(f"uid-{name}")

    def gang_of(self, facts: PodFacts) -> str:
        return facts.labels.get(vocabulary.POD_GROUP.key, "")

    def bound(self, gang: str) -> set[str]:
        """Names of the members that have a node."""
        return {it.name for it in self.pods.values() if self.gang_of(it) == gang and it.node_name is not None}

    def booked(self, gang: str) -> set[str]:
        """Names of the members that are booked and not bound, by the engine's books."""
        bookings = self.engine.cluster.ledger.bookings
        return {self.pods[uid].name for uid in bookings if uid in self.pods and self.gang_of(self.pods[uid]) == gang}

    def evicted(self) -> list[str]:
        return [said.name for said in self.said if isinstance(said, Evict)]

    # -- kube-scheduler ----------------------------------------------------------------------------------------------

    def start_bind(self, uid: str, node_name: str | None = None) -> BindOrder | BindWait | BindRefusal:
        """kube-scheduler asks filter, and then bind. What may be written flies from then on."""
        facts = self.pods[uid]
        if node_name is None:
            chosen = self.filter(uid)
            if not chosen:
                return BindRefusal("filter left no node")
            node_name = chosen[0]
        order = self.engine.binding.start(uid, facts.namespace, facts.name, node_name, self.now_ms)
        self._take(uid, node_name, order)
        return order

    def _take(self, uid: str, node_name: str, order: BindOrder | BindWait | BindRefusal) -> None:
        self.waiting.pop(uid, None)
        if isinstance(order, BindWait):
            self.waiting[uid] = (order, node_name)
        elif isinstance(order, BindOrder):
            self._check_order(order)
            self.flying[uid] = order
        else:
            self.answers[uid] = order.error

    def _check_order(self, order: BindOrder) -> None:
        """No Binding of a gang before all that its minimum needs are at bind, and the first one goes alone."""
        gang = self.gang_of(self.pods[order.uid]) if order.uid in self.pods else ""
        if not gang or gang in self.begun or self.bound(gang) or self.flying.get(order.uid) == order:
            return
        at_bind = {
            uid for uid in (*self.waiting, order.uid) if uid in self.pods and self.gang_of(self.pods[uid]) == gang
        }
        found = self.objects.named(vocabulary.API_GROUP, "PodGroup", "default", gang)
        assert found is not None, f"a Binding of {gang}, of which nothing is known"
        known = self.engine.roster.records[order.uid].gang
        if known is None:
            assert [minimum for _, minimum in minima(found)] <= [1], "it needs no others"
            return
        ended = sum(known.ended.values())
        for subgroup, minimum in minima(found):
            there = {uid for uid in at_bind if self.pods[uid].labels.get(vocabulary.SUBGROUP.key, "") == subgroup}
            assert len(there) + ended >= minimum, f"{gang} {subgroup}: {len(there)} of {minimum} are at bind"
        others = {uid for uid in self.flying if uid in self.pods and self.gang_of(self.pods[uid]) == gang}
        assert others <= {order.uid}, "the first goes alone"

    def land(self, uid: str, how: str = "bound") -> None:
        """What becomes of a flying Binding: `bound`; `unheard` (it binds, the answer is lost) or `lost` (it does not);
        `gone`, `elsewhere`: it failed for certain.
        """
        order = self.flying.pop(uid)
        there = uid in self.pods and self.pods[uid].node_name is None and self.pods[uid].deleted_ms is None
        if how in ("bound", "unheard") and there:
            self.write_binding(order)
        if how in ("bound", "unheard", "lost") and uid in self.pods:
            self.begun.add(self.gang_of(self.pods[uid]))
        how = how if there or how != "bound" else "gone"
        bound = how == "bound"
        self.answers[uid] = "" if bound else how
        self.engine.binding.finish(uid, bound, self.now_ms, keep_booking=how in ("unheard", "lost"))
        if bound:
            self.show(uid)

    def land_all(self) -> None:
        """All flying Bindings are written."""
        for uid in sorted(self.flying):
            self.land(uid)

    def wake(self) -> None:
        """Those whose gang is decided go on, and those whose time is over."""
        for uid, (wait, node_name) in sorted(self.waiting.items()):
            over = wait.until_ms <= self.now_ms
            if wait.gang not in self.decided and not over:
                continue
            if over:
                self.engine.binding.waited_in_vain(uid, self.now_ms)
            self._take(uid, node_name, self.engine.binding.go_on(wait, uid, node_name, self.now_ms))
        self.decided.clear()
        self._forget_the_begun()

    def at_bind(self, uids: Iterable[str] | None = None) -> None:
        """Brings all released pods to bind, none further."""
        for uid in sorted(self.pods) if uids is None else uids:
            facts = self.pods[uid]
            free = facts.node_name is None and not facts.gates and facts.deleted_ms is None
            if free and facts.scheduler_name == "tangram" and uid not in self.waiting and uid not in self.flying:
                self.start_bind(uid)
        self.wake()

    def run(self, rounds: int = 6) -> None:
        """Plans, and everything goes well, until nothing more happens."""
        for _ in range(rounds):
            self.plan()
            self.wake()
            self.at_bind()
            for _ in range(3):
                self.land_all()
                self.wake()
            self.check()

    def later(self, ms: int) -> None:
        """Time passes, and nothing else happens but a round."""
        self.now_ms += ms
        self.plan()
        self.wake()

    def _forget_the_begun(self) -> None:
        """A gang of which nobody is bound, and no Binding may still take effect, has to come together anew."""
        for gang in list(self.begun):
            known = [self.engine.roster.records.get(uid) for uid, it in self.pods.items() if self.gang_of(it) == gang]
            if not self.bound(gang) and all(one is None or one.settled(self.now_ms) for one in known):
                self.begun.discard(gang)

    # -- what is always true -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Parts agree, no device and no node is over its capacity, and no gang is bound in part for no reason."""
        self.engine.validate()
        for (name, index), (milli, _) in self.devices_in_use().items():
            assert milli <= 1000, (name, index)
        entries = self.engine.cluster.ledger.entries
        for entry in entries.values():
            if entry.bound:
                assert self.pods[entry.uid].node_name == entry.node
        used: dict[tuple[str, int], int] = {}
        for entry in entries.values():
            for device in entry.allocation.devices:
                key = (entry.node, device.index)
                used[key] = used.get(key, 0) + device.milli
        assert all(milli <= 1000 for milli in used.values())
        flying = set(self.flying)
        for uid, record in self.engine.roster.records.items():
            assert not (record.at_barrier and uid in flying), f"{uid} has a Binding on its way and counts as waiting"


def minima(facts: ObjectFacts) -> list[tuple[str, int]]:
    """(subgroup, minimum), the subgroup "" for a group without any."""
    found = facts.spec.get("subGroups")
    if found:
        return [(one["name"], one["minMember"]) for one in found]
    return [("", facts.spec.get("minMember", 1))]


def rack(name: str, at: int, *nodes: NodeFacts) -> list[NodeFacts]:
    """The nodes in a rack."""
    return [replace(one, labels={**one.labels, RACK: f"{name}{at}"}) for one in nodes]
