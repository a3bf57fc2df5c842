"""What is watched: all live pods of every scheduler, all nodes, and the labels of namespaces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from extender_api.cluster import decode, paths
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.node import NamespaceFacts
from extender_api.cluster.reflector import OnChange, Reflector, ReflectorSettings, Watched
from scheduler.pod import PodFacts
from topology.node import NodeFacts

LIVE_PODS: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""Pods that hold something or want something. One that finishes leaves the watch, as if it were deleted."""


class Sources:
    """The reflectors that feed the engine. Callbacks run on the event loop, one at a time.

    Nodes and namespaces are read to the end before pods are: a pod then finds its node known. `synced` is set when all
    first lists have been delivered.
    """

    def __init__(
        self,
        client: ClusterClient,
        *,
        on_pod: OnChange[PodFacts],
        on_node: OnChange[NodeFacts],
        on_namespace: OnChange[NamespaceFacts],
        settings: ReflectorSettings | None = None,
    ) -> None:
        self.nodes: Final = Reflector(client, Watched(decode.NODES, paths.NODES), on_node, settings)
        self.namespaces: Final = Reflector(client, Watched(decode.NAMESPACES, paths.NAMESPACES), on_namespace, settings)
        self.pods: Final = Reflector(client, Watched(decode.PODS, paths.PODS, LIVE_PODS), on_pod, settings)
        self.synced: Final = asyncio.Event()

    @property
    def reflectors(self) -> Mapping[str, Reflector[Any]]:
        """All of them by kind, for metrics and health."""
        return {reflector.kind: reflector for reflector in (self.nodes, self.namespaces, self.pods)}

    def stale(self, limit_s: float) -> str | None:
        """The kind, of those that say what is free, of which nothing was heard for longer than `limit_s`, or None."""
        now_s = time.monotonic()
        for reflector in (self.pods, self.nodes):
            if reflector.stats.lag_s(now_s) > limit_s:
                return reflector.kind
        return None

    def relist(self) -> None:
        """Reads everything again; the receivers get the differences."""
        for reflector in self.reflectors.values():
            reflector.relist()

    async def catch_up(self) -> None:
        """Returns when everything that was written to pods before the call is known."""
        await self.synced.wait()
        await self.pods.refresh()

    async def run(self) -> None:
        """Follows until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run(), name="watch nodes")
            group.create_task(self.namespaces.run(), name="watch namespaces")
            await self.nodes.synced.wait()
            await self.namespaces.synced.wait()
            group.create_task(self.pods.run(), name="watch pods")
            await self.pods.synced.wait()
            self.synced.set()
