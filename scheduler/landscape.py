"""In which domain of a network each node is: topologies over the node slots, kept in step with the nodes' labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.gang_spec import Nearness
from topology.domains import HOSTNAME, LevelError, domain_values
from topology.topology import Topology

OUTSIDE: Final = -1
Path = tuple[str, ...]
Levels = tuple[str, ...]


class Layer(NamedTuple):
    """One level of a topology over the slots."""

    ids: NDArray[np.int64]
    """[slots]: the number of the node's domain, OUTSIDE where no node is."""
    paths: list[Path]
    """By number of the domain: its values from the broadest level on. Its order is that of domains."""


class Near(NamedTuple):
    """A wish with its levels found: places in `topology.levels`, None where nothing is asked."""

    topology: Topology
    required: int | None
    preferred: int | None


class Landscape:
    """Layers by topology. Built when first asked for; a node that changes changes them."""

    def __init__(self, levels: tuple[str, ...] = ()) -> None:
        """`levels` are those of nodes in clusters without Topology objects."""
        self._default = _default(levels)
        self._named: dict[str, Topology] = {}
        self._layers: dict[Levels, list[Layer]] = {}
        """By the levels of a topology: nothing else of it matters here."""
        self._numbers: dict[Levels, list[dict[tuple[int, str], int]]] = {}
        self._labels: list[Mapping[str, str] | None] = []
        self._names: list[str] = []
        self.version = 0
        """Grows when a wish may mean something else than before."""

    def set_topologies(self, topologies: Iterable[Topology]) -> None:
        """All there are."""
        self._named = {topology.name: topology for topology in topologies}
        self._layers.clear()
        self._numbers.clear()
        self.version += 1

    @property
    def topologies(self) -> list[Topology]:
        """By name, then the default of the settings."""
        named = [self._named[name] for name in sorted(self._named)]
        return named if self._default is None else [*named, self._default]

    def set_node(self, slot: int, name: str, labels: Mapping[str, str]) -> None:
        """A node came to the slot, or has other labels."""
        while slot >= len(self._labels):
            self._labels.append(None)
            self._names.append("")
        if self._labels[slot] == labels and self._names[slot] == name:
            return
        self._labels[slot], self._names[slot] = labels, name
        for levels, layers in self._layers.items():
            self._enter(levels, layers, slot)

    def clear_node(self, slot: int) -> None:
        """The node of the slot went."""
        self._labels[slot] = None
        for layers in self._layers.values():
            for layer in layers:
                if slot < layer.ids.size:
                    layer.ids[slot] = OUTSIDE

    def find(self, wish: Nearness, usual: str | None = None) -> Near | str:
        """The topology and levels of a wish, or what is wrong with it. `usual` names the topology of those that name
        none; it and the others are passed over where they lack a level that is asked for.
        """
        asked = [word for word in (wish.required, wish.preferred) if word]
        if wish.topology and wish.topology not in self._named:
            return f"topology {wish.topology} does not exist"
        choice = [self._named[wish.topology]] if wish.topology else self._candidates(usual)
        topology = next((one for one in choice if all(one.level(word) is not None for word in asked)), None)
        if topology is None and wish.topology:
            missing = next(word for word in asked if choice[0].level(word) is None)
            return f"topology {wish.topology} has no level {missing}"
        topology = topology or _made_of(asked)
        if topology is None:
            return f"no topology has the levels {' and '.join(asked)}"
        required = topology.level(wish.required) if wish.required else None
        preferred = topology.level(wish.preferred) if wish.preferred else None
        if required is not None and preferred is not None and preferred < required:
            return f"the preferred level {wish.preferred} is broader than the required level {wish.required}"
        return Near(topology, required, preferred)

    def _candidates(self, usual: str | None) -> list[Topology]:
        first = [self._named[usual]] if usual is not None and usual in self._named else []
        return [*first, *self.topologies]

    def layer(self, topology: Topology, level: int) -> Layer:
        """A level over the slots. Replaced when slots are added, so never kept."""
        levels = topology.levels
        layers = self._layers.get(levels)
        if layers is None:
            layers = self._layers[levels] = [Layer(np.zeros(0, np.int64), []) for _ in levels]
            self._numbers[levels] = [{} for _ in levels]
            for slot, labels in enumerate(self._labels):
                if labels is not None:
                    self._enter(levels, layers, slot)
        if layers[level].ids.size < len(self._labels):
            self._grow(layers, len(self._labels))
        return layers[level]

    @staticmethod
    def _grow(layers: list[Layer], least: int) -> None:
        for level, layer in enumerate(layers):
            larger = np.full(max(least, 2 * layer.ids.size), OUTSIDE, np.int64)
            larger[: layer.ids.size] = layer.ids
            layers[level] = Layer(larger, layer.paths)

    def _enter(self, levels: Levels, layers: list[Layer], slot: int) -> None:
        labels = self._labels[slot]
        assert labels is not None
        if slot >= layers[0].ids.size:
            self._grow(layers, slot + 1)
        above = OUTSIDE
        path: Path = ()
        for level, value in enumerate(domain_values(labels, levels)):
            if value is None and levels[level] == HOSTNAME:
                value = self._names[slot]
            # a node that says nothing is in a domain of its own; no label value begins with a space
            value = f" {self._names[slot]}" if value is None else value
            path = (*path, value)
            numbers, layer = self._numbers[levels][level], layers[level]
            number = numbers.setdefault((above, value), len(layer.paths))
            if number == len(layer.paths):
                layer.paths.append(path)
            layer.ids[slot] = number
            above = number

    def path(self, topology: Topology, level: int, slot: int) -> Path:
        """The values of a node from the broadest level to this one; a value that it lacks is empty."""
        layer = self.layer(topology, level)
        return tuple("" if value.startswith(" ") else value for value in layer.paths[layer.ids[slot]])


def _default(levels: tuple[str, ...]) -> Topology | None:
    return Topology("", levels) if levels else None


def _made_of(levels: list[str]) -> Topology | None:
    """A topology for levels that no topology has: label keys, the first the broader."""
    try:
        return Topology("", tuple(dict.fromkeys((*levels, HOSTNAME))))
    except LevelError:
        return None
