"""Labels of the nodes by slot, and the other way round: the slots that share a value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set


class NodeLabels:
    """A label key whose values were asked for once is indexed from then on; the others cost nothing."""

    def __init__(self) -> None:
        self._labels: dict[int, Mapping[str, str]] = {}
        self._index: dict[str, dict[str, set[int]]] = {}

    @property
    def slots(self) -> Set[int]:
        """The slots that hold a node."""
        return self._labels.keys()

    def put(self, slot: int, labels: Mapping[str, str]) -> None:
        """Puts a node, or its new labels, on a slot."""
        before = self._labels.get(slot)
        self._labels[slot] = labels
        for key, by_value in self._index.items():
            old, new = None if before is None else before.get(key), labels.get(key)
            if old != new:
                _drop(by_value, old, slot)
                if new is not None:
                    by_value.setdefault(new, set()).add(slot)

    def clear(self, slot: int) -> None:
        """Empties a slot."""
        before = self._labels.pop(slot, None)
        if before is not None:
            for key, by_value in self._index.items():
                _drop(by_value, before.get(key), slot)

    def value(self, slot: int, key: str) -> str | None:
        """The node's value of a label; None without the label or without a node."""
        labels = self._labels.get(slot)
        return None if labels is None else labels.get(key)

    def domain(self, key: str, value: str) -> Collection[int]:
        """The slots whose nodes have that value. Read-only."""
        return self._by_value(key).get(value, ())

    def with_key(self, key: str) -> set[int]:
        """The slots whose nodes have the label, whatever its value."""
        return set().union(*self._by_value(key).values())

    def _by_value(self, key: str) -> dict[str, set[int]]:
        by_value = self._index.get(key)
        if by_value is None:
            by_value = {}
            for slot, labels in self._labels.items():
                if (value := labels.get(key)) is not None:
                    by_value.setdefault(value, set()).add(slot)
            self._index[key] = by_value
        return by_value


def _drop(by_value: dict[str, set[int]], value: str | None, slot: int) -> None:
    if value is None:
        return
    slots = by_value[value]
    slots.discard(slot)
    if not slots:
        del by_value[value]
