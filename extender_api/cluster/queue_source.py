"""Queues from everywhere: our objects, KAI's, and a file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from extender_api.cluster import decode, paths
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.codec import Codec
from extender_api.cluster.queue import QueueObject
from extender_api.cluster.reflector import Reflector, ReflectorSettings, Watched
from extender_api.queue_objects.file import QueueFile
from queues.spec import QueueSpec

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
COALESCE_S: Final = 0.05
"""Many queues that come at once, as at start, make one tree."""
Queues = tuple[QueueSpec, ...]


class QueueSource:
    """Calls `on_queues` with all queues, of every source, whenever some have changed.

    What becomes unreadable stays as it was. Neither kind of object needs to exist. `synced` is set once everything has
    been read, a file that is named included, and was told: before, it is not known who may have what. `ours` has our
    objects by name, with their statuses.
    """

    def __init__(
        self,
        client: ClusterClient,
        on_queues: Callable[[Queues], None],
        *,
        file: Path | None = None,
        settings: ReflectorSettings | None = None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self.ours: Final = self._reflector(client, decode.QUEUES, paths.QUEUES, settings)
        self.kais: Final = self._reflector(client, decode.KAI_QUEUES, paths.KAI_QUEUES, settings)
        self.file: Final = None if file is None else QueueFile(file)
        self.synced: Final = asyncio.Event()
        self._on_queues = on_queues
        self._look_every_s = look_every_s
        self._told: Queues | None = None
        self._dirty: Final = asyncio.Event()

    def _reflector(
        self, client: ClusterClient, codec: Codec[Any, QueueObject], path: str, settings: ReflectorSettings | None
    ) -> Reflector[QueueObject]:
        return Reflector(client, Watched(codec, path, optional=True), self._changed, settings)

    @property
    def reflectors(self) -> Mapping[str, Reflector[QueueObject]]:
        """Both of them by kind, for metrics."""
        return {reflector.kind: reflector for reflector in (self.ours, self.kais)}

    @property
    def problems(self) -> list[str]:
        """What cannot be read now, and why; each names its object, or its file and document."""
        found = list(self.file.problems) if self.file is not None else []
        for reflector in (self.ours, self.kais):
            found += reflector.unreadable.values()
            if reflector.failing:
                found.append(f"{reflector.kind} objects cannot be read: {reflector.failing}")
        return found

    async def run(self) -> None:
        """Follows until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.ours.run(), name="watch queues")
            group.create_task(self.kais.run(), name="watch KAI's queues")
            if self.file is not None:
                await self._first_look(self.file)
                group.create_task(self._watch_file(self.file), name="watch the file of queues")
            await self.ours.synced.wait()
            await self.kais.synced.wait()
            self._tell()
            self.synced.set()
            group.create_task(self._follow(), name="queues")

    def _changed(self, old: QueueObject | None, new: QueueObject | None) -> None:
        self._dirty.set()

    async def _follow(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(COALESCE_S)
            self._tell()

    def _tell(self) -> None:
        self._dirty.clear()
        found = [item.spec for reflector in (self.ours, self.kais) for item in reflector.objects.values()]
        queues = (*found, *(self.file.queues if self.file is not None else ()))
        if queues == self._told:
            return
        try:
            self._on_queues(queues)
        except Exception:
            # queues that cannot be used must not end the process; those of before stay in force
            logger.exception("queues were not taken")
            return
        self._told = queues

    # -- the file --------------------------------------------------------------------------------------------------

    async def _first_look(self, file: QueueFile) -> None:
        await asyncio.to_thread(file.look)
        while not file.read:
            await asyncio.sleep(self._look_every_s)
            await asyncio.to_thread(file.look)

    async def _watch_file(self, file: QueueFile) -> None:
        while True:
            await asyncio.sleep(self._look_every_s)
            if await asyncio.to_thread(file.look):
                self._dirty.set()
