"""Invariants of the engine over any order of events: created, deleted, finished, repeated, lost, restarted.

The machine keeps the API's truth apart from what the engine was shown, and checks against the truth.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.engine import Engine
from scheduler.instruction import BindOrder, BindRefusal, Instruction, Nominate, Release
from scheduler.pod import PodFacts
from scheduler.record import Stage
from tests.engine.world import GPU, World, engine, node, pod, share
from topology import vocabulary

NODES = {"n1": node("n1", gpus=2, cpu_milli=6000), "n2": node("n2", gpus=3, cpu_milli=9000), "n3": node("n3", gpus=1)}

PODS = st.one_of(
    st.builds(lambda n: {"whole": n}, st.integers(1, 3)),
    st.builds(lambda f: {"annotations": {"gpu-fraction": f"0.{f}"}}, st.integers(1, 9)),
    st.builds(lambda m: {"annotations": {"gpu-memory": str(m)}}, st.integers(1000, 40_000)),
    st.just({"annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}}),
    st.just({"annotations": {"gpu-fraction": "7"}}),
    st.builds(lambda c: {"cpu_milli": c}, st.integers(500, 4000)),
)


class EngineMachine(RuleBasedStateMachine):
    """Two engines get the same calls (they must answer alike); `world` is the truth."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self._fresh())
        self.twin = self._fresh()
        self.serial = 0
        self.unseen: list[str] = []
        self.flying: dict[str, BindOrder] = {}
        """Bindings that were ordered and of which nobody knows yet what became."""

    @staticmethod
    def _fresh() -> Engine:
        return engine(max_in_flight=6, booking_deadline_ms=5000, nominate_from_nodes=3)

    @initialize()
    def cluster(self) -> None:
        for facts in NODES.values():
            self._node(facts)

    def _both(self, call: Callable[[Engine], object]) -> object:
        first, second = call(self.world.engine), call(self.twin)
        assert first == second, "the same state and input gave different answers"
        return first

    def _node(self, facts: object) -> None:
        self._both(lambda e: e.cluster.set_node(facts))  # type: ignore[arg-type]

    def _show(self, uid: str) -> None:
        facts, now_ms = self.world.pods.get(uid), self.world.now_ms
        self._both(lambda e: e.remove_pod(uid) if facts is None else e.apply_pod(facts, now_ms))

    # -- the truth changes, and the watch shows it now, later, twice or never ------------------------------------

    @rule(kind=PODS, gated=st.booleans(), priority=st.integers(0, 2), seen=st.booleans())
    def create(self, kind: dict[str, object], gated: bool, priority: int, seen: bool) -> None:
        self.serial += 1
        facts = pod(f"p{self.serial:03}", gated=gated, priority=priority, created_ms=self.serial, **kind)  # type: ignore[arg-type]
        self._change(facts, seen)

    @rule(where=st.sampled_from(sorted(NODES)), whole=st.integers(0, 2), seen=st.booleans())
    def stranger(self, where: str, whole: int, seen: bool) -> None:
        self.serial += 1
        self._change(pod(f"x{self.serial:03}", whole=whole, scheduler="other", node_name=where), seen)

    def _change(self, facts: PodFacts, seen: bool) -> None:
        self.world.pods[facts.uid] = facts
        if seen:
            self._show(facts.uid)
        else:
            self.unseen.append(facts.uid)

    def _pick(self, data: st.DataObject, wanted: Callable[[PodFacts], bool]) -> PodFacts | None:
        found = sorted(uid for uid, facts in self.world.pods.items() if wanted(facts))
        return self.world.pods[data.draw(st.sampled_from(found))] if found else None

    @rule(data=st.data(), seen=st.booleans())
    def delete(self, data: st.DataObject, seen: bool) -> None:
        facts = self._pick(data, lambda _: True)
        if facts is not None:
            del self.world.pods[facts.uid]
            if seen:
                self._show(facts.uid)
            else:
                self.unseen.append(facts.uid)

    @rule(data=st.data(), seen=st.booleans(), phase=st.sampled_from(["Succeeded", "Running"]))
    def phase(self, data: st.DataObject, seen: bool, phase: str) -> None:
        facts = self._pick(data, lambda f: f.node_name is not None)
        if facts is not None:
            self._change(replace(facts, phase=phase), seen)

    @rule(data=st.data(), seen=st.booleans())
    def terminate(self, data: st.DataObject, seen: bool) -> None:
        facts = self._pick(data, lambda _: True)
        if facts is not None:
            self._change(replace(facts, deleted_ms=self.world.now_ms), seen)

    @precondition(lambda self: self.unseen)
    @rule(data=st.data(), keep=st.booleans())
    def deliver(self, data: st.DataObject, keep: bool) -> None:
        uid = data.draw(st.sampled_from(self.unseen))
        if not keep:
            self.unseen.remove(uid)
        self._show(uid)

    @rule()
    def relist(self) -> None:
        """What a reflector does after it lost its place: all that is, and deletes for what is no more."""
        known = set(self.world.engine.roster.records) | set(self.world.engine.cluster.ledger.entries)
        for uid in sorted(known | set(self.world.pods)):
            self._show(uid)
        self.unseen.clear()
        self._check_ledger_is_the_truth()

    @rule(name=st.sampled_from(sorted(NODES)), lost=st.integers(0, 1))
    def node_changes(self, name: str, lost: int) -> None:
        facts = NODES[name]
        self._node(replace(facts, allocatable={**facts.allocatable, GPU: facts.allocatable[GPU] - lost}))

    @rule(name=st.sampled_from(sorted(NODES)))
    def node_goes(self, name: str) -> None:
        self._both(lambda e: e.cluster.remove_node(name))

    @rule()
    def restart(self) -> None:
        """Everything in memory is lost; nodes and pods are listed before anything is answered."""
        self.world.engine, self.twin = self._fresh(), self._fresh()
        self.flying.clear()
        self.cluster()
        for uid in sorted(self.world.pods):
            self._show(uid)
        self.unseen.clear()
        self._check_ledger_is_the_truth()

    # -- the engine acts -----------------------------------------------------------------------------------------

    @rule(works=st.lists(st.booleans(), min_size=6, max_size=6), ms=st.integers(0, 3000))
    def plan(self, works: list[bool], ms: int) -> None:
        self.world.now_ms += ms
        now_ms = self.world.now_ms
        before = self._overfull()
        answer = self._both(lambda e: e.plan(now_ms))
        assert self._overfull() <= before
        instructions: list[Instruction] = answer[0]  # type: ignore[index]
        for instruction, ok in zip(instructions, works * 20, strict=False):
            uid = instruction.uid
            if isinstance(instruction, Nominate) and ok:
                self.world.nominate(uid, instruction.node)
                self.unseen.append(uid)
            if isinstance(instruction, Release):
                if ok:
                    self.world.release(uid)
                    self.unseen.append(uid)
                self._both(lambda e, uid=uid, ok=ok: e.released(uid, ok, now_ms))  # type: ignore[misc]

    @rule(data=st.data(), offered=st.sets(st.sampled_from([*sorted(NODES), "unknown"]), min_size=1))
    def kube_scheduler_filters(self, data: st.DataObject, offered: set[str]) -> None:
        facts = self._pick(data, lambda f: f.node_name is None and not f.gates and f.scheduler_name == "tangram")
        if facts is None:
            return
        before, names, now_ms = self._overfull(), sorted(offered), self.world.now_ms
        nominated = facts.nominated_node
        verdict = self._both(lambda e: e.filter(facts, names, now_ms, nominated))
        assert self._overfull() <= before
        assert set(verdict.nodes) <= offered  # type: ignore[attr-defined]
        assert bool(verdict.nodes) + bool(verdict.refused) + bool(verdict.error) == 1  # type: ignore[attr-defined]
        again = self._both(lambda e: e.filter(facts, names, now_ms, nominated))
        assert again.nodes == verdict.nodes, "asked again it answers the same"  # type: ignore[attr-defined]

    @rule(
        data=st.data(),
        works=st.sampled_from(["bound", "fails", "unheard", "hangs"]),
        where=st.sampled_from(sorted(NODES)),
    )
    def kube_scheduler_binds(self, data: st.DataObject, works: str, where: str) -> None:
        """`unheard`: the API server bound the pod, but the answer was lost; `hangs`: it lands or fails later."""
        facts = self._pick(data, lambda f: f.node_name is None and not f.gates and f.scheduler_name == "tangram")
        if facts is None:
            return
        entry = self.world.engine.cluster.ledger.entries.get(facts.uid)
        target = where if entry is None else entry.node
        before, now_ms = self._overfull(), self.world.now_ms
        order = self._both(lambda e: e.binding.start(facts.uid, facts.namespace, facts.name, target, now_ms))
        assert self._overfull() <= before
        if isinstance(order, BindRefusal):
            return
        assert isinstance(order, BindOrder)
        if works == "hangs":
            self.flying[facts.uid] = order
            return
        if works != "fails" and facts.deleted_ms is None:
            self.world.write_binding(order)
            self.unseen.append(facts.uid)
        bound = works == "bound" and facts.deleted_ms is None
        self._both(lambda e: e.binding.finish(facts.uid, bound, now_ms))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), lands=st.booleans(), heard=st.booleans())
    def a_flying_binding_ends(self, data: st.DataObject, lands: bool, heard: bool) -> None:
        order = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
        facts, now_ms = self.world.pods.get(order.uid), self.world.now_ms
        lands = lands and facts is not None and facts.node_name is None and facts.deleted_ms is None
        if lands:
            self.world.write_binding(order)
            self.unseen.append(order.uid)
        self._both(lambda e: e.binding.finish(order.uid, lands and heard, now_ms))

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def kube_scheduler_forgets_a_bind(self, data: st.DataObject) -> None:
        """It restarted, or its call timed out: the pod is offered every node but the one it may be bound to."""
        order = self.flying[data.draw(st.sampled_from(sorted(self.flying)))]
        facts, now_ms = self.world.pods.get(order.uid), self.world.now_ms
        if facts is not None and facts.node_name is None:
            names = sorted(set(NODES) - {order.node})
            self._both(lambda e: e.filter(facts, names, now_ms, None))

    @rule(hangs=st.booleans())
    def kube_scheduler_works(self, hangs: bool) -> None:
        """Filter with every node, then bind, for all pods it has."""
        now_ms = self.world.now_ms
        for uid, facts in sorted(self.world.pods.items()):
            if facts.node_name is not None or facts.gates or facts.deleted_ms or facts.scheduler_name != "tangram":
                continue
            verdict = self._both(lambda e, f=facts: e.filter(f, sorted(NODES), now_ms, f.nominated_node))  # type: ignore[misc]
            if not verdict.nodes:  # type: ignore[attr-defined]
                continue
            node_name = verdict.nodes[0]  # type: ignore[attr-defined]
            order = self._both(
                lambda e, f=facts, n=node_name: e.binding.start(f.uid, f.namespace, f.name, n, now_ms)  # type: ignore[misc]
            )
            if not isinstance(order, BindOrder):
                continue
            if hangs:
                self.flying[uid] = order
            elif uid not in self.flying:
                self.world.write_binding(order)
                self.unseen.append(uid)
                self._both(lambda e, u=uid: e.binding.finish(u, True, now_ms))  # type: ignore[misc]

    @rule(data=st.data())
    def late_question(self, data: st.DataObject) -> None:
        """kube-scheduler speaks of a pod of another scheduler that may be bound already, or gone."""
        facts = self._pick(data, lambda f: f.scheduler_name == "other")
        if facts is not None:
            unbound, now_ms = replace(facts, node_name=None), self.world.now_ms
            self._both(lambda e: e.meet(unbound, now_ms))

    @rule(data=st.data(), seen=st.booleans(), app=st.sampled_from(["web", "db"]))
    def relabel(self, data: st.DataObject, seen: bool, app: str) -> None:
        facts = self._pick(data, lambda _: True)
        if facts is not None:
            self._change(replace(facts, labels={"app": app}), seen)

    # -- what is always true -------------------------------------------------------------------------------------

    def _overfull(self) -> set[tuple[str, int]]:
        """(node, column) that is used beyond its capacity: only the outside can cause one."""
        state = self.world.engine.cluster.state
        return {
            (name, column)
            for name, slot in state.slot_of.items()
            for column in range(state.arrays.free.shape[1])
            if state.arrays.free[slot, column] < 0
        }

    @invariant()
    def parts_agree(self) -> None:
        self.world.engine.validate()

    @invariant()
    def no_device_is_over_booked_in_the_api(self) -> None:
        for (name, index), (milli, mib) in self.world.devices_in_use().items():
            assert milli <= 1000, (name, index)
            assert mib <= 40_000, (name, index)

    @invariant()
    def no_device_is_over_booked_in_memory(self) -> None:
        used: dict[tuple[str, int], int] = {}
        for entry in self.world.engine.cluster.ledger.entries.values():
            for device in entry.allocation.devices:
                key = (entry.node, device.index)
                used[key] = used.get(key, 0) + device.milli
        assert all(milli <= 1000 for milli in used.values())

    def _check_ledger_is_the_truth(self) -> None:
        """With everything shown, entries are the bound pods of the API and the live bookings, and nothing else."""
        entries = self.world.engine.cluster.ledger.entries
        bound = {uid for uid, f in self.world.pods.items() if f.node_name is not None and not f.finished}
        assert {uid for uid, entry in entries.items() if entry.bound} == bound
        for uid, entry in entries.items():
            if not entry.bound:
                assert uid in self.world.pods
                stage = self.world.engine.roster.records[uid].stage
                assert stage in (Stage.PLANNED, Stage.RELEASED, Stage.BINDING)
            else:
                facts = self.world.pods[uid]
                assert entry.node == facts.node_name
                if vocabulary.ALLOCATION in facts.annotations:
                    assert entry.allocation.devices


EngineMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestEngineMachine = EngineMachine.TestCase


@given(seed=st.integers(0, 2**32), fractions=st.lists(st.integers(1, 9), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_the_plan_does_not_depend_on_the_order_of_arrival(seed: int, fractions: list[int]) -> None:
    """Nodes and bound pods arrive in another order: the same state, so the same plan."""
    first = World(engine())
    first.add_nodes(*NODES.values())
    first.create(*(share(f"b{i}", f"0.{f}", created_ms=i) for i, f in enumerate(fractions)))
    first.schedule_all()
    shuffled = random.Random(seed)
    nodes, bound = list(NODES.values()), list(first.pods.items())
    shuffled.shuffle(nodes)
    shuffled.shuffle(bound)
    second = World(engine(), pods=dict(bound))
    second.add_nodes(*nodes)
    for uid in second.pods:
        second.show(uid)
    waiting = [share(f"w{i}", f"0.{f}", created_ms=100 + i) for i, f in enumerate(fractions)]
    for world in (first, second):
        world.create(*waiting)
        world.schedule_all()
    for facts in waiting:
        assert first.pods[facts.uid].node_name == second.pods[facts.uid].node_name
        assert first.pods[facts.uid].annotations == second.pods[facts.uid].annotations
