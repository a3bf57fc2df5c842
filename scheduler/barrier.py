"""The barrier at bind: no Binding of a gang is written before all that its minimum needs are at bind.

The first Binding goes alone. Once it is written, or may be, the others follow and nothing is taken back; where it fails
for certain, all of the gang give their places back.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cluster import Cluster
from scheduler.gang import Gang, View, smallest
from scheduler.gang_spec import GangKey
from scheduler.record import PodRecord, Stage
from scheduler.roster import Roster


class Barrier:
    """Who of which gang waits at bind. `on_decided` hears of each gang whose members need not wait any longer."""

    def __init__(self, cluster: Cluster, roster: Roster) -> None:
        self._cluster = cluster
        self._roster = roster
        self.on_decided: Callable[[GangKey], None] = lambda gang: None

    def arrive(self, record: PodRecord, now_ms: int) -> bool:
        """The member is at bind. Whether it has to wait there for others; one that need not goes first or follows."""
        gang = record.gang
        record.at_barrier = gang is not None
        if gang is None:
            return False
        gang.forward = gang.forward and goes_forward(gang, now_ms)
        if not gang.forward:
            if gang.opening is not None or not self._is_complete(gang):
                return True
            gang.opening = record.uid
        record.at_barrier = False
        return False

    def opens(self, record: PodRecord) -> bool:
        """Whether the member's Binding is the first of its gang."""
        return record.gang is not None and record.gang.opening == record.uid

    def look_again(self, gang: Gang) -> None:
        """Something about the gang changed. Where those that wait have become enough, they need not wait longer."""
        if gang.opening not in gang.members:
            gang.opening = None
        waits = any(one.at_barrier for one in gang.members.values())
        if gang.left_bind or (waits and gang.opening is None and (gang.forward or self._is_complete(gang))):
            gang.left_bind = False
            self.on_decided(gang.key)

    def opened(self, gang: Gang) -> None:
        """The first Binding is written, or may be: the others follow."""
        gang.opening, gang.forward = None, True
        self.on_decided(gang.key)

    def give_up(self, gang: Gang, why: str, now_ms: int, again_ms: int = 0) -> bool:
        """All members that no Binding is on its way for give their places back and wait anew, not before `again_ms`.

        Returns whether there were any.
        """
        gave = False
        for record in list(gang.members.values()):
            if record.stage not in (Stage.PLANNED, Stage.RELEASED, Stage.BINDING) or not record.settled(now_ms):
                continue
            record.at_barrier = False
            record.refusals += 1  # it may have been put aside, and is to be woken
            self._cluster.release(record.uid)
            gave = True
            if record.facts.deleted_ms is None:
                record.not_before_ms = max(record.not_before_ms, again_ms)
                self._roster.wait(record, why, now_ms)
        if again_ms:
            self._roster.alarm(again_ms)
        self.on_decided(gang.key)
        return gave

    def _is_complete(self, gang: Gang) -> bool:
        """Whether those at bind and on nodes are enough."""
        if gang.spec is None:
            return False
        there = [one for one in gang.members.values() if one.at_barrier or one.stays]
        if len(there) + sum(gang.ended.values()) < smallest(gang.spec.root):
            return False
        return View(gang.spec.root, there, gang.ended).satisfied(gang.spec.root)


def goes_forward(gang: Gang, now_ms: int) -> bool:
    """Whether a member is bound, or a Binding of one may still take effect.

    One that is about to go carries nobody: pods that follow a gang that ends have to come together anew.
    """
    return any(one.stays or not one.settled(now_ms) for one in gang.members.values())
