"""Where a step of a gang goes: all of it or nothing, with everybody near whom they have to be near.

Domains are tried from the preferred level up to the required one, on each level the fullest that has room first, and of
those that need fewer domains of the preferred level (KAI's order, but for the number of domains, which it does not
minimise). What is chosen for one part is undone and chosen anew when a later part then finds no place, up to a bounded
number of tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.domain_order import DomainOrder, copies_by_domain
from scheduler.gang_packing import Packing
from scheduler.gang_parts import Bucket, Part
from scheduler.ground import Ground, Slots
from scheduler.landscape import Landscape, Near

MOST_TRIES: Final = 4000
"""Fills of domains in one search. The next means of finding a place is slower and does not give up so easily."""
EVERYWHERE: Final = -1
"""The level above all levels."""


@dataclass(frozen=True, slots=True)
class _Goal:
    """Something still to do: a part to place on some slots, or with `inside` the pods of the part alone."""

    part: Part
    slots: Slots
    packing: Packing | None
    inside: bool = False


Agenda = tuple["_Goal", "Agenda"] | None
"""What is still to do, the next first."""


@dataclass(slots=True)
class _Choice:
    """A part whose domain was chosen: the domains left, what was to be done after it, and where to go back to."""

    goal: _Goal
    near: Near
    domains: Iterator[tuple[int, Slots]]
    rest: Agenda
    mark: int
    exclusive: int
    packed: int


class Search:
    """One search. `gave_up` says that it ended before everything was tried."""

    def __init__(self, ground: Ground, landscape: Landscape, occupied: Callable[[str, Part], list[int]]) -> None:
        """`occupied(label key, part)` are slots of others that keep a domain to themselves."""
        self._ground = ground
        self._landscape = landscape
        self._occupied = occupied
        self._order = DomainOrder(ground, landscape)
        self._tries = 0
        self._choices: list[_Choice] = []
        self._exclusive: list[tuple[str, str, int]] = []
        """Label key, part and number of the domain of the exclusive parts that are tried."""
        self._packed: list[tuple[Packing, int, tuple[int, ...]]] = []
        """What packings were before each change."""
        self.gave_up = False
        self.chosen: dict[str, int] = {}
        """Part → level of the domain that holds it, EVERYWHERE for none; of parts that ask for nearness."""

    def run(self, part: Part, slots: Slots) -> bool:
        """Whether everything was placed on the slots; `ground.tried` says where."""
        agenda: Agenda = (_Goal(part, slots, None), None)
        while agenda is not None:
            goal, rest = agenda
            if goal.inside:
                found = self._buckets(goal.part.buckets, goal.slots, goal.packing)
                agenda = rest if found else self._other_choice()
                if not found and agenda is None:
                    return False
            elif goal.part.near is None:
                agenda = _opened(goal, goal.slots, goal.packing, rest)
            else:
                self._choose(goal, goal.part.near, rest)
                agenda = self._other_choice()
                if agenda is None:
                    return False
        return True

    # -- choices -----------------------------------------------------------------------------------------------------

    def _choose(self, goal: _Goal, near: Near, rest: Agenda) -> None:
        domains = self._domains(goal, near)
        marks = self._ground.mark(), len(self._exclusive), len(self._packed)
        self._choices.append(_Choice(goal, near, domains, rest, *marks))

    def _other_choice(self) -> Agenda:
        """Goes back to the last choice that has another domain, and takes that. None when there is none."""
        while self._choices:
            choice = self._choices[-1]
            self._ground.undo(choice.mark)
            del self._exclusive[choice.exclusive :]
            while len(self._packed) > choice.packed:
                packing, left, taken = self._packed.pop()
                packing.left, packing.taken = left, taken
            if self._tries >= MOST_TRIES:
                self.gave_up = True
                return None
            domain = next(choice.domains, None)
            if domain is not None:
                return self._take(choice, *domain)
            self._choices.pop()
        return None

    def _take(self, choice: _Choice, level: int, domain: Slots) -> Agenda:
        part = choice.goal.part
        self.chosen[part.name] = level
        if part.exclusive and choice.near.required is not None and domain.size:
            ids = self._landscape.layer(choice.near.topology, choice.near.required).ids
            self._exclusive.append((part.exclusive, part.name, int(ids[domain[0]])))
        packing = self._packing(part, choice.near, level, choice.goal.packing)
        return _opened(choice.goal, domain, packing, choice.rest)

    def _packing(self, part: Part, near: Near, level: int, outer: Packing | None) -> Packing | None:
        if near.preferred is None:
            return outer
        if level >= near.preferred:
            return None
        ids = self._landscape.layer(near.topology, near.preferred).ids
        taken = tuple(dict.fromkeys(ids[part.pinned].tolist()))
        return Packing(near, sum(len(bucket.records) for bucket in part.all_buckets()), taken)

    def _buckets(self, buckets: list[Bucket], slots: Slots, packing: Packing | None) -> bool:
        for bucket in buckets:
            self._tries += 1
            if self._ground.copies(bucket)[slots].sum() < len(bucket.records):
                return False  # thousands of pods are not tried in vain
            if packing is not None:
                if not self._pack(bucket, slots, packing):
                    return False
            elif self._ground.fill(bucket, bucket.records, slots) < len(bucket.records):
                return False
        return True

    # -- domains -----------------------------------------------------------------------------------------------------

    def _domains(self, goal: _Goal, near: Near) -> Iterator[tuple[int, Slots]]:
        """Domains that may hold the part, in the order in which they are tried, with their levels."""
        part, slots, topology = goal.part, goal.slots, near.topology
        if near.required is not None and part.pinned:
            ids = self._landscape.layer(topology, near.required).ids
            slots = slots[ids[slots] == ids[part.pinned[0]]]
        lowest = near.preferred if near.preferred is not None else near.required
        highest = near.required if near.required is not None else EVERYWHERE
        if lowest is None:  # only exclusive
            lowest = highest = EVERYWHERE
        for level in range(lowest, highest - 1, -1):
            if level == EVERYWHERE:
                yield level, slots
                continue
            every = self._landscape.layer(topology, level).ids
            ids, closed = every[slots], self._closed(part, every)
            for number in self._order.of(part, near, level, slots, goal.packing, closed):
                yield level, slots[ids == number]

    # -- few domains of the preferred level ---------------------------------------------------------------------------

    def _pack(self, bucket: Bucket, slots: Slots, packing: Packing) -> bool:
        """Places a bucket in domains taken already, then in those with most room, the last in the tightest one."""
        layer = self._landscape.layer(packing.near.topology, packing.near.preferred or 0)
        ids = layer.ids[slots]
        tried: set[int] = set()
        done = 0
        while done < len(bucket.records):
            copies = copies_by_domain(self._ground, bucket, slots, ids, len(layer.paths))
            number = packing.first(copies, tried, layer.paths)
            if number is None:
                return False
            tried.add(number)
            records = bucket.records[done : done + int(copies[number])]
            placed = self._ground.fill(bucket, records, slots[ids == number])
            self._tries += 1
            done += placed
            self._packed.append((packing, packing.left, packing.taken))
            packing.left -= placed
            if placed and number not in packing.taken:
                packing.taken = (*packing.taken, number)
        return True

    # -- domains that a part has for itself ---------------------------------------------------------------------------

    def _closed(self, part: Part, ids: NDArray[np.int64]) -> set[int]:
        if not part.exclusive:
            return set()
        slots = self._occupied(part.exclusive, part)
        mine = {number for key, name, number in self._exclusive if key == part.exclusive and name != part.name}
        return mine | set(ids[slots].tolist())


def _opened(goal: _Goal, slots: Slots, packing: Packing | None, rest: Agenda) -> Agenda:
    """What is to be done for a part, before the rest: its children in order, then its own pods."""
    agenda: Agenda = (_Goal(goal.part, slots, packing, inside=True), rest) if goal.part.buckets else rest
    for child in reversed(goal.part.children):
        agenda = (_Goal(child, slots, packing), agenda)
    return agenda
