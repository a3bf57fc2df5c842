"""A step of a gang as the search sees it: a tree of parts, each with the pods to place and who has to be near whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scheduler.gang import Step
from scheduler.gang_spec import GangSpec, Group, Nearness
from scheduler.landscape import Landscape, Near
from scheduler.line import form_of
from scheduler.record import PodRecord
from scheduler.request import Request
from scheduler.room import Form


@dataclass(slots=True)
class Bucket:
    """Pods of one leaf that are alike: they may change places. `alone`: each has to be looked at for itself."""

    form: Form
    records: list[PodRecord]
    alone: bool

    @property
    def request(self) -> Request:
        assert self.form.request is not None
        return self.form.request


@dataclass(slots=True)
class Part:
    """A group, or a slice of a leaf, of which something is to be placed. `pinned` are the slots of its members that
    have a place. `exclusive` is a label key; see `Nearness`.
    """

    name: str
    near: Near | None = None
    exclusive: str = ""
    pinned: list[int] = field(default_factory=list)
    children: list[Part] = field(default_factory=list)
    buckets: list[Bucket] = field(default_factory=list)

    def all_buckets(self) -> Iterator[Bucket]:
        """Those of the whole tree below."""
        yield from self.buckets
        for child in self.children:
            yield from child.all_buckets()


class WishError(ValueError):
    """A wish about nearness that cannot be understood; the text says what is wrong."""


class Parts:
    """Makes the parts of steps. `odd` says of which pods each has to be looked at for itself."""

    def __init__(self, landscape: Landscape, usual: str | None, odd: Sequence[PodRecord] | set[str]) -> None:
        """`usual` is the topology of those that name none; `odd` are uids."""
        self._landscape = landscape
        self._usual = usual
        self._odd = odd

    def of(self, spec: GangSpec, step: Step, placed: dict[str, list[tuple[PodRecord, int]]]) -> Part:
        """The tree of a step. `placed` are the members that have a place, by leaf, with their slots.

        Raises WishError.
        """
        records = {portion.leaf: portion.records for portion in step}
        part = self._group(spec.root, records, placed)
        assert part is not None, "a step places something"
        return part

    def _group(
        self,
        group: Group,
        records: dict[str, tuple[PodRecord, ...]],
        placed: dict[str, list[tuple[PodRecord, int]]],
    ) -> Part | None:
        if group.is_leaf:
            return self._leaf(group, records.get(group.name, ()), placed.get(group.name, []))
        children = [self._group(child, records, placed) for child in group.children]
        found = [child for child in children if child is not None]
        if not found:
            return None
        part = self._part(group.name, group.nearness)
        part.children = found
        part.pinned = [slot for leaf in group.leaves() for _, slot in placed.get(leaf.name, [])]
        return part

    def _leaf(self, leaf: Group, records: Sequence[PodRecord], placed: list[tuple[PodRecord, int]]) -> Part | None:
        if not records:
            return None
        part = self._part(leaf.name, leaf.nearness)
        self._slice(part, leaf, 0, records, placed)
        return part

    def _slice(
        self,
        part: Part,
        leaf: Group,
        depth: int,
        records: Sequence[PodRecord],
        placed: list[tuple[PodRecord, int]],
    ) -> None:
        """Puts pods of a leaf into the part, slice by slice where the leaf has slices."""
        part.pinned = [slot for _, slot in placed]
        if depth == len(leaf.slices):
            part.buckets = self._buckets(records)
            return
        size, level = leaf.slices[depth].size, leaf.slices[depth].level
        topology = "" if leaf.nearness is None else leaf.nearness.topology
        for number in sorted({record.place_in_leaf // size for record in records}):
            child = self._part(f"{part.name}/{number}", Nearness(required=level, topology=topology))
            own = [record for record in records if record.place_in_leaf // size == number]
            there = [item for item in placed if item[0].place_in_leaf // size == number]
            self._slice(child, leaf, depth + 1, own, there)
            part.children.append(child)

    def _part(self, name: str, wish: Nearness | None) -> Part:
        if wish is None:
            return Part(name)
        near = self._landscape.find(wish, self._usual) if wish.required or wish.preferred else None
        if isinstance(near, str):
            raise WishError(near)
        return Part(name, near, wish.exclusive)

    def _buckets(self, records: Sequence[PodRecord]) -> list[Bucket]:
        found: dict[Form, Bucket] = {}
        for record in records:
            form, odd = form_of(record), record.uid in self._odd
            bucket = found.setdefault(form, Bucket(form, [], odd))
            bucket.records.append(record)
            bucket.alone = bucket.alone or odd
        return list(found.values())


def number_members(leaf: Group, records: Sequence[PodRecord]) -> None:
    """Gives each pod of a sliced leaf its place: the number that its creator gave it, else the lowest free one.

    A place once given stays.
    """
    taken = {record.place_in_leaf for record in records if record.place_in_leaf >= 0}
    waiting = [record for record in records if record.place_in_leaf < 0]
    for record in waiting:
        if record.membership.index is not None:
            record.place_in_leaf = record.membership.index
            taken.add(record.place_in_leaf)
    free = 0
    for record in sorted(waiting, key=lambda record: record.facts.name):
        if record.place_in_leaf >= 0:
            continue
        while free in taken:
            free += 1
        record.place_in_leaf = free
        taken.add(free)
