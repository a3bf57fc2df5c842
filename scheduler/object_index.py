"""Objects by uid and by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.object_facts import ObjectFacts


class _Name(NamedTuple):
    group: str
    kind: str
    namespace: str
    name: str


class ObjectIndex:
    """The objects of some kinds. `kinds` are those that are read, as (API group, kind)."""

    def __init__(self, kinds: Iterable[tuple[str, str]] = (), objects: Iterable[ObjectFacts] = ()) -> None:
        self.kinds = frozenset(kinds)
        self._by_uid: dict[str, ObjectFacts] = {}
        self._by_name: dict[_Name, ObjectFacts] = {}
        for facts in objects:
            self.add(facts)

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, facts: ObjectFacts) -> None:
        """Takes an object in, in the place of the one with its name, or with its uid."""
        self._drop(self._by_name.get(_name(facts)))
        if facts.uid:
            self._drop(self._by_uid.get(facts.uid))
            self._by_uid[facts.uid] = facts
        self._by_name[_name(facts)] = facts

    def remove(self, facts: ObjectFacts) -> None:
        """Drops an object. One of the same name that was made after it stays."""
        known = self._by_name.get(_name(facts))
        if known is not None and known.uid == facts.uid:
            self._drop(known)

    def by_uid(self, uid: str) -> ObjectFacts | None:
        """The object with the uid."""
        return self._by_uid.get(uid)

    def named(self, group: str, kind: str, namespace: str, name: str) -> ObjectFacts | None:
        """The object with the name, of any version of the API group."""
        return self._by_name.get(_Name(group, kind, namespace, name))

    def reads(self, group: str, kind: str) -> bool:
        """Whether objects of the kind are read."""
        return (group, kind) in self.kinds

    def _drop(self, facts: ObjectFacts | None) -> None:
        if facts is not None:
            self._by_name.pop(_name(facts), None)
            self._by_uid.pop(facts.uid, None)


def _name(facts: ObjectFacts) -> _Name:
    return _Name(facts.group, facts.kind, facts.namespace, facts.name)


NO_OBJECTS: Final = ObjectIndex(())
"""Nothing is known but what pods say themselves."""
