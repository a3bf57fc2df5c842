"""Keeps the queues' usage over time up to date, where the settings ask for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from extender_api import prometheus_usage
from extender_api.cluster.usage_store import UsageStore
from extender_api.prometheus_usage import PrometheusError
from extender_api.service import Service
from extender_api.settings import Usage, milliseconds
from queues.history import History, HistoryError

logger = logging.getLogger(__name__)

SAVE_EVERY_MS: Final = 55_000
"""A restart loses at most a minute."""


class UsageFollower:
    """Samples or reads usage, and gives it to the queues' books. Only the replica that acts samples and saves."""

    def __init__(
        self,
        service: Service,
        settings: Usage,
        store: UsageStore,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._service = service
        self._settings = settings
        self._store = store
        self._clock = clock
        half_life_ms = milliseconds(settings.half_life_s) if settings.half_life_s else None
        self.history: Final = History(half_life_ms, milliseconds(settings.window_s))
        self._loaded = False
        self._saved_ms = 0

    async def run(self) -> None:
        """Works until cancelled; ends at once where usage does not count."""
        if self._settings.source == "off":
            return
        self._service.engine.cluster.accounts.usage_k_milli = round(self._settings.k * 1000)
        while True:
            try:
                await (self._read() if self._settings.source == "prometheus" else self._sample())
            except Exception:
                # fairness over time is a refinement: without it shares follow from weights alone
                logger.exception("usage over time could not be brought up to date")
            await asyncio.sleep(self._settings.sample_s)

    async def _read(self) -> None:
        assert self._settings.prometheus_url is not None
        try:
            usage = await prometheus_usage.read(self._settings.prometheus_url, self._settings.prometheus_query)
        except PrometheusError as err:
            logger.warning("usage over time: %s; what was read before counts on", err)
            return
        self._service.engine.cluster.accounts.usage = usage
        self._service.wake()

    async def _sample(self) -> None:
        if self._service.ready() is not None:
            self._loaded = False  # another replica samples; what it has saved is read when we act again
            return
        if not self._loaded:
            await self._load()
        accounts = self._service.engine.cluster.accounts
        now_ms = self._clock()
        held = {name: standing.allocated for name, standing in accounts.books.standings.items()}
        self.history.sample(now_ms, held, accounts.capacity)
        accounts.usage = self.history.usage(now_ms)
        self._service.wake()
        # a week of samples is not overwritten because nobody answered when they were asked for
        if self._loaded and now_ms - self._saved_ms >= SAVE_EVERY_MS:
            self._saved_ms = now_ms
            await self._store.save(await asyncio.to_thread(self.history.dump))

    async def _load(self) -> None:
        text = await self._store.load()
        self._loaded = self._store.answered
        if text is not None:
            try:
                self.history.load(text, self._clock())
            except HistoryError as err:
                logger.warning("%s; it begins anew", err)
