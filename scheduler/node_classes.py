"""Nodes as the queues see them: of which class each is (see `charging.NodeClass`), and how much there is to divide."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from queues.amounts import NOTHING, Amounts
from scheduler.allocation import FULL_MILLI
from scheduler.charging import NodeClass, class_of, mig_milli
from topology.inventory import NodeInventory


class NodeClasses:
    """Classes and capacities by slot. Nodes without devices are of the empty class; unready ones have no capacity."""

    def __init__(self) -> None:
        self.keys: tuple[str, ...] = ()
        """The GPU models that queues speak of."""
        self.whole_slices = False
        """KAI's way of counting MIG instances; see `charging.amounts_of`."""
        self.version = 0
        """Grows when a class comes or goes."""
        self.total = NOTHING
        """What ready nodes have."""
        self._of: list[tuple[NodeClass, Amounts] | None] = []
        self._count: dict[NodeClass, int] = {}
        self._gpu_milli: dict[NodeClass, int] = {}
        self._masks: dict[frozenset[NodeClass], NDArray[np.bool_]] = {}
        self._numbered: NDArray[np.int64] | None = None

    def of(self, slot: int) -> NodeClass:
        """The class of a slot, the empty one where no node is."""
        found = self._of[slot] if slot < len(self._of) else None
        return NodeClass() if found is None else found[0]

    @property
    def present(self) -> tuple[NodeClass, ...]:
        """Classes of nodes there are, in a fixed order."""
        return tuple(sorted(self._count))

    @property
    def largest_card_mib(self) -> int:
        """The memory of the largest card, 0 when none is known."""
        return max((found.card_mib for found in self._count), default=0)

    @property
    def model_gpu_milli(self) -> Mapping[str, int]:
        """The devices of ready nodes by the queues' keys of GPU models."""
        found = dict.fromkeys(self.keys, 0)
        for of, gpu_milli in self._gpu_milli.items():
            for key in of.models:
                found[key] += gpu_milli
        return found

    def set(self, slot: int, inventory: NodeInventory) -> bool:
        """A node came or was described anew. Whether its class is another than before."""
        self._of.extend(None for _ in range(slot + 1 - len(self._of)))
        new, old = class_of(inventory, self.keys), self._of[slot]
        self._masks.clear()
        self._numbered = None
        self._lose(slot)
        has = capacity_of(inventory, whole_slices=self.whole_slices)
        self._of[slot] = (new, has)
        self.total = self.total.plus(has)
        self.version += new not in self._count
        self._count[new] = self._count.get(new, 0) + 1
        self._gpu_milli[new] = self._gpu_milli.get(new, 0) + has.gpu_milli
        return old is None or new != old[0]

    def clear(self, slot: int) -> None:
        """The node went."""
        self._masks.clear()
        self._numbered = None
        self._lose(slot)

    def among(self, slots: NDArray[np.bool_]) -> tuple[NodeClass, ...]:
        """The classes of some slots (bool[slots]), in a fixed order."""
        if self._numbered is None:
            table = {of: number for number, of in enumerate(self.present)}
            self._numbered = np.array([-1 if of is None else table[of[0]] for of in self._of], np.int64)
        numbers = np.unique(self._numbered[: slots.size][slots[: self._numbered.size]])
        present = self.present
        return tuple(present[number] for number in numbers.tolist() if number >= 0)

    def mask(self, allowed: frozenset[NodeClass]) -> NDArray[np.bool_]:
        """bool[slots]: nodes of these classes. Read-only."""
        found = self._masks.get(allowed)
        if found is None:
            found = np.array([of is not None and of[0] in allowed for of in self._of], np.bool_)
            found.flags.writeable = False
            self._masks[allowed] = found
        return found

    def _lose(self, slot: int) -> None:
        old, self._of[slot] = self._of[slot], None
        if old is None:
            return
        of, had = old
        self.total = self.total.minus(had)
        self._count[of] -= 1
        self._gpu_milli[of] -= had.gpu_milli
        if not self._count[of]:
            del self._count[of], self._gpu_milli[of]
            self.version += 1


def capacity_of(inventory: NodeInventory, *, whole_slices: bool = False) -> Amounts:
    """What a node has for the queues to divide: nothing while it is not ready."""
    facts = inventory.facts
    if not facts.ready:
        return NOTHING
    if inventory.devices:
        gpu_milli = sum(device.healthy for device in inventory.devices) * FULL_MILLI
    else:
        gpu_milli = facts.allocatable.get(inventory.device_resource or "", 0) * FULL_MILLI
    gpu_milli += mig_milli(facts.allocatable, whole_slices=whole_slices)
    return Amounts(facts.allocatable.get("cpu", 0), facts.allocatable.get("memory", 0), gpu_milli)
