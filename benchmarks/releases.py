"""Pods let loose on a scheduler, and when each was released and bound, as a watch sees it.

Two ways, the same for every side:

* `at once`: all pods exist and carry a gate. Then the gates go: without Tangram this client takes them off,
32 calls at a time; with Tangram its own start does (it finds the pods waiting). The clock starts with the
first pod that is seen without gate, so each side pays one write per pod for its release.
* `created`: this client creates pods, 32 calls at a time, while the scheduler runs. The clock starts with
the first pod that is seen. Here Tangram's side pays for the gate, the other has none.

The clock stops when the last pod is seen with a node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.arena import PODS_IN, Arena
from tests.controlplane.async_kube import AsyncKube
from tests.controlplane.resources import PODS
from topology import vocabulary

CONCURRENCY: Final = 32
LIMIT_S: Final = 600.0
WAYS: Final = ("at once", "created")
Object = dict[str, Any]


@dataclass(slots=True)
class Sightings:
    """When pods were first seen, seen without a gate, and seen with a node, by name; times of time.monotonic()."""

    expected: int
    seen: dict[str, float] = field(default_factory=dict)
    released: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, client: AsyncKube) -> None:
        """Notes what happens until cancelled."""
        async for _, pod in client.follow(PODS, f"metadata.namespace={PODS_IN}"):
            now, name, spec = time.monotonic(), pod["metadata"]["name"], pod["spec"]
            self.seen.setdefault(name, now)
            if not spec.get("schedulingGates"):
                self.released.setdefault(name, now)
            if spec.get("nodeName"):
                self.bound.setdefault(name, now)
            self.changed.set()

    async def until_all(self, stage: dict[str, float]) -> None:
        """Returns when every pod is in `stage`. Raises TimeoutError."""
        async with asyncio.timeout(LIMIT_S):
            while len(stage) < self.expected:
                self.changed.clear()
                await self.changed.wait()


def pods(count: int, scheduler_name: str, *, gated: bool) -> list[Object]:
    """Pods that ask for one whole device each."""
    resources = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    spec: Object = {
        "schedulerName": scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "work", "resources": {"limits": resources}}],
    }
    if gated:
        spec["schedulingGates"] = [{"name": vocabulary.GATE}]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number:05d}", "namespace": PODS_IN}}
        | {"spec": spec}
        for number in range(count)
    ]


async def release_at_once(arena: Arena, sightings: Sightings, begun: Callable[[], Awaitable[None]]) -> float:
    """Creates gated pods, calls `begun`, lets the gates go; the time at which the clock starts."""
    client = arena.plane.kube.client
    await client.create_all(pods(sightings.expected, arena.side.scheduler_name, gated=True))
    await sightings.until_all(sightings.seen)
    if arena.side.tangram:
        await asyncio.to_thread(arena.start_tangram)
        await begun()
    else:
        await begun()
        await _ungate(client, list(sightings.seen))
    await sightings.until_all(sightings.bound)
    return min(sightings.released.values())


async def release_created(arena: Arena, sightings: Sightings, begun: Callable[[], Awaitable[None]]) -> float:
    """Creates pods while everything runs; the time at which the clock starts."""
    await asyncio.to_thread(arena.start_tangram)
    await begun()
    documents = pods(sightings.expected, arena.side.scheduler_name, gated=False)
    await arena.plane.kube.client.create_all(documents, CONCURRENCY)
    await sightings.until_all(sightings.bound)
    return min(sightings.seen.values())


async def _ungate(client: AsyncKube, names: Sequence[str]) -> None:
    """What Tangram does to a planned pod, as often at a time as it does."""
    limit = asyncio.Semaphore(CONCURRENCY)
    patch = [
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": vocabulary.GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]

    async def one(name: str) -> None:
        async with limit:
            await client.patch(PODS, name, patch, PODS_IN)

    await asyncio.gather(*(one(name) for name in names))


async def remove_pods(client: AsyncKube) -> None:
    """Deletes all pods; returns when none is left."""
    await client.delete_all(PODS, PODS_IN)
    async with asyncio.timeout(LIMIT_S):
        while True:
            if not await client.list(PODS, PODS_IN):
                return
            await asyncio.sleep(0.5)
