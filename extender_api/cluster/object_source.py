"""Follows every kind of object that owns or describes workloads, as far as the cluster has them and lets us read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from extender_api.cluster.answer import Refused, Unreachable
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.discovery import Served, discover
from extender_api.cluster.object_kinds import OBJECT_KINDS, ObjectKind
from extender_api.cluster.owner import object_codec
from extender_api.cluster.reflector import OnChange, Reflector, ReflectorSettings, Watched
from scheduler.object_facts import ObjectFacts
from scheduler.object_index import ObjectIndex

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 60.0
GIVE_UP_S: Final = 30.0
"""A kind that cannot be listed for so long does not keep the others waiting."""
_FIRST_WAIT_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class _Followed:
    version: str
    reflector: Reflector[ObjectFacts]
    task: asyncio.Task[None]


class ObjectSource:
    """All objects of `kinds`; calls `on_change` with what was known of an object and what is known now.

    What the cluster has is looked up every `look_every_s`: kinds that are not there cost nothing in between, and those
    that come are followed. `synced` is set when of each kind either all objects are known, or that they cannot be read.
    """

    def __init__(
        self,
        client: ClusterClient,
        on_change: OnChange[ObjectFacts],
        *,
        kinds: Sequence[ObjectKind] = OBJECT_KINDS,
        settings: ReflectorSettings | None = None,
        look_every_s: float = LOOK_EVERY_S,
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self.synced: Final = asyncio.Event()
        self._client = client
        self._on_change = on_change
        self._kinds = kinds
        self._settings = replace(settings or ReflectorSettings(), look_again_s=look_every_s)
        self._look_every_s = look_every_s
        self._give_up_s = give_up_s
        self._index = ObjectIndex()
        self._followed: dict[ObjectKind, _Followed] = {}
        self._trouble = ""

    # -- what there is -------------------------------------------------------------------------------------------

    def by_uid(self, uid: str) -> ObjectFacts | None:
        """The object with the uid."""
        return self._index.by_uid(uid)

    def named(self, group: str, kind: str, namespace: str, name: str) -> ObjectFacts | None:
        """The object with the name, of any version of the API group."""
        return self._index.named(group, kind, namespace, name)

    def reads(self, group: str, kind: str) -> bool:
        """Whether all objects of the kind are known."""
        return any(
            found.reflector.synced.is_set() and not found.reflector.absent
            for known, found in self._followed.items()
            if (known.group, known.kind) == (group, kind)
        )

    @property
    def reflectors(self) -> Mapping[str, Reflector[ObjectFacts]]:
        """Those of the kinds that are there, by name (`jobs.batch`), for metrics."""
        return {kind.definition: found.reflector for kind, found in self._followed.items()}

    @property
    def problems(self) -> list[str]:
        """What cannot be read now, and why."""
        found = [f"which kinds the cluster has is not known: {self._trouble}"] if self._trouble else []
        for name, reflector in self.reflectors.items():
            found += reflector.unreadable.values()
            if reflector.failing:
                found.append(f"{name} cannot be read: {reflector.failing}")
        return found

    # -- following -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follows until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._follow(group, await self._first_look())
            await asyncio.gather(*(self._settled(reflector) for reflector in self.reflectors.values()))
            self.synced.set()
            while True:
                await asyncio.sleep(self._look_every_s * random.uniform(0.8, 1.2))
                self._follow(group, await self._look() or {})

    async def _first_look(self) -> Served:
        wait_s = _FIRST_WAIT_S
        while (served := await self._look()) is None:
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, self._settings.backoff_max_s)
        return served

    async def _look(self) -> Served | None:
        try:
            served = await discover(self._client, self._kinds)
        except (Refused, Unreachable) as err:
            if not self._trouble:
                logger.warning("which kinds the cluster has is not known: %s", err)
            self._trouble = str(err)
            return None
        self._trouble = ""
        return served

    def _follow(self, group: asyncio.TaskGroup, served: Served) -> None:
        """Starts with kinds that are new here, or have left their version. One that is gone shows in its own list."""
        for kind, versions in served.items():
            known = self._followed.get(kind)
            if known is not None and known.version in versions:
                continue
            if known is not None:
                self._leave(known)
            watched = Watched(
                object_codec(kind, versions[0]), kind.path(versions[0]), optional=True, name=kind.definition
            )
            reflector = Reflector(self._client, watched, self._changed, self._settings)
            task = group.create_task(reflector.run(), name=f"watch {kind.definition}")
            self._followed[kind] = _Followed(versions[0], reflector, task)

    async def _settled(self, reflector: Reflector[ObjectFacts]) -> None:
        """Returns when all of a kind is known, or that it cannot be read."""
        while not reflector.synced.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._give_up_s):
                    await reflector.synced.wait()
            if reflector.failing:
                logger.warning("%s cannot be read, going on without: %s", reflector.kind, reflector.failing)
                return

    def _leave(self, followed: _Followed) -> None:
        followed.task.cancel()
        for facts in followed.reflector.objects.values():
            try:
                self._changed(facts, None)
            except Exception:
                # as with a reflector, one object that the receiver chokes on must not cost the others
                logger.exception("%s %s/%s went and was not taken", facts.kind, facts.namespace, facts.name)

    def _changed(self, old: ObjectFacts | None, new: ObjectFacts | None) -> None:
        if new is not None:
            self._index.add(new)
        elif old is not None:
            self._index.remove(old)
        self._on_change(old, new)
