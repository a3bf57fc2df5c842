"""Telling users: messages on gated pods and events, at a bounded rate, from a bounded queue, never in anybody's way."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from extender_api import text
from extender_api.cluster import paths
from extender_api.cluster.answer import Answer, Unreachable
from extender_api.cluster.client import ClusterClient, PatchKind
from extender_api.cluster.event import event_body
from extender_api.cluster.live_pod import look
from scheduler.instruction import Tell, Warn
from scheduler.reason import Code

logger = logging.getLogger(__name__)

Notice = Tell | Warn


@dataclass(frozen=True, slots=True)
class NoticeSettings:
    """`per_second` notices on average, `burst` at once, `waiting` in the queue. `instance` names us in events."""

    per_second: float = 10.0
    burst: int = 100
    waiting: int = 10_000
    instance: str = field(default_factory=socket.gethostname)


class TokenBucket:
    """Lets `burst` through at once and `per_second` on average."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._filled_s = asyncio.get_running_loop().time()

    async def take(self) -> None:
        """Waits for a token and takes it."""
        while True:
            now_s = asyncio.get_running_loop().time()
            self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._per_second)
            self._filled_s = now_s
            if self._tokens >= 1:
                self._tokens -= 1
                return
            await asyncio.sleep((1 - self._tokens) / self._per_second)


class Notices:
    """A queue of notices and the one who works it off. Of the reasons for one pod only the newest is told.

    `dropped` counts notices for which the queue had no room, `failed` those that could not be written; both are lost,
    since a notice is worth no second try.
    """

    def __init__(
        self, client: ClusterClient, *, now_ms: Callable[[], int], settings: NoticeSettings | None = None
    ) -> None:
        self.dropped = 0
        self.failed = 0
        self._client = client
        self._now_ms = now_ms
        self._settings: Final = settings or NoticeSettings()
        self._waiting: dict[tuple[str, str], Notice] = {}
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, notice: Notice) -> None:
        """Takes a notice; one that waits for the same pod is replaced in its place."""
        key = _key(notice)
        if key not in self._waiting and len(self._waiting) >= self._settings.waiting:
            del self._waiting[next(iter(self._waiting))]
            self.dropped += 1
        self._waiting[key] = notice
        self._some.set()

    def withdraw(self, uid: str) -> None:
        """Forgets the reason that waits to be told for a pod, as when it waits no longer."""
        self._waiting.pop((uid, ""), None)

    def clear(self) -> None:
        """Forgets all that waits."""
        self._waiting.clear()

    async def run(self) -> None:
        """Works until cancelled."""
        bucket = TokenBucket(self._settings.per_second, self._settings.burst)
        while True:
            await self._some.wait()
            if self._waiting:
                await bucket.take()
            if not self._waiting:  # all withdrawn or done
                self._some.clear()
                continue
            notice = self._waiting.pop(next(iter(self._waiting)))
            try:
                await (self._tell(notice) if isinstance(notice, Tell) else self._warn(notice))
            except Unreachable as err:
                self._note_failure(notice, str(err))
            except Exception:
                self.failed += 1
                logger.exception("notice for %s/%s", notice.namespace, notice.name)

    async def _tell(self, tell: Tell) -> None:
        words = text.sentence(tell.reason)
        if tell.gated and not await self._write_message(tell, words):
            return
        code = tell.reason.code
        await self._write_event(tell, code.value, words, warning=code is Code.INVALID_REQUEST, action="Planning")

    async def _warn(self, warn: Warn) -> None:
        await self._write_event(warn, warn.problem, warn.text, warning=True, action="Reading")

    async def _write_event(self, notice: Notice, reason: str, note: str, *, warning: bool, action: str) -> None:
        body = event_body(
            namespace=notice.namespace,
            pod=notice.name,
            uid=notice.uid,
            reason=reason,
            note=note,
            warning=warning,
            action=action,
            instance=self._settings.instance,
            now_ms=self._now_ms(),
        )
        answer = await self._client.create(paths.events(notice.namespace), body)
        if not answer.ok:
            self._note_failure(notice, f"{answer.status}: {answer.message}")

    async def _write_message(self, tell: Tell, words: str) -> bool:
        """The message of PodScheduled, while its reason is SchedulingGated; False when the pod waits no longer."""
        # A new gated pod has this one condition; whatever differs makes the patch fail, and then we look.
        answer = await self._patch_message(tell, words, 0)
        if answer.status == 422:
            pod = await look(self._client, tell.namespace, tell.name, tell.uid)
            if pod is None or pod.gate_index is None:
                return False
            if pod.message_index is None:
                return True
            answer = await self._patch_message(tell, words, pod.message_index)
        if not answer.ok:
            self._note_failure(tell, f"{answer.status}: {answer.message}")
        return answer.status not in (404, 422)

    async def _patch_message(self, tell: Tell, words: str, index: int) -> Answer:
        path = paths.pod(tell.namespace, tell.name, "status")
        return await self._client.patch(path, message_patch(tell.uid, index, words), PatchKind.JSON)

    def _note_failure(self, notice: Notice, why: str) -> None:
        self.failed += 1
        logger.info("not told to %s/%s: %s", notice.namespace, notice.name, why)


def message_patch(uid: str, index: int, message: str) -> list[dict[str, Any]]:
    """A JSON patch of pods/status that writes the message, or nothing when the pod is no longer gated."""
    condition = f"/status/conditions/{index}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": f"{condition}/type", "value": "PodScheduled"},
        {"op": "test", "path": f"{condition}/reason", "value": "SchedulingGated"},
        {"op": "add", "path": f"{condition}/message", "value": message},
    ]


def _key(notice: Notice) -> tuple[str, str]:
    return (notice.uid, notice.problem if isinstance(notice, Warn) else "")
