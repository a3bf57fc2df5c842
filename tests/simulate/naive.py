"""A cluster in plain Python: who holds what, one by one, and whether a pod would fit. Shares no code with ours."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.pod import PodFacts
from topology.node import NodeFacts

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"


@dataclass
class NaiveNode:
    """What is free. `gpus` are milli of each device, `mib` the free memory of each."""

    product: str
    card_mib: int
    cpu_milli: int
    memory: int
    pods: int
    gpus: list[int]
    mib: list[int]


@dataclass(frozen=True)
class Wish:
    """What a pod asks for, read from its fields."""

    cpu_milli: int
    memory: int
    whole: int
    share_milli: int
    products: tuple[str, ...] | None


@dataclass
class NaiveCluster:
    """Nodes by name; what pods hold, by uid, as node and devices as (index, milli)."""

    nodes: dict[str, NaiveNode] = field(default_factory=dict)
    held: dict[str, tuple[str, Wish, list[tuple[int, int]]]] = field(default_factory=dict)

    def add(self, facts: NodeFacts) -> None:
        count, card = facts.allocatable.get(GPU, 0), int(facts.labels.get("nvidia.com/gpu.memory", 0))
        amounts = facts.allocatable
        self.nodes[facts.name] = NaiveNode(
            facts.labels.get(PRODUCT, ""),
            card,
            amounts["cpu"],
            amounts["memory"],
            amounts["pods"],
            [1000] * count,
            [card] * count,
        )

    def take(self, pod: PodFacts, name: str, devices: list[tuple[int, int]]) -> None:
        """The pod takes its place; fails when there is none."""
        assert pod.uid not in self.held
        wish, node = wish_of(pod), self.nodes[name]
        self.held[pod.uid] = name, wish, devices
        self._change(node, wish, devices, 1)
        assert wish.products is None or node.product in wish.products, "a rule is broken"
        assert min(node.cpu_milli, node.memory, node.pods) >= 0, "too much of a resource is taken"
        assert all(milli >= 0 for milli in node.gpus), "too much of a device is taken"
        assert all(mib >= 0 for mib in node.mib), "too much of a device's memory is taken"
        wanted = [1000] * wish.whole if wish.whole else [wish.share_milli] * (wish.share_milli > 0)
        assert [milli for _, milli in devices] == wanted, "the pod got other devices than it asked for"
        assert len({index for index, _ in devices}) == len(devices)

    def give(self, uid: str) -> None:
        """The pod goes; on a node that is not there any more it leaves nothing."""
        name, wish, devices = self.held.pop(uid)
        if name in self.nodes:
            self._change(self.nodes[name], wish, devices, -1)

    @staticmethod
    def _change(node: NaiveNode, wish: Wish, devices: list[tuple[int, int]], sign: int) -> None:
        node.cpu_milli -= sign * wish.cpu_milli
        node.memory -= sign * wish.memory
        node.pods -= sign
        for index, milli in devices:
            node.gpus[index] -= sign * milli
            node.mib[index] -= sign * (milli * node.card_mib // 1000)

    def fits(self, pod: PodFacts) -> bool:
        """Whether any node has room for the pod."""
        return any(_fits(node, wish_of(pod)) for node in self.nodes.values())


def _fits(node: NaiveNode, wish: Wish) -> bool:
    if wish.products is not None and node.product not in wish.products:
        return False
    if node.cpu_milli < wish.cpu_milli or node.memory < wish.memory or node.pods < 1:
        return False
    if wish.whole:
        return node.gpus.count(1000) >= wish.whole
    if wish.share_milli:
        needs = wish.share_milli * node.card_mib // 1000
        return any(milli >= wish.share_milli and mib >= needs for milli, mib in zip(node.gpus, node.mib, strict=True))
    return True


def wish_of(pod: PodFacts) -> Wish:
    """What the pod's only container and its annotation say."""
    (container,) = pod.containers
    fraction = pod.annotations.get("gpu-fraction", "0")
    products = None
    if pod.node_affinity is not None:
        products = tuple(pod.node_affinity[0].labels[0].values)
    return Wish(
        container.requests["cpu"],
        container.requests["memory"],
        container.limits.get(GPU, 0),
        round(1000 * float(fraction)),
        products,
    )
