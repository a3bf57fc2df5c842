"""Topologies: which node labels are levels of a network, from broad to narrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.domains import resolve_levels


@dataclass(frozen=True, slots=True)
class Topology:
    """`levels` are label keys or names of presets; they are resolved to label keys, broad to narrow.

    Raises LevelError when made of something else.
    """

    name: str
    levels: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Alias → label key."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", resolve_levels(self.levels))

    def level(self, word: str) -> int | None:
        """The place of a level, named by label key or alias, 0 for the broadest; None when there is none."""
        key = self.aliases.get(word, word)
        return self.levels.index(key) if key in self.levels else None
