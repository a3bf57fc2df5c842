"""The real service and its webhooks, on a cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from extender_api.cluster.decode import decode_node, decode_pod
from extender_api.demo.actuator import EmbeddedActuator
from extender_api.demo.embedded import EmbeddedCluster, EventKind
from extender_api.demo.objects import Object
from extender_api.extender_routes import extender_app
from extender_api.listeners import Listener
from extender_api.service import Service
from extender_api.settings import Address
from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.kernels.warm import warm
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy
from topology.inventory import InventorySettings
from topology.node import NodeFacts


class Feed:
    """What the reflectors do: objects in, changes of facts out."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._pods: dict[str, PodFacts] = {}
        self._nodes: dict[str, NodeFacts] = {}

    def changed(self, kind: EventKind, document: Object) -> None:
        """The watcher."""
        if document["kind"] == "Node":
            node = decode_node(document)
            self._service.on_node(self._nodes.get(node.name), node)
            self._nodes[node.name] = node
            return
        pod = decode_pod(document)
        old = self._pods.pop(pod.uid, None)
        if kind == "DELETED" or pod.finished:
            self._service.on_pod(old, None)
        else:
            self._service.on_pod(old, pod)
            self._pods[pod.uid] = pod


def make_service(cluster: EmbeddedCluster) -> Service:
    """A service that acts on `cluster` and is fed from it."""
    engine = Engine(Cluster(inventory=InventorySettings(), policy=PlacementPolicy()), EngineSettings(tell_after_ms=500))
    service = Service(engine, EmbeddedActuator(cluster, lambda uid, done: service.on_result(uid, done)))
    cluster.watch(Feed(service).changed)
    return service


@asynccontextmanager
async def tangram(cluster: EmbeddedCluster) -> AsyncIterator[int]:
    """Tangram at work on `cluster`; gives the port of its extender listener on 127.0.0.1."""
    await asyncio.to_thread(warm)
    service = make_service(cluster)
    async with webhooks(service) as port:
        planning = asyncio.create_task(service.run())
        try:
            yield port
        finally:
            planning.cancel()
            await asyncio.gather(planning, return_exceptions=True)


@asynccontextmanager
async def webhooks(service: Service) -> AsyncIterator[int]:
    """The extender listener of `service` on a free port of 127.0.0.1, which is given."""
    listener = Listener("extender", extender_app(service), Address("127.0.0.1", 0), drain_s=1)
    port = listener.open().port
    serving = asyncio.create_task(listener.serve())
    try:
        yield port
    finally:
        listener.stop()
        await serving
