"""Writes the status of our Queue objects: what differs, each at most every few seconds, at a bounded rate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from extender_api.cluster import paths
from extender_api.cluster.answer import Answer, Unreachable, Withheld
from extender_api.cluster.client import ClusterClient, PatchKind
from extender_api.cluster.notices import TokenBucket
from extender_api.cluster.queue import QueueObject

logger = logging.getLogger(__name__)

Json = dict[str, Any]
NO_TROUBLE: Final = frozenset({403, 404, 409})
"""The queue is gone or being changed, or somebody else writes statuses here."""
_YIELD_EVERY: Final = 32


@dataclass(frozen=True, slots=True)
class QueueStatusSettings:
    """The status of one queue is written at most every `every_s`, and `per_second` of them in a second on average."""

    every_s: float = 10.0
    per_second: float = 20.0
    burst: int = 20


class QueueStatusWriter:
    """Brings statuses to what `submit` was told last. `known` gives one of our Queues as it stands in the cluster.

    What stands there is compared with what is wanted, so a restart writes nothing anew. `written` and `failed` count.
    """

    def __init__(
        self,
        client: ClusterClient,
        known: Callable[[str], QueueObject | None],
        *,
        now_ms: Callable[[], int],
        may_write: Callable[[], bool] = lambda: True,
        settings: QueueStatusSettings | None = None,
    ) -> None:
        self.written = 0
        self.failed = 0
        self._client = client
        self._known = known
        self._now_ms = now_ms
        self._may_write = may_write
        self._settings: Final = settings or QueueStatusSettings()
        self._wanted: Mapping[str, Mapping[str, Any]] = {}
        self._tried_s: dict[str, float] = {}
        self._news: Final = asyncio.Event()

    def submit(self, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes the status of every queue, by name. Those of other kinds are left out. Conditions need no times."""
        self._wanted = wanted
        self._tried_s = {name: tried_s for name, tried_s in self._tried_s.items() if name in wanted}
        self._news.set()

    def clear(self) -> None:
        """Nothing is to be written any more, as when another replica acts."""
        self.submit({})

    async def run(self) -> None:
        """Works until cancelled."""
        bucket = TokenBucket(self._settings.per_second, self._settings.burst)
        while True:
            self._news.clear()
            later_s = self._settings.every_s
            for number, name in enumerate(self._oldest_first(), start=1):
                if number % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                wait_s = self._wait_s(name)
                if wait_s > 0:
                    later_s = min(later_s, wait_s)
                elif self._patch(name) is not None:
                    await bucket.take()
                    await self._write(name)
            await self._rest(later_s)

    async def _rest(self, longest_s: float) -> None:
        """Until there is news, or a status may be written that had to wait."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._news.wait()

    def _oldest_first(self) -> list[str]:
        return sorted(self._wanted, key=lambda name: self._tried_s.get(name, 0.0))

    def _wait_s(self, name: str) -> float:
        tried_s = self._tried_s.get(name)
        return 0.0 if tried_s is None else tried_s + self._settings.every_s - asyncio.get_running_loop().time()

    def _patch(self, name: str) -> Json | None:
        """What has to change in the status of a queue; None for nothing, or where it is none of ours."""
        known, wanted = self._known(name), self._wanted.get(name)
        if known is None or wanted is None:
            return None
        return difference(known.status, complete(wanted, known, self._now_ms())) or None

    async def _write(self, name: str) -> None:
        patch = self._patch(name)  # while we waited for our turn things may have changed
        if patch is None or not self._may_write():
            return
        self._tried_s[name] = asyncio.get_running_loop().time()
        try:
            answer = await self._client.call(
                "PATCH",
                paths.queue_status(name),
                body={"status": patch},
                content_type=PatchKind.MERGE,
                may_send=self._may_write,
            )
        except Withheld:
            return
        except Unreachable as err:
            self._not_written(name, str(err), logging.DEBUG)
            return
        self._note(name, answer)

    def _note(self, name: str, answer: Answer) -> None:
        if answer.ok:
            self.written += 1
            return
        level = logging.DEBUG if answer.status in NO_TROUBLE else logging.WARNING
        self._not_written(name, f"{answer.status}: {answer.message}", level)

    def _not_written(self, name: str, why: str, level: int) -> None:
        self.failed += 1
        logger.log(level, "status of queue %s is not written: %s", name, why)


def complete(wanted: Mapping[str, Any], known: QueueObject, now_ms: int) -> Json:
    """A status with what only the object tells: its generation, and since when each condition is as it is."""
    status = {**wanted, "observedGeneration": known.generation}
    if "conditions" in wanted:
        before = {found["type"]: found for found in known.status.get("conditions") or ()}
        status["conditions"] = [
            {
                **condition,
                "observedGeneration": known.generation,
                "lastTransitionTime": _since(condition, before.get(condition["type"]), now_ms),
            }
            for condition in wanted["conditions"]
        ]
    return status


def _since(condition: Mapping[str, Any], before: Mapping[str, Any] | None, now_ms: int) -> str:
    if before is not None and before.get("status") == condition["status"] and before.get("lastTransitionTime"):
        return str(before["lastTransitionTime"])
    return datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The merge patch (RFC 7386) that makes one of the other; empty when they are equal."""
    patch: Json = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key in before and before[key] == value:
            continue
        both = isinstance(value, Mapping) and isinstance(before.get(key), Mapping)
        patch[key] = difference(before[key], value) if both else value
    return patch
