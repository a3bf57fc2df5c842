"""The gangs that wait as one round has them: each is looked at once, and again after it got a step."""

from __future__ import annotations

from typing import Final

from queues.amounts import Amounts
from queues.order import Rank
from scheduler.gang import View, pods_of
from scheduler.gang_spec import GangKey
from scheduler.line import Alike
from scheduler.record import PodRecord

AFTER_ALL_MS: Final = 1 << 60
"""Later than any pod is created."""


class GangViews:
    """Views by gang."""

    def __init__(self) -> None:
        self._views: dict[GangKey, View] = {}

    def of(self, group: Alike) -> View | None:
        """The gang of a group; None when nothing defines it (yet)."""
        gang = group.gang
        assert gang is not None
        if gang.spec is None:
            return None
        found = self._views.get(gang.key)
        if found is None:
            found = self._views[gang.key] = gang.view()
        return found

    def forget(self, group: Alike) -> None:
        """Members got places."""
        assert group.gang is not None
        self._views.pop(group.gang.key, None)

    def rank(self, group: Alike) -> Rank:
        """The place of a group: that of its first pod. A gang that has its minimum grows after all of its priority."""
        rank = group.pods[0].rank
        if group.gang is None or not rank.not_released:
            return rank
        view = self.of(group)
        if view is None or not view.satisfied(view.root):
            return rank
        return rank._replace(created_ms=rank.created_ms + AFTER_ALL_MS)

    def wants(self, record: PodRecord, group: Alike) -> Amounts:
        """What is asked for when it is the pod's turn: by the next step of its gang, where it has one."""
        view = None if group.gang is None else self.of(group)
        step = None if view is None else next(view.steps(), None)
        if step is None:
            return record.wants
        return Amounts(*map(sum, zip(*(one.wants for one in pods_of(step)), strict=True)))

    def has_begun(self, group: Alike) -> bool:
        """Whether some of the gang have places, and too few."""
        view = self.of(group)
        return view is not None and bool(view.placed) and not view.satisfied(view.root)
