"""Topologies from everywhere: our objects, KAI's, and the file of queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from extender_api.cluster import decode, paths
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.reflector import Reflector, ReflectorSettings, Watched
from extender_api.queue_objects.file import QueueFile
from extender_api.topology_objects.read import one_of_each_name
from topology.topology import Topology

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
Topologies = tuple[Topology, ...]


class TopologySource:
    """Calls `on_topologies` with all topologies, one of each name, whenever some have changed.

    Ours come before those of the file, and KAI's come last. `file` is that of the queues, which their source reads.
    What becomes unreadable stays as it was. `synced` is set once everything has been read and was told.
    """

    def __init__(
        self,
        client: ClusterClient,
        on_topologies: Callable[[Topologies], None],
        *,
        file: QueueFile | None = None,
        settings: ReflectorSettings | None = None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        ours = Watched(decode.TOPOLOGIES, paths.TOPOLOGIES, optional=True)
        kais = Watched(decode.KAI_TOPOLOGIES, paths.KAI_TOPOLOGIES, optional=True)
        self.ours: Final = Reflector(client, ours, self._changed, settings)
        self.kais: Final = Reflector(client, kais, self._changed, settings)
        self.synced: Final = asyncio.Event()
        self._file = file
        self._on_topologies = on_topologies
        self._look_every_s = look_every_s
        self._told: Topologies | None = None
        self._doubles: tuple[str, ...] = ()
        self._dirty: Final = asyncio.Event()

    @property
    def reflectors(self) -> Mapping[str, Reflector[Topology]]:
        """Both of them by kind, for metrics."""
        return {reflector.kind: reflector for reflector in (self.ours, self.kais)}

    @property
    def problems(self) -> list[str]:
        """What cannot be read now, and why; the file's own problems are those of the queues' source."""
        found = [f"Topology {name} stands in several places; ours goes before KAI's" for name in self._doubles]
        for reflector in (self.ours, self.kais):
            found += reflector.unreadable.values()
            if reflector.failing:
                found.append(f"{reflector.kind} objects cannot be read: {reflector.failing}")
        return found

    async def run(self) -> None:
        """Follows until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.ours.run(), name="watch topologies")
            group.create_task(self.kais.run(), name="watch KAI's topologies")
            await self.ours.synced.wait()
            await self.kais.synced.wait()
            while self._file is not None and not self._file.read:
                await self._look()
            self._tell()
            self.synced.set()
            while True:
                await self._look()
                self._tell()

    def _changed(self, old: Topology | None, new: Topology | None) -> None:
        self._dirty.set()

    async def _look(self) -> None:
        """Waits for a change, of the file for as long as one may go unseen."""
        limit_s = None if self._file is None else self._look_every_s
        try:
            async with asyncio.timeout(limit_s):
                await self._dirty.wait()
        except TimeoutError:
            return
        self._dirty.clear()

    def _tell(self) -> None:
        of_file = () if self._file is None else self._file.topologies
        found, self._doubles = one_of_each_name(self.ours.objects.values(), of_file, self.kais.objects.values())
        if found == self._told:
            return
        self._told = found
        try:
            self._on_topologies(found)
        except Exception:
            # topologies that cannot be used must not end the process; those of before stay in force
            logger.exception("topologies were not taken")
