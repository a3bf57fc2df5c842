"""What is known of a gang before anything is placed: its tree of groups, their minima, and who has to be near whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

ROOT: Final = ""
"""The name of the root of every tree; a gang without subgroups has its pods there."""


STALE_GRACE_MS: Final = 60_000
"""How long a gang may run below its minimum where nobody says otherwise."""


class GangKey(NamedTuple):
    """What tells gangs apart. `source` is the kind of what defines it (`PodGroup`, `JobSet`, `kueue`, …); `uid` is that
    of the defining object where it is known from the pods alone, so that an object made anew is another gang.
    """

    namespace: str
    source: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.source} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Slice:
    """Pods of a leaf in order, `size` at a time, have to be in one domain of a level (label key or alias)."""

    size: int
    level: str


@dataclass(frozen=True, slots=True)
class Nearness:
    """In one domain of which level (label key or alias) the pods of a group have to be, and should be.

    `topology` names the Topology whose levels are meant, "" any that has them. `preferred` is at or below `required`.
    `exclusive` is a label key: no pod of another gang that says the same may be in the group's domain of it.
    """

    required: str = ""
    preferred: str = ""
    topology: str = ""
    exclusive: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A node of the tree. A leaf holds pods and has a `minimum` of them (0: none are needed, all are extra); an inner
    group needs `min_children` of its direct children to be satisfied, None for all.

    `slices` of a leaf stand from coarse to fine.
    """

    name: str = ROOT
    minimum: int = 0
    children: tuple[Group, ...] = ()
    min_children: int | None = None
    nearness: Nearness | None = None
    slices: tuple[Slice, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return not self.children

    def leaves(self) -> Iterator[Group]:
        """In the order of the tree."""
        if self.is_leaf:
            yield self
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A gang. What is None is taken from its pods. `created_ms` 0: as its first pod.

    `stale_grace_ms` is how long it may run below its minimum before its policy is carried out, None as the settings
    say, negative for ever. `stale_since_ms` and `started_ms` are what an earlier scheduler noted about it.
    """

    root: Group
    queue: str | None = None
    priority_class: str | None = None
    preemptible: bool | None = None
    created_ms: int = 0
    stale_grace_ms: int | None = None
    counts_ended: bool = False
    """Whether the minima are already without the pods that ran to their end, as the owner's status says."""
    stale_since_ms: int | None = None
    started_ms: int | None = None

    def grace_ms(self, usual_ms: int) -> int | None:
        """How long the gang may run below its minimum, None for ever; `usual_ms` where it does not say so itself."""
        grace_ms = usual_ms if self.stale_grace_ms is None else self.stale_grace_ms
        return None if grace_ms < 0 else grace_ms
