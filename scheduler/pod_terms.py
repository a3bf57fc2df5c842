"""Terms of pod affinity: which pods a term selects, and an index that finds the terms that may select a pod."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from scheduler.pod import PodAffinityTerm, PodFacts
from topology import selector

Key = TypeVar("Key", bound=Hashable)
Terms = tuple[PodAffinityTerm, ...]

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that the API server puts on every namespace."""


class Namespaces:
    """Labels of namespaces. One that is not known (yet) has the one label that every namespace has."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}

    def put(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Takes a namespace's labels, None when it is gone. False when nothing changed."""
        before = self.labels(name)
        if labels is None:
            self._labels.pop(name, None)
        else:
            self._labels[name] = {NAMESPACE_NAME: name, **labels}
        return before != self.labels(name)

    def labels(self, name: str) -> Mapping[str, str]:
        known = self._labels.get(name)
        return {NAMESPACE_NAME: name} if known is None else known


def selects(term: PodAffinityTerm, pod: PodFacts, namespaces: Namespaces) -> bool:
    """Whether the term speaks of the pod: its namespace is meant, and its labels match."""
    if term.selector is None or not selector.matches(term.selector, pod.labels):
        return False
    if pod.namespace in term.namespaces:
        return True
    wanted = term.namespace_selector
    return wanted is not None and selector.matches(wanted, namespaces.labels(pod.namespace))


def all_select(terms: Terms, pod: PodFacts, namespaces: Namespaces) -> bool:
    """Whether every one of the terms speaks of the pod."""
    return all(selects(term, pod, namespaces) for term in terms)


class TermIndex(Generic[Key]):
    """Keys filed under a label that a pod must have for the key's term to select it.

    Nearly every term in use asks for one exact label (`app: x`), so that a pod meets the few terms that name one of
    its own labels. Terms without such a requirement are met by every pod.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[Key, None]] = {}
        self._others: dict[Key, None] = {}

    def __bool__(self) -> bool:
        return bool(self._by_label or self._others)

    def add(self, key: Key, term: PodAffinityTerm) -> None:
        """Files a key under its term."""
        label = _exact_label(term)
        shelf = self._others if label is None else self._by_label.setdefault(label, {})
        shelf[key] = None

    def remove(self, key: Key, term: PodAffinityTerm) -> None:
        """Takes back what `add` did with the same arguments."""
        label = _exact_label(term)
        if label is None:
            self._others.pop(key, None)
            return
        shelf = self._by_label[label]
        shelf.pop(key, None)
        if not shelf:
            del self._by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[Key]:
        """Keys whose term may select a pod with these labels; no other key's term can."""
        yield from self._others
        by_label = self._by_label
        if by_label:
            for label in labels.items():
                if label in by_label:
                    yield from by_label[label]


def _exact_label(term: PodAffinityTerm) -> tuple[str, str] | None:
    for requirement in term.selector or ():
        if requirement.operator == "In" and len(requirement.values) == 1:
            return (requirement.key, requirement.values[0])
    return None
