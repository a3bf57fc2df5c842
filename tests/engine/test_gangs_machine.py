"""Invariants of gangs over any order of events: late pods, binds that wait, fly and fail, nodes that go, groups
that change, replicas that take over, restarts.

After each step: nothing over its capacity, no Binding of a gang before all that its minimum needs are at bind (the
world refuses one), the ledger is what the API shows and the live bookings, queues hold no more than they may. Once
nothing more happens, no gang is left in part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.pod import PodFacts
from scheduler.record import Stage
from tests.engine.gang_world import RACK, GangWorld, group, member, minima
from tests.engine.world import node, pod
from tests.replay.queued import in_queue, queue
from topology import vocabulary
from topology.node import NodeFacts

NODES: dict[str, NodeFacts] = {
    name: node(name, gpus=gpus, labels={RACK: rack})
    for name, gpus, rack in (("n1", 3, "r1"), ("n2", 2, "r1"), ("n3", 2, "r2"), ("n4", 1, "r2"))
}
LIMIT = 6
QUEUES = (queue("a", quota=4, limit=LIMIT), queue("b", quota=4))
GANGS = ("g", "h", "i")
QUEUE_OF = {"g": "a", "h": "a", "i": "b"}
NEAR = {"topologyConstraint": {"requiredTopologyLevel": RACK}}
WATCH_LAG_MS = 10_000
"""Less than a Binding without an answer is waited for."""
OUTCOMES = st.sampled_from(["bound", "bound", "bound", "unheard", "lost", "gone", "elsewhere"])


class GangMachine(RuleBasedStateMachine):
    """One engine, and the truth beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GangWorld(
            settings={"max_in_flight": 5, "booking_deadline_ms": 20_000, "gang_bind_wait_ms": 30_000}
        )
        self.serial = 0
        self.seen_ms = self.world.now_ms
        """When the watch had shown everything."""

    @initialize(minimum=st.integers(2, 4))
    def begin(self, minimum: int) -> None:
        self.world.add_nodes(*NODES.values())
        self.world.set_queues(*QUEUES)
        self.group("g", minimum, near=False)
        self.group("i", 2, near=True)

    # -- what users and controllers do -----------------------------------------------------------------------------

    @rule(gang=st.sampled_from(GANGS), minimum=st.integers(1, 4), near=st.booleans())
    def group(self, gang: str, minimum: int, near: bool) -> None:
        self.world.set_group(group(gang, minimum, queue=QUEUE_OF[gang], **(NEAR if near else {})))

    @rule(gang=st.sampled_from(GANGS))
    def group_goes(self, gang: str) -> None:
        found = self.world.objects.named(vocabulary.API_GROUP, "PodGroup", "default", gang)
        if found is not None:
            self.world.drop_group(found)

    @rule(gang=st.sampled_from(GANGS), count=st.integers(1, 4), gated=st.booleans(), priority=st.integers(0, 1))
    def pods_come(self, gang: str, count: int, gated: bool, priority: int) -> None:
        for _ in range(count):
            self.serial += 1
            facts = member(gang, self.serial, gated=gated, priority=priority, created_ms=self.serial)
            self.world.create(in_queue(QUEUE_OF[gang], facts))

    @rule(gang=st.sampled_from(GANGS), more=st.integers(0, 1), last=st.booleans())
    def a_gang_comes_to_bind(self, gang: str, more: int, last: bool) -> None:
        """As many as it needs, or more, are planned and come to bind, the last of them or not."""
        found = self.world.objects.named(vocabulary.API_GROUP, "PodGroup", "default", gang)
        if found is not None:
            self.pods_come(gang, minima(found)[0][1] + more, gated=True, priority=1)
            self.plan(10)
            free = [uid for uid, facts in sorted(self.world.pods.items()) if self._is_free(facts)]
            self.world.at_bind(free if last else free[:-1])

    @rule(whole=st.integers(1, 2), label=st.sampled_from(["a", "b"]))
    def single(self, whole: int, label: str) -> None:
        self.serial += 1
        self.world.create(in_queue(label, pod(f"s-{self.serial}", whole=whole, created_ms=self.serial)))

    def _pick(self, data: st.DataObject, wanted: Callable[[PodFacts], bool] = lambda _: True) -> PodFacts | None:
        found = sorted(uid for uid, facts in self.world.pods.items() if wanted(facts))
        return self.world.pods[data.draw(st.sampled_from(found))] if found else None

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        facts = self._pick(data)
        if facts is not None:
            self.world.delete(facts.uid)

    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        facts = self._pick(data)
        if facts is not None:
            self.world.change(facts.uid, deleted_ms=self.world.now_ms)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        facts = self._pick(data, lambda it: it.node_name is not None)
        if facts is not None:
            self.world.end(facts.name)

    @rule(data=st.data(), gang=st.sampled_from(GANGS))
    def another_gang(self, data: st.DataObject, gang: str) -> None:
        facts = self._pick(data, lambda it: it.node_name is None and bool(it.labels.get(vocabulary.POD_GROUP.key)))
        if facts is not None and facts.uid not in self.world.flying:
            named = {vocabulary.POD_GROUP.key: gang, vocabulary.QUEUE.key: QUEUE_OF[gang]}
            self.world.change(facts.uid, labels={**facts.labels, **named})

    @rule(name=st.sampled_from(sorted(NODES)), how=st.sampled_from(["goes", "closes", "comes", "comes"]))
    def a_node(self, name: str, how: str) -> None:
        if how == "goes":
            self.world.nodes.pop(name, None)
            self.world.engine.cluster.remove_node(name)
        else:
            self.world.add_nodes(replace(NODES[name], unschedulable=how == "closes"))

    # -- what the scheduler and kube-scheduler do ------------------------------------------------------------------

    @rule(ms=st.sampled_from([0, 10, 1500, 5000, 40_000]))
    def plan(self, ms: int) -> None:
        # so late is no watch: a Binding whose answer was lost is seen before its place is given away
        if self.world.now_ms + ms > self.seen_ms + WATCH_LAG_MS:
            for uid in sorted(uid for uid, facts in self.world.pods.items() if facts.node_name is not None):
                self.world.show(uid)
            self.seen_ms = self.world.now_ms + ms
        self.world.later(ms)
        self._nobody_holds_or_waits_for_nothing()

    def _nobody_holds_or_waits_for_nothing(self) -> None:
        """After a round: who waits at bind has a place, and gangs that lack pods keep none."""
        world, records = self.world, self.world.engine.roster.records
        for uid in world.waiting:
            assert uid in records, f"{uid} is gone and has no answer"
            assert records[uid].at_barrier, f"{uid} has lost its place and has no answer"
        for gang in {world.gang_of(facts) for facts in world.pods.values()} - {""}:
            there = [facts for facts in world.pods.values() if world.gang_of(facts) == gang]
            found = world.objects.named(vocabulary.API_GROUP, "PodGroup", "default", gang)
            known = [one for one in world.engine.gangs if one.key.name == gang]
            if found is None or not known or not all(records[it.uid].settled(world.now_ms) for it in there):
                continue
            alive = sum(facts.deleted_ms is None for facts in there) + sum(known[0].ended.values())
            if alive < minima(found)[0][1] and not world.bound(gang):
                assert not world.booked(gang), f"{gang} lacks pods and keeps places"

    @rule(data=st.data())
    def one_comes_to_bind(self, data: st.DataObject) -> None:
        facts = self._pick(data, self._is_free)
        if facts is not None:
            self.world.start_bind(facts.uid)

    @rule()
    def all_come_to_bind(self) -> None:
        self.world.at_bind(uid for uid, facts in sorted(self.world.pods.items()) if self._is_free(facts))

    def _is_free(self, facts: PodFacts) -> bool:
        return facts.node_name is None and not facts.gates and facts.deleted_ms is None

    @precondition(lambda self: self.world.waiting or self.world.flying)
    @rule(data=st.data())
    def asked_again(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted({*self.world.waiting, *self.world.flying})))
        if uid in self.world.pods and self.world.pods[uid].node_name is None:
            self.world.start_bind(uid)

    @rule(data=st.data(), offered=st.sets(st.sampled_from(sorted(NODES))))
    def not_offered(self, data: st.DataObject, offered: set[str]) -> None:
        facts = self._pick(data, self._is_free)
        if facts is not None and facts.uid not in self.world.waiting:
            self.world.filter(facts.uid, sorted(offered))

    @rule()
    def those_that_wait_wake(self) -> None:
        self.world.wake()

    @precondition(lambda self: self.world.flying)
    @rule(data=st.data(), how=OUTCOMES)
    def a_binding_ends(self, data: st.DataObject, how: str) -> None:
        uid = data.draw(st.sampled_from(sorted(self.world.flying)))
        if how == "gone":
            self.world.pods.pop(uid, None)
        self.world.land(uid, how)
        if how == "gone":
            self.world.show(uid)

    @rule(data=st.data())
    def the_watch_repeats(self, data: st.DataObject) -> None:
        facts = self._pick(data)
        if facts is not None:
            self.world.show(facts.uid)

    @rule()
    def another_replica(self) -> None:
        self.world.engine.stand_down(self.world.now_ms)
        self.world.wake()
        self.world.engine.take_over(self.world.now_ms)

    @rule(lands=st.booleans())
    def restart(self, lands: bool) -> None:
        for uid in sorted(self.world.flying) if lands else ():
            self.world.land(uid, "unheard")
        self.world.restart()

    # -- what is always true ---------------------------------------------------------------------------------------

    @invariant()
    def parts_agree(self) -> None:
        self.world.check()

    @invariant()
    def the_ledger_is_the_truth(self) -> None:
        world, records = self.world, self.world.engine.roster.records
        for uid, entry in world.engine.cluster.ledger.entries.items():
            facts = world.pods[uid]
            assert entry.bound == (facts.node_name is not None) or uid in self._unheard(), uid
            if not entry.bound:
                assert records[uid].stage in (Stage.PLANNED, Stage.RELEASED, Stage.BINDING)
        held = sum(
            facts.containers[0].requests.get("nvidia.com/gpu", 0) * 1000
            for uid, facts in world.pods.items()
            if uid in world.engine.cluster.ledger.entries and self._queue(facts) == "a"
        )
        standing = world.engine.cluster.accounts.books["a"]
        assert standing.allocated.gpu_milli == held
        assert held <= LIMIT * 1000

    def _unheard(self) -> set[str]:
        """Bound in the API, and the watch has not shown it."""
        entries = self.world.engine.cluster.ledger.entries
        return {uid for uid, it in self.world.pods.items() if it.node_name is not None and not entries[uid].bound}

    @staticmethod
    def _queue(facts: PodFacts) -> str | None:
        return facts.labels.get(vocabulary.QUEUE.key)

    @invariant()
    def who_waits_at_bind_has_a_place_or_is_told(self) -> None:
        """After a round nobody waits at bind in vain: see `later`, which wakes them."""
        records = self.world.engine.roster.records
        for uid, record in records.items():
            if record.at_barrier:
                assert record.stage is Stage.BINDING
                assert uid in self.world.engine.cluster.ledger.entries
                assert uid in self.world.waiting, f"{uid} waits and nobody asks"

    def teardown(self) -> None:
        """Nothing more happens from outside: it comes to rest, and what is bound in part is bound for a reason."""
        world = self.world
        if not world.nodes:
            return
        for uid in sorted(world.flying):
            world.land(uid)
        for uid in sorted(world.pods):
            if world.pods[uid].deleted_ms is not None:
                world.delete(uid)
            else:
                world.show(uid)
        for _ in range(12):
            world.now_ms += 40_000
            world.run(1)
        assert not world.flying
        assert not world.waiting
        for gang in GANGS:
            found = world.objects.named(vocabulary.API_GROUP, "PodGroup", "default", gang)
            booked = world.booked(gang)
            assert not booked, f"{gang} keeps places that nobody uses: {booked}"
            if found is not None and not world.bound(gang):
                self._nobody_could_start(gang, minima(found)[0][1])

    def _nobody_could_start(self, gang: str, minimum: int) -> None:
        """A gang waits as a whole only for want of pods, of room or of its queue's limit."""
        world = self.world
        there = [it for it in world.pods.values() if world.gang_of(it) == gang]
        if len(there) < minimum or not there:
            return
        record = world.engine.roster.records[there[0].uid]
        assert record.stage is Stage.WAITING
        assert world.engine.why(record, world.now_ms) is not None


GangMachine.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestGangMachine = GangMachine.TestCase
