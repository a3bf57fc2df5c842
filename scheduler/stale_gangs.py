"""Gangs that have run below their minimum for too long, in a cluster that is only described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.gangs import Gangs
from scheduler.plan_answer import Eviction
from scheduler.record import Stage

DEFAULT_GRACE_MS: Final = 60_000
"""Of gangs that do not say for how long they may run below their minimum."""


def evictions(gangs: Gangs, now_ms: int) -> Iterator[Eviction]:
    """What is left of gangs whose grace is over. Since when they are broken has to be said in their groups."""
    for key, gang in sorted(gangs.by_key.items()):
        spec = gang.spec
        if spec is None or spec.stale_since_ms is None or (spec.stale_grace_ms or 0) < 0 or gang.ended:
            continue
        broken = gang.view().broken()
        if now_ms - spec.stale_since_ms < (DEFAULT_GRACE_MS if spec.stale_grace_ms is None else spec.stale_grace_ms):
            continue
        for record in sorted(gang.members.values(), key=lambda one: one.facts.name):
            if record.stage is Stage.BOUND and record.has_place and record.membership.leaf in broken:
                yield Eviction(record.facts, "stale", key.name)
