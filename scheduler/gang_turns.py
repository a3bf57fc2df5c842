"""The turn of a gang in a round: its next step gets places, or it is found out why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.candidates import Candidates
from scheduler.cluster import Cluster
from scheduler.gang import Gang, Step, pods_of
from scheduler.gang_placing import Failure, GangPlacing
from scheduler.gang_spec import GangKey
from scheduler.ground import LiveGround, Tried
from scheduler.line import Alike
from scheduler.reason import Code, Reason
from scheduler.second_look import SecondLook
from scheduler.views_ground import ViewsGround

SEARCH_AGAIN_MS: Final = 100
SEARCH_LONGEST_MS: Final = 1000
"""A gang is searched for again when something grew, but after some searches in vain no more often than this."""
AT_ONCE: Final = 4


class GangTurns:
    """Turns of one round."""

    def __init__(
        self,
        cluster: Cluster,
        gangs: Mapping[GangKey, Gang],
        now_ms: int,
        ground: Callable[[NDArray[np.bool_] | None], ViewsGround] | None = None,
        exact_limit: float = 0,
        second_look: SecondLook | None = None,
    ) -> None:
        """`gangs` are all there are. `ground` makes what is placed on, of the nodes that are left (bool[slots]); what
        it tried stays there. None: on the cluster, where nothing stays. For the rest see `GangPlacing`.
        """
        self._cluster = cluster
        self._ground = ground
        self._placing = GangPlacing(cluster, gangs, exact_limit, second_look)
        self._now_ms = now_ms

    def next_step(self, candidates: Candidates, group: Alike) -> list[Tried] | None:
        """Places for the next step, which may be booked; None, and in the group why, when there are none."""
        gang = group.gang
        assert gang is not None
        view = candidates.views.of(group)
        if view is None:
            numbers: dict[str, int | str] = {"gang": str(gang.key), "missing": gang.missing}
            group.block, group.mark = Reason(Code.GANG_NOT_FOUND, numbers), candidates.mark(group)
            return None
        shortage = view.shortage() or (view.idle() if view.satisfied(view.root) else None)
        if shortage is not None:
            numbers = {
                "gang": str(gang.key), "present": shortage.present, "needed": shortage.needed,
            }  # fmt: skip
            if shortage.group:
                numbers["subgroup"] = shortage.group
            group.block, group.mark = Reason(Code.GANG_INCOMPLETE, numbers), candidates.mark(group)
            return None
        failure: Failure | None = None
        for step in view.steps():
            found = self._try(candidates, group, gang, step)
            if isinstance(found, list):
                return found
            failure = failure or found
        if failure is not None:
            self._in_vain(group, failure)
        return None

    def _try(self, candidates: Candidates, group: Alike, gang: Gang, step: Step) -> list[Tried] | Failure | None:
        """None: its queue does not let it start."""
        room = candidates.left(group, pods_of(step))
        if room is None:
            return None
        left = room.slots(self._cluster)
        if self._ground is not None:
            views = self._ground(left)
            failure = self._placing.place(views, gang, step, self._now_ms)
            return views.tried if failure is None else failure
        ground = LiveGround(self._cluster, left, self._now_ms)
        try:
            failure = self._placing.place(ground, gang, step, self._now_ms)
        finally:
            tried = ground.close()
        return tried if failure is None else failure

    def _in_vain(self, group: Alike, failure: Failure) -> None:
        group.block = None
        group.reason = failure.reason
        group.vain += 1
        group.vain_at = self._cluster.growth.now
        if group.vain > AT_ONCE:
            wait_ms = min(SEARCH_AGAIN_MS << min(group.vain - AT_ONCE, 10), SEARCH_LONGEST_MS)
            group.again_ms = self._now_ms + wait_ms
