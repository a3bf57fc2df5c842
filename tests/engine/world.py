"""A tiny world for engine tests: the API's truth about pods and nodes, and a kube-scheduler that asks in order.

Independent of the engine's own bookkeeping, so that what it checks can fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.instruction import BindOrder, Instruction, Nominate, Release
from scheduler.object_facts import Objects
from scheduler.object_index import NO_OBJECTS
from scheduler.pod import Container, PodFacts
from scheduler.policy import PlacementPolicy
from topology import vocabulary
from topology.inventory import InventorySettings
from topology.node import NodeFacts, Taint

GPU = "nvidia.com/gpu"
LIQO_TAINT = Taint("virtual-node.liqo.io/not-allowed", "true", "NoExecute")


def node(
    name: str,
    gpus: int = 4,
    mib: int = 40_000,
    *,
    cpu_milli: int = 64_000,
    memory_gib: int = 512,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    **other: object,
) -> NodeFacts:
    """A real GPU node that takes shares."""
    resources = {"cpu": cpu_milli, "memory": memory_gib << 30, "pods": pods, "ephemeral-storage": 1 << 40}
    if gpus:
        resources[GPU] = gpus
    found = {"kubernetes.io/hostname": name, vocabulary.NODE_SHARES: "true"}
    if gpus:
        found |= {"nvidia.com/gpu.memory": str(mib), "nvidia.com/gpu.product": "NVIDIA-TEST"}
    return NodeFacts(
        name=name,
        uid=f"uid-{name}",
        labels=found | dict(labels or {}),
        capacity=resources,
        allocatable=resources,
        **other,  # type: ignore[arg-type]
    )


def virtual_node(name: str, gpus: int = 64) -> NodeFacts:
    """A Liqo node."""
    resources = {"cpu": 512_000, "memory": 4 << 40, "pods": 1000, GPU: gpus}
    return NodeFacts(
        name=name,
        labels={"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": f"c-{name}"},
        taints=(LIQO_TAINT,),
        capacity=resources,
        allocatable=resources,
    )


def pod(
    name: str,
    *,
    whole: int = 0,
    annotations: Mapping[str, str] | None = None,
    cpu_milli: int = 1000,
    gated: bool = True,
    scheduler: str = "tangram",
    node_name: str | None = None,
    priority: int = 0,
    created_ms: int = 0,
    **other: object,
) -> PodFacts:
    """A pending pod; ours and gated unless said otherwise."""
    amounts = {"cpu": cpu_milli, "memory": 1 << 30}
    if whole:
        amounts[GPU] = whole
    return PodFacts(
        uid=f"uid-{name}",
        namespace="default",
        name=name,
        annotations=dict(annotations or {}),
        scheduler_name=scheduler,
        node_name=node_name,
        gates=(vocabulary.GATE,) if gated and node_name is None else (),
        priority=priority,
        created_ms=created_ms,
        containers=(Container("main", requests=amounts, limits=amounts),),
        **other,  # type: ignore[arg-type]
    )


def share(name: str, fraction: str, devices: int = 1, **other: object) -> PodFacts:
    """A pending pod that asks for a fraction."""
    annotations = {"gpu-fraction": fraction}
    if devices > 1:
        annotations["gpu-fraction-num-devices"] = str(devices)
    return pod(name, annotations=annotations, **other)  # type: ignore[arg-type]


def engine(policy: PlacementPolicy | None = None, objects: Objects = NO_OBJECTS, **settings: object) -> Engine:
    """An engine with an empty cluster."""
    cluster = Cluster(inventory=InventorySettings(), policy=policy or PlacementPolicy())
    return Engine(cluster, EngineSettings(**settings), objects)  # type: ignore[arg-type]


@dataclass
class World:
    """The truth in the API, and the engine that watches it. Time moves only by hand."""

    engine: Engine
    now_ms: int = 1_000_000
    pods: dict[str, PodFacts] = field(default_factory=dict)
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    said: list[Instruction] = field(default_factory=list)

    def add_nodes(self, *nodes: NodeFacts) -> None:
        for facts in nodes:
            self.nodes[facts.name] = facts
            self.engine.cluster.set_node(facts)

    def create(self, *pods: PodFacts) -> None:
        """Creates pods and lets the watch show them."""
        for facts in pods:
            self.pods[facts.uid] = facts
            self.show(facts.uid)

    def show(self, uid: str) -> None:
        """The watch brings the pod as it is now."""
        facts = self.pods.get(uid)
        if facts is None:
            self.engine.remove_pod(uid)
        else:
            self.engine.apply_pod(facts, self.now_ms)

    def delete(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.show(uid)

    def plan(self) -> list[Instruction]:
        """Rounds until nothing more is to be done at once; releases are carried out and shown."""
        done: list[Instruction] = []
        more = True
        while more:
            instructions, more = self.engine.plan(self.now_ms)
            done += instructions
        for instruction in done:
            if isinstance(instruction, Release):
                if instruction.nominate:
                    self.nominate(instruction.uid, instruction.node)
                self.release(instruction.uid)
                self.show(instruction.uid)
            elif isinstance(instruction, Nominate):
                self.nominate(instruction.uid, instruction.node)
                self.show(instruction.uid)
        self.said += done
        return done

    def release(self, uid: str) -> None:
        """What the API server does when the gate is patched away."""
        facts = self.pods.get(uid)
        if facts is not None:
            self.pods[uid] = replace(facts, gates=tuple(g for g in facts.gates if g != vocabulary.GATE))

    def nominate(self, uid: str, node_name: str | None) -> None:
        facts = self.pods.get(uid)
        if facts is not None:
            self.pods[uid] = replace(facts, nominated_node=node_name)

    def filter(self, uid: str, offered: Iterable[str] | None = None) -> Sequence[str]:
        """kube-scheduler's filter call; all nodes are offered unless said otherwise."""
        names = sorted(self.nodes) if offered is None else list(offered)
        verdict = self.engine.filter(self.pods[uid], names, self.now_ms, self.pods[uid].nominated_node)
        assert set(verdict.nodes) <= set(names)
        assert not (verdict.nodes and verdict.refused)
        assert set(verdict.refused) <= set(names)
        return verdict.nodes

    def bind(self, uid: str, node_name: str) -> bool:
        """kube-scheduler's bind call, carried out by the API server; the watch has not shown it yet."""
        facts = self.pods[uid]
        order = self.engine.binding.start(uid, facts.namespace, facts.name, node_name, self.now_ms)
        if not isinstance(order, BindOrder):
            return False
        self.write_binding(order)
        self.engine.binding.finish(uid, True, self.now_ms)
        return True

    def write_binding(self, order: BindOrder) -> None:
        facts = self.pods[order.uid]
        annotations = {**facts.annotations, **order.annotations}
        self.pods[order.uid] = replace(facts, node_name=order.node, annotations=annotations)

    def schedule(self, uid: str, offered: Iterable[str] | None = None) -> str | None:
        """Filter and bind, as for a pod that pops from kube-scheduler's queue. Returns its node."""
        chosen = self.filter(uid, offered)
        if not chosen:
            return None
        assert len(chosen) == 1
        assert self.bind(uid, chosen[0])
        self.show(uid)
        return chosen[0]

    def schedule_all(self) -> dict[str, str]:
        """Plans and schedules whatever is released; pod name → node."""
        self.plan()
        placed = {}
        for uid, facts in sorted(self.pods.items()):
            if facts.node_name is None and not facts.gates and facts.scheduler_name == "tangram":
                chosen = self.schedule(uid)
                if chosen is not None:
                    placed[facts.name] = chosen
        return placed

    def devices_in_use(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(node, device) → (milli, MiB) over the annotations of the pods in the API."""
        used: dict[tuple[str, int], tuple[int, int]] = {}
        for facts in self.pods.values():
            text = facts.annotations.get(vocabulary.ALLOCATION)
            if facts.node_name is None or facts.finished or text is None:
                continue
            for device in json.loads(text)["devices"]:
                key = (facts.node_name, device["index"])
                milli, mib = used.get(key, (0, 0))
                used[key] = (milli + device["milli"], mib + device["memoryMiB"])
        return used
