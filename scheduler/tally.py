"""How many pods that terms of pod affinity select are where: counted once, then kept up to date pod by pod."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping

from scheduler.pod import PodFacts
from scheduler.pod_terms import Namespaces, TermIndex, Terms, all_select


class Tallies:
    """The pods on nodes, and for each list of terms asked for lately how many pods on each slot match all of them."""

    def __init__(self, namespaces: Namespaces, remembered: int = 256) -> None:
        """`remembered` is how many lists of terms are kept counted; the one unasked for longest is forgotten first."""
        self._namespaces = namespaces
        self._remembered = remembered
        self._pods: dict[str, dict[str, tuple[PodFacts, int]]] = {}
        self._counts: OrderedDict[Terms, dict[int, int]] = OrderedDict()
        self._index: TermIndex[Terms] = TermIndex()

    def add(self, pod: PodFacts, slot: int) -> None:
        """A pod arrived on a slot."""
        self._pods.setdefault(pod.namespace, {})[pod.uid] = (pod, slot)
        for terms in self._selecting(pod):
            counts = self._counts[terms]
            counts[slot] = counts.get(slot, 0) + 1

    def remove(self, pod: PodFacts, slot: int) -> None:
        """A pod left; takes back what `add` did with the same arguments."""
        pods = self._pods[pod.namespace]
        del pods[pod.uid]
        if not pods:
            del self._pods[pod.namespace]
        for terms in self._selecting(pod):
            counts = self._counts[terms]
            counts[slot] -= 1
            if not counts[slot]:
                del counts[slot]

    def of(self, terms: Terms) -> Mapping[int, int]:
        """Slot → number of pods there that match every one of the terms; slots without any are absent.

        `terms` holds at least one. Read-only, and true only until the next change.
        """
        counts = self._counts.get(terms)
        if counts is None:
            counts = self._counts[terms] = self._count(terms)
            self._index.add(terms, terms[0])
            if len(self._counts) > self._remembered:
                self._forget(next(iter(self._counts)))
        else:
            self._counts.move_to_end(terms)
        return counts

    def forget_namespace_selectors(self) -> None:
        """Namespaces changed their labels: what was counted by them is no longer true."""
        for terms in [each for each in self._counts if any(term.namespace_selector for term in each)]:
            self._forget(terms)

    def _forget(self, terms: Terms) -> None:
        del self._counts[terms]
        self._index.remove(terms, terms[0])

    def _selecting(self, pod: PodFacts) -> list[Terms]:
        if not self._counts:
            return []
        candidates = self._index.candidates(pod.labels)
        return [terms for terms in candidates if all_select(terms, pod, self._namespaces)]

    def _count(self, terms: Terms) -> dict[int, int]:
        counts: dict[int, int] = {}
        for pod, slot in self._pods_meant(terms):
            if all_select(terms, pod, self._namespaces):
                counts[slot] = counts.get(slot, 0) + 1
        return counts

    def _pods_meant(self, terms: Terms) -> Iterator[tuple[PodFacts, int]]:
        """Pods of every namespace that the first term can mean."""
        first = terms[0]
        names = first.namespaces if first.namespace_selector is None else tuple(self._pods)
        for name in dict.fromkeys(names):
            yield from self._pods.get(name, {}).values()
