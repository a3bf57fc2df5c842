"""Anti-affinity of the pods that are on nodes already: it closes nodes to newcomers that never asked for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.pod import PodAffinityTerm, PodFacts
from scheduler.pod_terms import Namespaces, TermIndex, selects


class Repulsion:
    """Each distinct anti-affinity term of the pods on nodes, with the slots of the pods that carry it."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._carriers: dict[PodAffinityTerm, dict[int, int]] = {}
        self._index: TermIndex[PodAffinityTerm] = TermIndex()

    def add(self, pod: PodFacts, slot: int) -> None:
        """A pod arrived on a slot."""
        for term in pod.pod_anti_affinity:
            carriers = self._carriers.get(term)
            if carriers is None:
                carriers = self._carriers[term] = {}
                self._index.add(term, term)
            carriers[slot] = carriers.get(slot, 0) + 1

    def remove(self, pod: PodFacts, slot: int) -> None:
        """A pod left; takes back what `add` did with the same arguments."""
        for term in pod.pod_anti_affinity:
            carriers = self._carriers[term]
            carriers[slot] -= 1
            if not carriers[slot]:
                del carriers[slot]
            if not carriers:
                del self._carriers[term]
                self._index.remove(term, term)

    def concerns(self, pod: PodFacts) -> bool:
        """Whether any carried term speaks of the pod."""
        if not self._carriers:
            return False
        return any(selects(term, pod, self._namespaces) for term in self._index.candidates(pod.labels))

    def against(self, pod: PodFacts) -> Iterator[tuple[str, Mapping[int, int]]]:
        """Topology key and carrying slots of each term that speaks of the pod."""
        for term in self._index.candidates(pod.labels):
            if selects(term, pod, self._namespaces):
                yield term.topology_key, self._carriers[term]
