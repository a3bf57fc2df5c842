"""Which of several replicas acts: the one beside the kube-scheduler that holds the Lease.

kube-scheduler writes itself into a coordination Lease as `hostname_uuid`. Tangram runs in the same pod, so it has the
same hostname, and follows instead of electing a leader of its own. Holder and reader share a clock, too, so renewal
times can be compared with our own time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from extender_api.cluster import decode, paths
from extender_api.cluster.binding import BIND_S
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.node import LeaseFacts
from extender_api.cluster.reflector import Reflector, ReflectorSettings, Watched

logger = logging.getLogger(__name__)


SETTLE_S: Final = BIND_S + 2.0
"""So long after the Lease changed hands a Binding of the former holder's Tangram may still land: its kube-scheduler
asks for none once it has lost the Lease, a bind ends within BIND_S, and the API server gets a moment to finish."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """`follow` False: this replica is the only one and always acts. `hostname` is ours as kube-scheduler sees it."""

    follow: bool = True
    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    hostname: str = field(default_factory=socket.gethostname)


def holder_host(identity: str) -> str:
    """The hostname in `hostname_uuid`; the whole identity when nothing follows a `_`."""
    host, underscore, _ = identity.rpartition("_")
    return host if underscore else identity


def holds(lease: LeaseFacts | None, hostname: str, now_ms: int) -> bool:
    """Whether the kube-scheduler on this host holds the lease now."""
    if lease is None or not lease.holder:
        return False
    return holder_host(lease.holder) == hostname and now_ms < lease.renewed_ms + lease.duration_ms


class LeaseFollower:
    """Follows a Lease; `active` says whether we act. `on_change` gets every change of it, on the event loop.

    Nobody is active before the lease was read, nor when it is no longer renewed, whatever the reason.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: LeaseSettings,
        *,
        now_ms: Callable[[], int],
        on_change: Callable[[bool], None],
        reflector: ReflectorSettings | None = None,
    ) -> None:
        self.active = False
        self.settings: Final = settings
        self.synced: Final = asyncio.Event()
        self._now_ms = now_ms
        self._on_change = on_change
        self._lease: LeaseFacts | None = None
        self._since_ms = 0
        self._expiry: asyncio.TimerHandle | None = None
        watched = Watched(
            decode.LEASES, paths.leases(settings.namespace), {"fieldSelector": f"metadata.name={settings.name}"}
        )
        self.reflector: Final = Reflector(client, watched, self._lease_changed, reflector)

    @property
    def holder(self) -> str:
        """The identity in the lease, "" when there is none."""
        return self._lease.holder if self._lease else ""

    def may_write(self) -> bool:
        """Whether this replica acts, by the clock and not by when it was last looked at."""
        if not self.settings.follow:
            return True
        return self.active and holds(self._lease, self.settings.hostname, self._now_ms())

    async def settle(self) -> None:
        """For a replica whose turn it is: returns when nothing that the former one has sent can take effect any more.

        Counted from when the Lease was seen to change hands, and at the start from when it was acquired.
        """
        await asyncio.sleep(min((self._since_ms - self._now_ms()) / 1000 + SETTLE_S, SETTLE_S))

    async def run(self) -> None:
        """Follows until cancelled; then nobody is told any more."""
        if not self.settings.follow:
            self._set(True)
            self.synced.set()
            await asyncio.Event().wait()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.reflector.run(), name="watch lease")
                await self.reflector.synced.wait()
                self.synced.set()
        finally:
            if self._expiry is not None:
                self._expiry.cancel()

    def _lease_changed(self, _: LeaseFacts | None, lease: LeaseFacts | None) -> None:
        self._lease = lease
        self._look()

    def _look(self) -> None:
        """Decides anew, and again when the lease would expire."""
        now_ms = self._now_ms()
        active = holds(self._lease, self.settings.hostname, now_ms)
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if active and self._lease is not None:
            left_ms = self._lease.renewed_ms + self._lease.duration_ms - now_ms
            self._expiry = asyncio.get_running_loop().call_later(left_ms / 1000, self._look)
        self._set(active)

    def _set(self, active: bool) -> None:
        if active == self.active:
            return
        self.active = active
        acquired_ms = 0 if self.synced.is_set() or self._lease is None else self._lease.acquired_ms
        self._since_ms = acquired_ms or self._now_ms()
        logger.info("%s; the lease is held by %r", "active" if active else "standing by", self.holder)
        self._on_change(active)
