"""Pods that got MIG instances by annotation, an old way: which instances they hold nobody knows."""

from __future__ import annotations

from scheduler.pod import PodFacts
from topology.vocabulary import MIG_RESOURCE_PREFIX


class OldMig:
    """The slots with such pods. No other MIG instance is given away there (as KAI does it)."""

    def __init__(self) -> None:
        self._on: dict[int, set[str]] = {}

    def add(self, pod: PodFacts, slot: int) -> None:
        """The pod is on the slot's node."""
        if holds_unnamed(pod):
            self._on.setdefault(slot, set()).add(pod.uid)

    def remove(self, pod: PodFacts, slot: int) -> None:
        """It is there no longer."""
        here = self._on.get(slot)
        if here is not None:
            here.discard(pod.uid)
            if not here:
                del self._on[slot]

    def concerns(self, pod: PodFacts) -> bool:
        """Whether the pod asks for instances while some slot is closed to such."""
        return bool(self._on) and asks_for_mig(pod)

    def conflicts(self, pod: PodFacts) -> set[int]:
        """The slots that are closed to the pod."""
        return set(self._on) if self.concerns(pod) else set()


def asks_for_mig(pod: PodFacts) -> bool:
    """Whether a container asks for MIG instances."""
    return any(
        name.startswith(MIG_RESOURCE_PREFIX)
        for container in (*pod.containers, *pod.init_containers)
        for name in (*container.requests, *container.limits)
    )


def holds_unnamed(pod: PodFacts) -> bool:
    """Whether the pod has an annotation of that kind, and asks for no instances."""
    return any(key.startswith(MIG_RESOURCE_PREFIX) for key in pod.annotations) and not asks_for_mig(pod)
