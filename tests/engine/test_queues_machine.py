"""Invariants of queues over any order of events, counted anew from the pods by arithmetic of this file alone.

Two engines see the same and must say the same. What an engine remembers of earlier rounds must not matter: once nothing
more happens, a third one that has just started finds nothing to do either.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queues.amounts import UNLIMITED
from queues.spec import Access, QueueSpec, Terms
from scheduler.pod import PodFacts
from scheduler.record import Stage
from tests.engine.world import GPU, node, pod
from tests.replay.queued import QueuedWorld, engine, exposed, released
from topology import vocabulary
from topology.node import NodeFacts

MIB = {"t1": 40_000, "t2": 20_000, "h1": 80_000, "h2": 80_000}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
NODES: dict[str, NodeFacts] = {
    "t1": node("t1", gpus=2, mib=MIB["t1"], cpu_milli=6000),
    "t2": node("t2", gpus=1, mib=MIB["t2"], cpu_milli=3000),
    "h1": node("h1", gpus=2, mib=MIB["h1"], labels=H100),
    "h2": node("h2", gpus=1, mib=MIB["h2"], labels=H100),
}
QUEUES = tuple(f"q{at}" for at in range(6))
NAMESPACES = ("default", "blue")
NEVER_MS = 1 << 40

GATED = vocabulary.GATE


def kind(chance: random.Random) -> dict[str, Any]:
    """What a pod asks for."""
    whole, milli, mib = chance.randint(1, 2), chance.randint(2, 9), chance.randint(1, 8) * 5000
    halves = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    return chance.choice(
        [
            {"whole": whole},
            {"whole": whole},
            {"annotations": {"gpu-fraction": f"0.{milli}"}},
            {"annotations": {"gpu-memory": str(mib)}},
            {"annotations": halves},
            {"cpu_milli": 500 * milli},
        ]
    )


def device_terms(chance: random.Random) -> Terms:
    quota = chance.choice([UNLIMITED, 0, 1000, 2000])
    limit = chance.choice([UNLIMITED, UNLIMITED, UNLIMITED, 0, 500, 1000, 2000, 3000])
    return Terms(quota, limit, chance.choice([0, 1000, 1000, 3000]))


def tree(chance: random.Random) -> tuple[QueueSpec, ...]:
    """Some of the queues in any hierarchy; now and then one whose parent is missing."""
    found = []
    for at, name in enumerate(QUEUES[: chance.choice([0, 1, 2, 3, 4, 5, 6, 6])]):
        behind = chance.choice(["", "", "", "strict", "visible", "cordoned"])
        found.append(
            QueueSpec(
                name,
                chance.choice([None, None, *QUEUES[:at]] if at else [None, None, None, "gone"]),
                priority=chance.choice([100, 100, 200]),
                cpu=Terms(UNLIMITED, chance.choice([UNLIMITED, UNLIMITED, UNLIMITED, 3000])),
                gpu=device_terms(chance),
                models=chance.choice([{}, {}, {"H100": Terms(UNLIMITED, 1000)}, {"H100": Terms(1000, 2000)}]),
                access=chance.choice([Access(), Access(), Access(), Access(frozenset({"blue"}))]),
                cordoned=behind == "cordoned",
                strict_fifo=behind == "strict",
                autoscaling_visible=behind == "visible",
            )
        )
    return tuple(found)


# -- the count ---------------------------------------------------------------------------------------------------------


@dataclass
class Count:
    """What one queue and those below it hold: CPU and devices in thousandths, and what of them cannot give way."""

    held: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)

    def add(self, amounts: dict[str, int], fixed: bool) -> None:
        for sums in (self.held, self.fixed) if fixed else (self.held,):
            for resource, amount in amounts.items():
                sums[resource] = sums.get(resource, 0) + amount


class Rules:
    """The queues as they are now, and what follows from them, in the plainest words."""

    def __init__(self, specs: tuple[QueueSpec, ...], defaults: dict[str, str | None]) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self.defaults = defaults

    def path(self, name: str | None) -> list[QueueSpec]:
        """The queue and those above it; empty where there is no way up."""
        found: list[QueueSpec] = []
        while name is not None:
            spec = self.specs.get(name)
            if spec is None:
                return []
            found.append(spec)
            name = spec.parent
        return found

    def queue_of(self, facts: PodFacts) -> list[QueueSpec]:
        """The path of the pod's queue."""
        return self.path(facts.labels.get(vocabulary.QUEUE.key) or self.defaults.get(facts.namespace))

    def may_start(self, facts: PodFacts) -> bool:
        """Whether the pod's queue is one that takes work of its namespace."""
        path = self.queue_of(facts)
        if not path or any(spec.parent == path[0].name for spec in self.specs.values()):
            return False
        said = next((spec.access for spec in path if spec.access.namespaces), None)
        allowed = said is None or facts.namespace in said.namespaces
        return allowed and not any(spec.cordoned for spec in path)

    def count(self, holders: Iterator[tuple[PodFacts, str]]) -> dict[str, Count]:
        """By name of the queue."""
        counts = {name: Count() for name in self.specs}
        for facts, where in holders:
            fixed = facts.labels.get(vocabulary.PREEMPTIBILITY.key) == vocabulary.NON_PREEMPTIBLE
            for spec in self.queue_of(facts):
                counts[spec.name].add(amounts_of(facts, where), fixed)
        return counts

    def bound(self, name: str, resource: str, *, fixed: bool) -> int:
        """The limit, or the quota for what cannot give way."""
        spec = self.specs[name]
        terms = {"cpu": spec.cpu, "gpu": spec.gpu}.get(resource) or spec.models.get(resource)
        if terms is None:
            return UNLIMITED
        return terms.quota if fixed else terms.limit


def amounts_of(facts: PodFacts, where: str) -> dict[str, int]:
    """What a pod counts for on that node: CPU, devices, and devices of its model."""
    (main,) = facts.containers
    count = int(facts.annotations.get("gpu-fraction-num-devices", "1"))
    milli = main.requests.get(GPU, 0) * 1000
    if "gpu-fraction" in facts.annotations:
        milli += count * round(float(facts.annotations["gpu-fraction"]) * 1000)
    if "gpu-memory" in facts.annotations:
        card = MIB.get(where) or max(MIB.values())  # it waits: by the largest card
        milli += count * -(-int(facts.annotations["gpu-memory"]) * 1000 // card)
    found = {"cpu": main.requests["cpu"], "gpu": milli}
    if where.startswith("h"):
        found["H100"] = milli
    return {resource: amount for resource, amount in found.items() if amount}


# -- the walk ----------------------------------------------------------------------------------------------------------


def fresh() -> QueuedWorld:
    return QueuedWorld(engine(max_in_flight=6, round_limit=4, booking_deadline_ms=NEVER_MS, starving_after_ms=0))


class Walk:
    """Two worlds get the same news; `rules` and the count know only what is in the API."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.worlds = (fresh(), fresh())
        self.rules = Rules((), {})
        self.labels: dict[str, dict[str, str]] = {}
        self.serial = self.said = 0
        self.born_gated: set[str] = set()
        for facts in NODES.values():
            self._both(lambda world, facts=facts: world.add_nodes(facts))  # type: ignore[misc]
        self.queues()

    @property
    def world(self) -> QueuedWorld:
        return self.worlds[0]

    def step(self) -> None:
        """One event, and what is always true after it."""
        news = [self.create] * 5 + [self.end] * 4 + [self.relabel] * 2
        news += [self.delete, self.give_way_or_not, self.queues, self.one_queue_changes, self.namespace, self.a_node]
        starts = [self.plan] * 3 + [self.kube_scheduler_takes_one] + [self.kube_scheduler_takes_all] * 3 + [self.settle]
        self.chance.choice([*news, *starts])()
        self.parts_agree()
        self.books_are_the_count()

    def _both(self, call: Callable[[QueuedWorld], Any]) -> Any:
        first, second = (call(world) for world in self.worlds)
        assert first == second, "the same news and two answers"
        return first

    # -- news ------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        labels = {}
        label = self.chance.choice([*QUEUES, *QUEUES, "gone", None])
        if label is not None:
            labels[vocabulary.QUEUE.key] = label
        if self.chance.random() < 0.3:
            labels[vocabulary.PREEMPTIBILITY.key] = vocabulary.NON_PREEMPTIBLE
        wish, gated, space = kind(self.chance), self.chance.random() < 0.85, self.chance.choice(NAMESPACES)
        priority = self.chance.randint(0, 1)
        for _ in range(self.chance.randint(1, 4)):
            self.serial += 1
            name = f"p{self.serial:03}"
            facts = pod(name, labels=labels, gated=gated, priority=priority, created_ms=self.serial, **wish)
            facts = replace(facts, namespace=space)
            if gated:
                self.born_gated.add(facts.uid)
            self._both(lambda world, facts=facts: world.create(facts))  # type: ignore[misc]

    def _pick(self, wanted: Callable[[PodFacts], bool] = lambda _: True) -> PodFacts | None:
        found = sorted(uid for uid, facts in self.world.pods.items() if wanted(facts))
        return self.world.pods[self.chance.choice(found)] if found else None

    def end(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            facts = self._pick(lambda facts: facts.node_name is not None)
            if facts is not None:
                self._both(lambda world, name=facts.name: world.end(name))  # type: ignore[misc]

    def delete(self) -> None:
        facts = self._pick()
        if facts is not None:
            self._both(lambda world: world.delete(facts.uid))

    def relabel(self) -> None:
        facts, label = self._pick(), self.chance.choice([*QUEUES, "gone", None])
        if facts is not None and facts.node_name is None:  # a policy keeps the labels of those that have a node
            self._both(lambda world: world.relabel(facts.name, queue=label))

    def give_way_or_not(self) -> None:
        facts, value = self._pick(), self.chance.choice([vocabulary.PREEMPTIBLE, vocabulary.NON_PREEMPTIBLE])
        if facts is not None and facts.node_name is None:
            self._both(lambda world: world.relabel(facts.name, preemptibility=value))

    def queues(self, specs: tuple[QueueSpec, ...] | None = None) -> None:
        found = tree(self.chance) if specs is None else specs
        self.rules = Rules(found, self.rules.defaults)
        self._both(lambda world: world.set_queues(*found))

    def one_queue_changes(self) -> None:
        if self.rules.specs:
            name = self.chance.choice(sorted(self.rules.specs))
            changed = replace(self.rules.specs[name], gpu=device_terms(self.chance))
            self.queues(tuple({**self.rules.specs, name: changed}.values()))

    def namespace(self) -> None:
        space, default = self.chance.choice(NAMESPACES), self.chance.choice([None, *QUEUES])
        self.rules.defaults = {**self.rules.defaults, space: default}
        self.labels[space] = {} if default is None else {vocabulary.DEFAULT_QUEUE.key: default}
        self._both(lambda world: world.engine.set_namespace(space, self.labels[space], world.now_ms))

    def a_node(self) -> None:
        name, how = self.chance.choice(sorted(NODES)), self.chance.choice(["goes", "comes", "comes", "closes", "loses"])

        def happens(world: QueuedWorld) -> None:
            facts = NODES[name]
            if how == "goes":
                world.nodes.pop(name, None)
                world.engine.cluster.remove_node(name)
            else:
                left = {**facts.allocatable, GPU: facts.allocatable[GPU] - (how == "loses")}
                world.add_nodes(replace(facts, unschedulable=how == "closes", allocatable=left))

        self._both(happens)

    # -- starts ----------------------------------------------------------------------------------------------------

    def _holders(self) -> Iterator[tuple[PodFacts, str]]:
        """Pods that hold something, and where: bound ones by the API, booked ones by the ledger."""
        bookings = self.world.engine.cluster.ledger.bookings
        for uid, facts in self.world.pods.items():
            if facts.node_name is not None:
                yield facts, facts.node_name
            elif uid in bookings:
                yield facts, bookings[uid].node

    def _starts(self, call: Callable[[QueuedWorld], Any]) -> Any:
        """Something in which pods may start, and in which nothing may come to hold more than it may."""
        before, who = self.rules.count(self._holders()), {facts.uid for facts, _ in self._holders()}
        answer = self._both(call)
        if not self.rules.specs:
            return answer
        for name, count in self.rules.count(self._holders()).items():
            for fixed in (False, True):
                sums, old = (count.fixed, before[name].fixed) if fixed else (count.held, before[name].held)
                for resource, amount in sums.items():
                    if resource == "H100" and not self._all_nodes_are_there():
                        continue
                    bound = self.rules.bound(name, resource, fixed=fixed)
                    assert amount <= old.get(resource, 0) or bound == UNLIMITED or amount <= bound, (
                        f"{name} holds {amount} of {bound} {resource}, fixed: {fixed}"
                    )
        for facts, _ in self._holders():
            assert facts.uid in who or self.rules.may_start(facts), facts.name
        self._check_what_is_shown()
        return answer

    def _check_what_is_shown(self) -> None:
        """What was exposed lately fits on no node by the counters, and into its queues beside what else is released."""
        new, self.said = exposed(self.world.said[self.said :]), len(self.world.said)
        if not new:
            return
        released_to = [(facts, "") for facts in self.world.pods.values() if self._is_released_and_waits(facts)]
        counts = self.rules.count(iter([*self._holders(), *released_to]))
        for facts in (self.world.pods[f"uid-{name}"] for name in new):
            path = self.rules.queue_of(facts)
            assert path[0].autoscaling_visible, facts.name
            fixed = facts.labels.get(vocabulary.PREEMPTIBILITY.key) == vocabulary.NON_PREEMPTIBLE
            for spec in path:
                for resource in amounts_of(facts, ""):
                    limit = self.rules.bound(spec.name, resource, fixed=False)
                    assert limit == UNLIMITED or counts[spec.name].held[resource] <= limit, (facts.name, spec.name)
                    quota = self.rules.bound(spec.name, resource, fixed=True)
                    most = counts[spec.name].fixed.get(resource, 0)
                    assert not fixed or quota == UNLIMITED or most <= quota, (facts.name, spec.name)
            assert not facts.annotations, "a share"
            booked = self.world.engine.cluster.ledger.bookings
            if not booked:
                assert self.world.fits_in_tree(facts) == [], facts.name

    def _is_released_and_waits(self, facts: PodFacts) -> bool:
        record = self.world.engine.roster.records.get(facts.uid)
        return record is not None and record.stage is Stage.WAITING and not facts.gates

    def plan(self) -> None:
        ms = self.chance.randint(0, 3000)

        def happens(world: QueuedWorld) -> Any:
            world.now_ms += ms
            return world.plan()

        self._starts(happens)

    def kube_scheduler_takes_one(self) -> None:
        facts = self._pick(lambda facts: facts.node_name is None and not facts.gates)
        if facts is not None:
            self._starts(lambda world: world.schedule(facts.uid))

    def kube_scheduler_takes_all(self) -> None:
        self._starts(lambda world: world.schedule_all())

    # -- what is always true -----------------------------------------------------------------------------------------

    def parts_agree(self) -> None:
        self.world.engine.validate()

    def books_are_the_count(self) -> None:
        if not self.rules.specs:
            return
        books = self.world.engine.cluster.accounts.books
        for name, count in self.rules.count(self._holders()).items():
            if name not in books.standings:
                continue  # no way up
            standing = books[name]
            assert standing.allocated.gpu_milli == count.held.get("gpu", 0), name
            assert standing.allocated.cpu_milli == count.held.get("cpu", 0), name
            assert standing.allocated_non_preemptible.gpu_milli == count.fixed.get("gpu", 0), name
            if "H100" in self.world.engine.cluster.accounts.classes.keys and self._all_nodes_are_there():
                assert standing.model_gpu_milli.get("H100", 0) == count.held.get("H100", 0), name

    def _all_nodes_are_there(self) -> bool:
        """Of which model a node was that has gone only those know who have seen it."""
        return all(where in self.world.nodes for _, where in self._holders())

    def settle(self) -> None:
        """Time passes and kube-scheduler works until nothing starts; one that starts anew finds nothing, too."""

        def happens(world: QueuedWorld) -> list[Any]:
            said = []
            for _ in range(40):
                world.now_ms += 60_000
                placed = world.schedule_all()
                said.append(placed)
                if not placed and not world.engine.in_flight:
                    break
            return said

        assert not self._starts(happens)[-1], "it comes to rest"
        if not self._all_nodes_are_there():
            return
        again = self._started_anew()
        assert _books(self.world) == _books(again), "books from what was seen, and from what is there"
        said = again.plan()
        assert released(said) == [], "there was room, and the queue would have let it start"
        assert not again.engine.in_flight

    def _started_anew(self) -> QueuedWorld:
        """A world with the same truth and an engine that sees it for the first time."""
        again = fresh()
        again.now_ms = self.world.now_ms
        again.add_nodes(*self.world.nodes.values())
        again.set_queues(*self.rules.specs.values())
        for space, labels in self.labels.items():
            again.engine.set_namespace(space, labels, again.now_ms)
        shown = set(exposed(self.world.said))
        for uid, facts in self.world.pods.items():
            if uid in self.born_gated and facts.name not in shown and not facts.gates and facts.node_name is None:
                again.create(replace(facts, gates=(GATED,)))  # it is known that somebody released it
            again.create(facts)
        return again


def _books(world: QueuedWorld) -> dict[str, object]:
    accounts = world.engine.cluster.accounts
    shown: dict[str, object] = {
        name: (standing.allocated, standing.allocated_non_preemptible, standing.pending, standing.model_gpu_milli)
        for name, standing in accounts.books.standings.items()
    }
    return {**shown, "capacity": accounts.capacity}


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 80))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_order_of_events(seed: int, steps: int) -> None:
    walk = Walk(seed)
    for _ in range(steps):
        walk.step()
    walk.settle()
