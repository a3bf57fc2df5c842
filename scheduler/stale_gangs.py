"""Gangs that have run below their minimum for too long, in a cluster that is only described."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.gang_spec import STALE_GRACE_MS
from scheduler.gangs import Gangs
from scheduler.plan_answer import Eviction


def evictions(gangs: Gangs, now_ms: int) -> Iterator[Eviction]:
    """What is left of gangs whose grace is over. Since when they are broken has to be said in their groups."""
    for key, gang in sorted(gangs.by_key.items()):
        spec = gang.spec
        if spec is None or spec.stale_since_ms is None or gang.ended:
            continue
        grace_ms = spec.grace_ms(STALE_GRACE_MS)
        if grace_ms is None or now_ms - spec.stale_since_ms < grace_ms:
            continue
        for record in sorted(gang.running(gang.view().broken()), key=lambda one: one.facts.name):
            yield Eviction(record.facts, "stale", key.name)
