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
Key = tuple[str, str]
"""The pod's uid, and the problem of a warning; reasons have none."""


@dataclass(frozen=True, slots=True)
class NoticeSettings:
    """`per_second` notices on average, `burst` at once. The queue has room for those of `waiting` pods.

    A notice is tried `attempts` times, with waits that double from `backoff_first_s` on. `instance` names us in events.
    """

    per_second: float = 10.0
    burst: int = 100
    waiting: int = 10_000
    attempts: int = 7
    backoff_first_s: float = 1.0
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

    What cannot be written for a passing cause waits beside the queue for its next try. `dropped` counts notices for
    which the queue had no room, `failed` those that were given up; both are lost.
    """

    def __init__(
        self, client: ClusterClient, *, now_ms: Callable[[], int], settings: NoticeSettings | None = None
    ) -> None:
        self.dropped = 0
        self.failed = 0
        self._client = client
        self._now_ms = now_ms
        self._settings: Final = settings or NoticeSettings()
        self._waiting: dict[str, dict[Key, Notice]] = {}  # by uid
        self._resting: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._under_way: Key | None = None
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values())) + len(self._resting)

    def submit(self, notice: Notice) -> None:
        """Takes a notice; one that waits for the same pod is replaced in its place."""
        self._forget(_key(notice))
        self._put(notice)

    def _put(self, notice: Notice) -> None:
        if notice.uid not in self._waiting and len(self._waiting) >= self._settings.waiting:
            self.dropped += len(self._waiting.pop(next(iter(self._waiting))))
        self._waiting.setdefault(notice.uid, {})[_key(notice)] = notice
        self._some.set()

    def withdraw(self, uid: str) -> None:
        """Forgets the reason that waits to be told for a pod, as when it waits no longer."""
        key = (uid, "")
        self._forget(key)
        if self._waiting.get(uid, {}).pop(key, None) is not None and not self._waiting[uid]:
            del self._waiting[uid]

    def _forget(self, key: Key) -> None:
        """No more tries for what was told under this key until now."""
        self._failures.pop(key, None)
        if key == self._under_way:
            self._under_way = None
        resting = self._resting.pop(key, None)
        if resting is not None:
            resting.cancel()

    def clear(self) -> None:
        """Forgets all that waits."""
        for resting in self._resting.values():
            resting.cancel()
        self._resting.clear()
        self._failures.clear()
        self._waiting.clear()
        self._under_way = None

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
            await self._write(self._next())

    def _next(self) -> Notice:
        uid, notices = next(iter(self._waiting.items()))
        notice = notices.pop(next(iter(notices)))
        if not notices:
            del self._waiting[uid]
        return notice

    async def _write(self, notice: Notice) -> None:
        key = self._under_way = _key(notice)
        try:
            await (self._tell(notice) if isinstance(notice, Tell) else self._warn(notice))
        except Unreachable as err:
            self._not_written(notice, str(err), passing=True)
        except _NotWritten as err:
            self._not_written(notice, str(err), passing=err.passing)
        except Exception:
            self.failed += 1
            self._failures.pop(key, None)
            logger.exception("notice for %s/%s", notice.namespace, notice.name)
        else:
            self._failures.pop(key, None)
        self._under_way = None

    def _not_written(self, notice: Notice, why: str, *, passing: bool) -> None:
        key = _key(notice)
        if self._under_way != key:
            return  # replaced or withdrawn meanwhile
        failures = self._failures.pop(key, 0) + 1
        if passing and failures < self._settings.attempts:
            self._failures[key] = failures
            pause_s = self._settings.backoff_first_s * 2.0 ** (failures - 1)
            self._resting[key] = asyncio.get_running_loop().call_later(pause_s, self._rested, notice)
            return
        self._note_failure(notice, why)

    def _rested(self, notice: Notice) -> None:
        del self._resting[_key(notice)]
        self._put(notice)

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
            raise _NotWritten(answer)

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
        if answer.status in (404, 422):
            return False
        if not answer.ok:
            refused = _NotWritten(answer)
            if refused.passing:
                raise refused
            self._note_failure(tell, str(refused))  # the event must do
        return True

    async def _patch_message(self, tell: Tell, words: str, index: int) -> Answer:
        path = paths.pod(tell.namespace, tell.name, "status")
        return await self._client.patch(path, message_patch(tell.uid, index, words), PatchKind.JSON)

    def _note_failure(self, notice: Notice, why: str) -> None:
        self.failed += 1
        logger.info("not told to %s/%s: %s", notice.namespace, notice.name, why)


class _NotWritten(Exception):
    """The API server refused. `passing` says that it may not refuse another time."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status}: {answer.message}")
        self.passing = answer.status >= 500 or answer.status in (408, 409, 429)


def message_patch(uid: str, index: int, message: str) -> list[dict[str, Any]]:
    """A JSON patch of pods/status that writes the message, or nothing when the pod is no longer gated."""
    condition = f"/status/conditions/{index}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": f"{condition}/type", "value": "PodScheduled"},
        {"op": "test", "path": f"{condition}/reason", "value": "SchedulingGated"},
        {"op": "add", "path": f"{condition}/message", "value": message},
    ]


def _key(notice: Notice) -> Key:
    return (notice.uid, notice.problem if isinstance(notice, Warn) else "")
