"""Keeps gangs whole: what a gang that lost a member does, before it is bound and after."""

from __future__ import annotations

from scheduler.barrier import Barrier, goes_forward
from scheduler.engine_settings import EngineSettings
from scheduler.gang import Gang
from scheduler.instruction import Evict
from scheduler.record import Stage
from scheduler.roster import Roster


class GangUpkeep:
    """Looks at gangs of which something changed, and at those that have run below their minimum for too long."""

    def __init__(self, roster: Roster, barrier: Barrier, settings: EngineSettings) -> None:
        self._roster = roster
        self._gangs = roster.gangs
        self._barrier = barrier
        self._settings = settings
        self._broken: dict[object, Gang] = {}

    def before_planning(self, now_ms: int) -> None:
        """Notes which gangs run below their minimum, and lets go on at bind who need not wait any longer."""
        for key in self._gangs.touched:
            gang = self._gangs.by_key.get(key)
            if gang is None:
                self._broken.pop(key, None)
                self._barrier.on_decided(key)
                continue
            self._note(gang, now_ms)
            self._barrier.look_again(gang)

    def after_planning(self, now_ms: int) -> bool:
        """A gang of which some have places, none is bound and that cannot be whole gives all back. Evicts what is due.

        While those that it lacks are only put off for a moment, the others keep their places. Returns whether some gave
        theirs back, so that another round should follow.
        """
        gave_up = False
        touched, self._gangs.touched = self._gangs.touched, {}
        for key in touched:
            gang = self._gangs.by_key.get(key)
            if gang is None or gang.forward or not _has_places(gang):
                continue
            view = None if gang.spec is None else gang.view()
            if view is not None and view.satisfied(view.root):
                continue
            if view is not None and view.can_form(view.root) and not self._was_tried_in_vain(gang):
                self._gangs.touch(gang)
                continue
            gave_up |= self._barrier.give_up(gang, "its gang cannot be whole", now_ms)
        for gang in list(self._broken.values()):
            if gang.broken_since_ms is not None:
                self._end_if_due(gang, now_ms)
        return gave_up

    def _was_tried_in_vain(self, gang: Gang) -> bool:
        waits = next((uid for uid in gang.members if uid in self._roster.waiting), None)
        if waits is None:
            return False
        group = self._roster.line.alike(self._roster.waiting[waits])
        return group.block is not None or group.vain_at is not None

    def _note(self, gang: Gang, now_ms: int) -> None:
        running = any(one.stays for one in gang.members.values())
        begun_here, gang.forward = gang.forward, running or (gang.forward and goes_forward(gang, now_ms))
        if gang.forward and gang.opening is not None:
            gang.opening = None  # the watch was faster than the answer
        if gang.spec is None or not running or not _broken(gang, bound_only=True):
            gang.broken_since_ms = None
            self._broken.pop(gang.key, None)
        elif gang.broken_since_ms is None:
            since_ms = None if begun_here else gang.spec.stale_since_ms
            gang.broken_since_ms = now_ms if since_ms is None else since_ms
            self._broken[gang.key] = gang
            grace_ms = self._grace_ms(gang)
            if grace_ms is not None:
                self._roster.alarm(gang.broken_since_ms + grace_ms)

    def _grace_ms(self, gang: Gang) -> int | None:
        """How long the gang may run below its minimum, None for ever."""
        if gang.spec is None or not self._settings.restart_stale:
            return None
        return gang.spec.grace_ms(self._settings.stale_grace_ms)

    def _end_if_due(self, gang: Gang, now_ms: int) -> None:
        """Restarts what is left of the gang: its owner makes the pods anew."""
        grace_ms = self._grace_ms(gang)
        assert gang.broken_since_ms is not None
        if grace_ms is None or now_ms < gang.broken_since_ms + grace_ms:
            return
        broken = _broken(gang)
        if not broken:
            return  # those that it lacks are on their way
        gang.broken_since_ms = now_ms  # evictions that fail are ordered again after another grace
        self._roster.alarm(now_ms + max(grace_ms, self._settings.release_backoff_ms))
        for record in gang.running(broken):
            facts = record.facts
            self._roster.outbox.append(Evict(facts.uid, facts.namespace, facts.name, f"{gang.key} lost too many pods"))


def _has_places(gang: Gang) -> bool:
    return any(record.has_place for record in gang.members.values())


def _broken(gang: Gang, *, bound_only: bool = False) -> set[str]:
    """The leaves of which pods run, or have a place, in groups that are below their minimum."""
    if gang.spec is None:
        return set()
    view = gang.view(lambda record: record.stage is Stage.BOUND) if bound_only else gang.view()
    return view.broken()
