"""Gangs as users write them, and what a watch of their pods shows."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, FakeNode, gpu_node
from tests.controlplane.resources import PODS, Object, Objects, Resource
from tests.e2e.pods import whole

POD_GROUPS: Final = Resource("tangram.scheduler/v1alpha1", "podgroups", True)
TOPOLOGIES: Final = Resource("tangram.scheduler/v1alpha1", "topologies", False)
LABEL: Final = "tangram.scheduler/pod-group"
RANK: Final = "tangram.scheduler/rank"
DOMAIN: Final = "tangram.scheduler/topology-domain"
BLOCK: Final = "example.com/block"
RACK: Final = "example.com/rack"


def pod_group(namespace: str, name: str, minimum: int, **spec: Any) -> Object:
    """A PodGroup of ours; `spec` are further fields."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": POD_GROUPS.group_version, "kind": "PodGroup", "metadata": metadata} | {
        "spec": {"minMember": minimum, **spec}
    }


def members(group: str, count: int, gpus: int = 1, **more: Any) -> Objects:
    """So many pods of the group, each with whole devices."""
    return [whole(f"{group}-{at:03}", gpus, labels={LABEL: group}, **more) for at in range(count)]


def racks(count: int, *, per_rack: int, per_block: int, devices: int | None = None) -> list[FakeNode]:
    """Nodes in racks in blocks."""
    return [
        gpu_node(
            f"n{at:03}",
            A100,
            devices=devices,
            labels={BLOCK: f"b{at // (per_rack * per_block)}", RACK: f"r{at // per_rack:02}"},
        )
        for at in range(count)
    ]


@contextmanager
def topology(kube: Kube, name: str = "network") -> Iterator[None]:
    """A Topology of blocks and racks, gone afterwards."""
    kube.wait_until_served(TOPOLOGIES)
    levels = [{"nodeLabel": level} for level in (BLOCK, RACK)]
    kind = {"apiVersion": TOPOLOGIES.group_version, "kind": "Topology"}
    kube.create(kind | {"metadata": {"name": name}, "spec": {"levels": levels}})
    try:
        yield
    finally:
        kube.delete(TOPOLOGIES, name)


@dataclass
class Sightings:
    """What a watch of pods has shown of gangs. `torn` are the moments at which some pod of a gang was bound while there
    were not yet `minimum` that had left their gate: the others could not have followed at once.
    """

    minimum: int
    bound: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """Group → uid → node."""
    released: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    torn: list[str] = field(default_factory=list)
    bound_twice: list[str] = field(default_factory=list)

    def see(self, kind: str, pod: Object) -> None:
        """Takes an event."""
        group, uid, spec = pod["metadata"].get("labels", {}).get(LABEL), pod["metadata"]["uid"], pod["spec"]
        if group is None:
            return
        if kind == "DELETED":
            self.bound[group].pop(uid, None)
            self.released[group].discard(uid)
            return
        if not spec.get("schedulingGates"):
            self.released[group].add(uid)
        node = spec.get("nodeName")
        if node is None:
            return
        if self.bound[group].setdefault(uid, node) != node:
            self.bound_twice.append(f"{group}: {uid}")
        if len(self.released[group]) < self.minimum:
            self.torn.append(f"{group}: {len(self.bound[group])} bound, {len(self.released[group])} released")

    def sizes(self) -> list[int]:
        """How many pods each group has on nodes, without those that have none."""
        return sorted(len(bound) for bound in self.bound.values() if bound)


@contextmanager
def watched(kube: Kube, minimum: int) -> Iterator[Sightings]:
    """Follows all pods meanwhile."""
    seen = Sightings(minimum)

    async def follow() -> None:
        async for kind, pod in kube.client.follow(PODS):
            seen.see(kind, pod)

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(follow())

    async def end(task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    task = kube.loop.run(begin())
    try:
        yield seen
    finally:
        kube.loop.run(end(task))
