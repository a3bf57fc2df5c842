"""Keeps a copy of all objects of one kind in step with the API server, and tells every change.

A list in pages gives the first copy; a watch continues from there. When the watch cannot be continued the list is read
again and compared with the copy, so that the receiver sees the difference and never the same object as new. Nothing but
cancellation ends a reflector; trouble is waited out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from extender_api.cluster.answer import Refused, Silence, Unreachable
from extender_api.cluster.client import ClusterClient, WatchStream
from extender_api.cluster.codec import DELETED, ERROR, Codec, Event, Found
from extender_api.cluster.fields import DecodeError

logger = logging.getLogger(__name__)

Facts = TypeVar("Facts")
OnChange = Callable[[Facts | None, Facts | None], None]
"""Gets what was known (None: new) and what is known now (None: gone)."""


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """`watch_s` is the range from which the server-side length of each watch is drawn.

    A watch on which nothing is heard for `idle_s` is opened again where it stopped; a kind of which nothing was heard
    for `list_after_s` is listed. Waits after failures double from `backoff_first_s` to `backoff_max_s`; an optional
    kind that is not there is looked for every `look_again_s`. After `yield_every` deliveries others get their turn.
    """

    page_size: int = 500
    watch_s: tuple[int, int] = (240, 420)
    idle_s: float = 90.0
    list_after_s: float = 150.0
    backoff_first_s: float = 0.25
    backoff_max_s: float = 30.0
    look_again_s: float = 30.0
    yield_every: int = 32


@dataclass(slots=True)
class ReflectorStats:
    """Counters for the metrics. `heard_s` is the monotonic time of the last sign of life, 0 before the first."""

    lists: int = 0
    relists: int = 0
    watches: int = 0
    failures: int = 0
    events: int = 0
    unreadable: int = 0
    not_taken: int = 0
    heard_s: float = 0.0
    last_failure: str = ""

    def lag_s(self, now_s: float) -> float:
        """Seconds since the API server was last heard (bookmarks come every minute or so), 0 before the first list."""
        return max(0.0, now_s - self.heard_s) if self.heard_s else 0.0


@dataclass(frozen=True, slots=True)
class Watched(Generic[Facts]):
    """What a reflector follows: a codec, the path of the collection, and selectors as query parameters.

    An `optional` kind may be one that the cluster does not have or that may not be read: then there are no objects.
    `name` tells it from kinds of other groups, in logs and metrics; "": the codec's kind does.
    """

    codec: Codec[Any, Facts]
    path: str
    selectors: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False
    name: str = ""


_SHORTEST_WATCH_S: Final = 1.0
_REFUSALS_BELIEVED: Final = 2
HTTP_FORBIDDEN: Final = 403
HTTP_NOT_FOUND: Final = 404


class Expired(Exception):
    """The version to continue from is too old for the API server: list again."""


class Reflector(Generic[Facts]):
    """`objects` is the copy, by the codec's key. `synced` is set once the first list has been delivered, for good."""

    def __init__(
        self,
        client: ClusterClient,
        watched: Watched[Facts],
        on_change: OnChange[Facts],
        settings: ReflectorSettings | None = None,
    ) -> None:
        self.objects: Final[dict[str, Facts]] = {}
        self.synced: Final = asyncio.Event()
        self.stats: Final = ReflectorStats()
        self.kind: Final = watched.name or watched.codec.kind
        self.absent = False
        """Whether an optional kind is not there, or may not be read."""
        self.unreadable: dict[str, str] = {}
        """By key, why an object cannot be read. What was known of it before is still in `objects`."""
        self._client = client
        self._watched = watched
        self._codec = watched.codec
        self._on_change = on_change
        self._settings = settings or ReflectorSettings()
        self._version = ""
        self._must_list = True
        self._called: Final = asyncio.Event()
        self._stream: WatchStream | None = None
        self._since_turn = 0
        self._failed_in_a_row = 0
        self._waiting_for_list: list[asyncio.Future[None]] = []
        self._untaken: dict[str, Facts | None] = {}
        """What the receiver choked on, by key, to be told again: with each list, and whenever a watch is opened."""

    def relist(self) -> None:
        """Lists again as soon as possible, as when the copy is suspected of having missed something."""
        self._must_list = True
        self._called.set()
        if self._stream is not None:
            self._stream.close()

    @property
    def failing(self) -> str:
        """The last failure when several have come in a row, else ""."""
        return self.stats.last_failure if self._failed_in_a_row > _REFUSALS_BELIEVED else ""

    async def refresh(self) -> None:
        """Lists again and returns once all of it is delivered: everything written before the call is then known."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_list.append(done)
        self.relist()
        await done

    async def run(self) -> None:
        """Follows until cancelled."""
        while True:
            try:
                while self._must_list:
                    await self._list()
                await self._follow()
            except Silence as err:
                # Quiet kinds are silent for long; a dead connection shows when the next watch is opened.
                logger.debug("watch of %s: %s", self.kind, err)
                self._failed_in_a_row = 0
                self._must_list |= self.stats.lag_s(time.monotonic()) > self._settings.list_after_s
            except (Expired, DecodeError) as err:
                self._must_list = True
                await self._pause(err)
            except (Unreachable, Refused) as err:
                if isinstance(err, Refused) and self._says_absent(err.answer.status):
                    await self._do_without(err)
                else:
                    await self._pause(err)

    # -- kinds that need not be there ---------------------------------------------------------------------------

    def _says_absent(self, status: int) -> bool:
        """Whether a refused list says that an optional kind is not there, or not for us.

        That it may not be read is not believed at once, since an API server that starts may not know the roles yet, and
        never once objects are known: they stay.
        """
        if not self._watched.optional or not self._must_list:
            return False
        forbidden = self._failed_in_a_row >= _REFUSALS_BELIEVED and not self.objects
        return status == HTTP_NOT_FOUND or (status == HTTP_FORBIDDEN and forbidden)

    async def _do_without(self, err: Exception) -> None:
        """An optional kind that is not there is like a list without objects. It may come later."""
        if not self.absent:
            logger.info("%s: there are none to read (%s)", self.kind, err)
        self.absent = True
        self.unreadable.clear()
        for key in list(self.objects):
            self._deliver(key, None)
            await self._take_turns()
        self._heard()
        self.synced.set()
        self._answer(self._waiting_for_list)
        self._waiting_for_list = []
        self._called.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.look_again_s * random.uniform(0.8, 1.2)):
                await self._called.wait()

    @staticmethod
    def _answer(waiting: list[asyncio.Future[None]]) -> None:
        for done in waiting:
            if not done.done():
                done.set_result(None)

    # -- list --------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        relist = self.synced.is_set()
        self._must_list = False
        waiting, self._waiting_for_list = self._waiting_for_list, []
        try:
            found, self._version = await self._read_pages()
        except BaseException:
            self._must_list = True
            self._waiting_for_list += waiting
            raise
        self.stats.lists += 1
        self.stats.relists += relist
        self.unreadable = {key: problem for key, problem in self.unreadable.items() if key in found}
        for key in [key for key in self.objects if key not in found]:
            self._deliver(key, None)
            await self._take_turns()
        for item in found.values():
            self._take(item)
            await self._take_turns()
        if not relist or self.absent:
            logger.info("%s: %d objects", self.kind, len(self.objects))
        if self.absent:
            self.absent, self._failed_in_a_row = False, 0
        self.synced.set()
        self._answer(waiting)

    async def _read_pages(self) -> tuple[dict[str, Found[Facts]], str]:
        """All objects by key, and the version at which they stood."""
        found: dict[str, Found[Facts]] = {}
        token = ""
        while True:
            answer = await self._client.list_page(
                self._watched.path, limit=self._settings.page_size, token=token, selectors=self._watched.selectors
            )
            if answer.status == 410:
                raise Expired("the list took too long")
            if not answer.ok:
                raise Refused(answer)
            page = self._codec.page(answer.body)
            found.update((item.key, item) for item in page.items)
            token = page.token
            self._heard()
            if not token:
                return found, page.version
            await asyncio.sleep(0)

    # -- watch -------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        opened_s = time.monotonic()
        events_before = self.stats.events
        self.stats.watches += 1
        async with self._client.watch(
            self._watched.path,
            version=self._version,
            timeout_s=random.randint(*self._settings.watch_s),
            idle_s=self._settings.idle_s,
            selectors=self._watched.selectors,
        ) as stream:
            self._stream = stream
            try:
                if not self._must_list:
                    await self._deliver_again()
                    await self._read(stream)
            except Unreachable:
                if not self._must_list:
                    raise
            finally:
                self._stream = None
        if self._must_list or self.stats.events > events_before:
            return
        if time.monotonic() - opened_s < _SHORTEST_WATCH_S:
            raise Unreachable("the watch ended at once", maybe_done=False)
        self._failed_in_a_row = 0

    async def _read(self, stream: WatchStream) -> None:
        async for lines in stream:
            self._heard()
            for line in lines:
                self._apply(self._codec.event(line))
                await self._take_turns()
                if self._must_list:
                    return

    def _apply(self, event: Event[Facts]) -> None:
        if event.type == ERROR:
            code, text = event.status
            raise Expired(f"{code}: {text}")
        self.stats.events += 1
        self._failed_in_a_row = 0
        if event.version:
            self._version = event.version
        if event.found is None:
            return
        if event.type == DELETED:
            self.unreadable.pop(event.found.key, None)
            self._deliver(event.found.key, None)
        else:
            self._take(event.found)

    # -- what came -----------------------------------------------------------------------------------------------

    def _take(self, found: Found[Facts]) -> None:
        if found.facts is None:
            # What was known of it stays: an object that cannot be read is not one that is gone.
            self.stats.unreadable += 1
            self.unreadable[found.key] = str(found.error)
            logger.warning("unreadable, left as it was: %s", found.error)
            return
        self.unreadable.pop(found.key, None)
        self._deliver(found.key, found.facts)

    def _deliver(self, key: str, new: Facts | None) -> None:
        old = self.objects.get(key)
        if new is None and old is None:
            return
        if new is not None:
            self.objects[key] = new
            if old is not None and key not in self._untaken and self._codec.same(old, new):
                return
        try:
            self._on_change(old, new)
        except Exception:
            # One object that the receiver chokes on must not cost the view of all others.
            self.stats.not_taken += 1
            self._untaken[key] = new
            logger.exception("change of %s %s was not taken", self.kind, key)
            return
        self._untaken.pop(key, None)
        if new is None:
            del self.objects[key]

    async def _deliver_again(self) -> None:
        for key, facts in list(self._untaken.items()):
            self._deliver(key, facts)
            await self._take_turns()

    async def _take_turns(self) -> None:
        # What is buffered is read without ever waiting, so others must be let in on purpose.
        self._since_turn += 1
        if self._since_turn >= self._settings.yield_every:
            self._since_turn = 0
            await asyncio.sleep(0)

    # -- trouble -------------------------------------------------------------------------------------------------

    def _heard(self) -> None:
        self.stats.heard_s = time.monotonic()

    async def _pause(self, err: Exception) -> None:
        """Notes a failure and waits: twice as long each time until a stream is good again."""
        asked_s = 0.0
        if isinstance(err, Refused):
            asked_s = err.answer.retry_after_s or 0.0
            # that a kind is gone is for a list to say
            self._must_list |= err.answer.status == 410 or (
                self._watched.optional and err.answer.status == HTTP_NOT_FOUND
            )
        self.stats.failures += 1
        self.stats.last_failure = str(err)
        level = logging.DEBUG if self._failed_in_a_row % 10 else logging.WARNING
        self._failed_in_a_row += 1
        logger.log(level, "watching %s, failure %d in a row: %s", self.kind, self._failed_in_a_row, err)
        doubled_s = self._settings.backoff_first_s * 2.0 ** min(self._failed_in_a_row - 1, 20)
        longest_s = self._settings.backoff_max_s
        await asyncio.sleep(min(max(doubled_s, asked_s), longest_s) * random.uniform(0.5, 1.0))
