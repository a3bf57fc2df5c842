"""A gang as it is now: its members, which of them have a place, and who should get one next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice, product
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.gang_spec import GangKey, GangSpec, Group

if TYPE_CHECKING:
    from scheduler.pod import PodFacts
    from scheduler.record import PodRecord

ALTERNATIVES: Final = 8
"""So many ways to make a step are tried where a group needs only some of its children."""
NO_INDEX: Final = 1 << 62


class Portion(NamedTuple):
    """Pods of one leaf that get a place together, in order."""

    leaf: str
    records: tuple[PodRecord, ...]


Step = tuple[Portion, ...]
"""What succeeds or fails as a whole."""


class Shortage(NamedTuple):
    """A group that cannot reach its minimum for want of pods (a leaf) or of children that can (an inner group)."""

    group: str
    present: int
    needed: int


@dataclass(slots=True)
class Gang:
    """One gang. `spec` None: what defines it is not there (yet), `missing` says what.

    `ended` counts by leaf the members that ran to their end and were not followed by others: they count as present.
    """

    key: GangKey
    spec: GangSpec | None = None
    missing: str = ""
    members: dict[str, PodRecord] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    oldest: PodRecord | None = None
    """The member that was created first: it speaks for the gang where one has to."""
    opening: str | None = None
    """The member whose Binding is the first of the gang and on its way; nobody knows yet whether it takes effect."""
    forward: bool = False
    """Some member is bound and stays: the others follow, and nothing is taken back."""
    left_bind: bool = False
    """Some member that waited at bind lost its place or left the gang, and nobody has told it yet."""
    broken_since_ms: int | None = None
    """Since when members run although there are too few of them."""

    def add(self, record: PodRecord) -> None:
        """A pod joins."""
        if record.uid in self.members:
            return
        leaf = record.membership.leaf
        if self.ended.get(leaf):
            self.ended[leaf] -= 1
        self.members[record.uid] = record
        if self.oldest is None or age(record.facts) < age(self.oldest.facts):
            self.oldest = record

    def remove(self, uid: str, *, ended: bool = False) -> None:
        """A pod left; `ended` says that it ran to its end."""
        record = self.members.pop(uid, None)
        if record is self.oldest:
            self.oldest = min(self.members.values(), key=lambda one: age(one.facts), default=None)
        self.left_bind = self.left_bind or (record is not None and record.at_barrier)
        if record is not None and ended:
            self.count_ended(record.membership.leaf)

    def count_ended(self, leaf: str) -> None:
        """A pod of the leaf ran to its end, which counts here where the owner's status does not count it."""
        if self.spec is None or not self.spec.counts_ended:
            self.ended[leaf] = self.ended.get(leaf, 0) + 1

    def running(self, leaves: set[str]) -> Iterator[PodRecord]:
        """The members in some leaves that are on a node and stay there."""
        return (one for one in self.members.values() if one.stays and one.membership.leaf in leaves)

    # -- what there is -----------------------------------------------------------------------------------------

    def view(self, counts: Callable[[PodRecord], bool] = lambda record: True) -> View:
        """The gang at this moment, of those that have a place with those alone that count."""
        assert self.spec is not None
        members = [record for record in self.members.values() if not record.has_place or counts(record)]
        return View(self.spec.root, members, self.ended)


class View:
    """A gang at one moment, by leaf: pods that have a place, and pods that may get one."""

    def __init__(self, root: Group, members: Iterable[PodRecord], ended: dict[str, int]) -> None:
        self.root: Final = root
        self.placed: Final[dict[str, int]] = {}
        self.open: Final[dict[str, list[PodRecord]]] = {}
        self._ended = ended
        for record in members:
            if record.has_place:
                self.placed[record.membership.leaf] = self.placed.get(record.membership.leaf, 0) + 1
            elif record.is_open:
                self.open.setdefault(record.membership.leaf, []).append(record)
        for records in self.open.values():
            records.sort(key=_order)

    def steps(self) -> Iterator[Step]:
        """Ways to make the next step, the best first; none when nothing can be done now."""
        if not self.satisfied(self.root):
            yield from islice(self._ways(self.root), ALTERNATIVES)
        else:
            yield from islice(self._growth(self.root), ALTERNATIVES)

    def shortage(self) -> Shortage | None:
        """What keeps the gang from being whole for want of pods."""
        return None if self.satisfied(self.root) else self._short(self.root)

    def idle(self) -> Shortage | None:
        """What keeps a gang that has its minimum from growing, where pods of it wait and none of them can be taken."""
        if not self.open or next(self._growth(self.root), None) is not None:
            return None
        return self._idle(self.root)

    def satisfied(self, group: Group) -> bool:
        """Whether enough of the group has places."""
        if group.is_leaf:
            return self._has(group) >= self.minimum(group)
        return sum(map(self.satisfied, group.children)) >= _needed(group)

    def broken(self, group: Group | None = None) -> set[str]:
        """The leaves with pods that have a place, in groups that are below their minimum, needed or not."""
        group = self.root if group is None else group
        if not self.satisfied(group):
            return {leaf.name for leaf in group.leaves() if self._has(leaf)}
        return set().union(*(self.broken(child) for child in group.children))

    def minimum(self, leaf: Group) -> int:
        """Of pods in a leaf, without those that have ended."""
        return max(leaf.minimum - self._ended.get(leaf.name, 0), 0)

    def can_form(self, group: Group) -> bool:
        """Whether there are pods enough for the group's minimum."""
        if group.is_leaf:
            return self._has(group) + len(self.open.get(group.name, ())) >= self.minimum(group)
        return sum(map(self.can_form, group.children)) >= _needed(group)

    def _has(self, leaf: Group) -> int:
        return self.placed.get(leaf.name, 0)

    def _short(self, group: Group) -> Shortage | None:
        if self.can_form(group):
            return None
        if group.is_leaf:
            return Shortage(group.name, self._has(group) + len(self.open.get(group.name, ())), self.minimum(group))
        first = next((child for child in group.children if not self.can_form(child)), None)
        if first is not None and (group.min_children is None or len(group.children) == 1):
            return self._short(first)
        return Shortage(group.name, sum(map(self.can_form, group.children)), _needed(group))

    def _idle(self, group: Group) -> Shortage | None:
        """A surplus group below one that has its minimum, of which pods wait and are too few."""
        for child in group.children:
            if self.satisfied(child):
                found = self._idle(child)
            else:
                found = self._short(child) if any(leaf.name in self.open for leaf in child.leaves()) else None
            if found is not None:
                return found
        return None

    # -- what comes next -----------------------------------------------------------------------------------------

    def _ways(self, group: Group) -> Iterator[Step]:
        """Ways to bring the group, which is below its minimum, up to it."""
        if not self.can_form(group):
            return
        if group.is_leaf:
            count = self.minimum(group) - self._has(group)
            yield (Portion(group.name, tuple(self.open[group.name][:count])),)
            return
        choice = [child for child in self._in_order(group) if not self.satisfied(child) and self.can_form(child)]
        missing = _needed(group) - sum(map(self.satisfied, group.children))
        for chosen in combinations(choice, missing):
            for ways in product(*(list(islice(self._ways(child), ALTERNATIVES)) for child in chosen)):
                yield tuple(portion for way in ways for portion in way)

    def _growth(self, group: Group) -> Iterator[Step]:
        """Ways to take in more than the minimum: one more pod of a leaf that has it, or a whole child more."""
        if group.is_leaf:
            records = self.open.get(group.name)
            if records:
                yield (Portion(group.name, (records[0],)),)
            return
        for child in self._in_order(group):
            yield from self._growth(child) if self.satisfied(child) else self._ways(child)

    def _in_order(self, group: Group) -> list[Group]:
        return sorted(group.children, key=lambda child: (self.satisfied(child), self._filled(child), child.name))

    def _filled(self, group: Group) -> int:
        """How full the group is, in millionths of its minimum."""
        if group.is_leaf:
            return self._has(group) * 1_000_000 // max(self.minimum(group), 1)
        return sum(map(self.satisfied, group.children)) * 1_000_000 // max(_needed(group), 1)


def pods_of(step: Step) -> list[PodRecord]:
    """All pods of a step."""
    return [record for portion in step for record in portion.records]


def smallest(root: Group) -> int:
    """The least number of pods with which the group's minimum is met."""
    if root.is_leaf:
        return root.minimum
    return sum(sorted(smallest(child) for child in root.children)[: _needed(root)])


def _needed(group: Group) -> int:
    return len(group.children) if group.min_children is None else group.min_children


def age(pod: PodFacts) -> tuple[int, str, str]:
    """What orders pods by the time they were made: total and stable."""
    return (pod.created_ms, pod.name, pod.uid)


def _order(record: PodRecord) -> tuple[int, int, str, str]:
    """Released pods first: their gate cannot be put back. Then as their creator numbers them, then by name."""
    index = record.membership.index
    return (int(record.rank.not_released), NO_INDEX if index is None else index, record.facts.name, record.uid)
