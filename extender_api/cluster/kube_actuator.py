"""The actuator of a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from extender_api.actuator import BindResult
from extender_api.cluster import binding, gate
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.lanes import Lanes, LaneSettings
from extender_api.cluster.notices import Notices, NoticeSettings
from scheduler.instruction import BindOrder, Instruction, Release, Tell, Warn


class KubeActuator:
    """Carries out instructions through the API server. `run` must be running for all but `bind`.

    `on_result(uid, ok, status)` hears the end of each release and nomination, on the event loop; `status` is the last
    HTTP status, 0 when there was no answer. `may_write` is asked before each Binding is posted. `lanes` and `notices`
    have the numbers for the metrics.
    """

    def __init__(
        self,
        client: ClusterClient,
        *,
        on_result: Callable[[str, bool, int], None],
        now_ms: Callable[[], int],
        may_write: Callable[[], bool] = lambda: True,
        lanes: LaneSettings | None = None,
        notices: NoticeSettings | None = None,
    ) -> None:
        self._client = client
        self._may_write = may_write
        self.lanes: Final = Lanes(lambda order: gate.hand_over(client, order), on_result, lanes)
        self.notices: Final = Notices(client, now_ms=now_ms, settings=notices)

    def submit(self, instruction: Instruction) -> None:
        """Takes an instruction; never blocks."""
        if isinstance(instruction, Tell | Warn):
            self.notices.submit(instruction)
            return
        if isinstance(instruction, Release):
            self.notices.withdraw(instruction.uid)
        self.lanes.submit(instruction)

    async def bind(self, order: BindOrder) -> BindResult:
        """Posts the Binding and finds out what became of it."""
        return await binding.bind(self._client, order, self._may_write)

    def stand_down(self) -> None:
        """Forgets all that waits, as when another replica takes over; nothing of it is reported."""
        self.lanes.clear()
        self.notices.clear()

    async def run(self) -> None:
        """Works until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.lanes.run(), name="releases")
            group.create_task(self.notices.run(), name="notices")
