"""What one node is in the state arrays: its row, and what follows from what is taken of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.allocation import FULL_MILLI
from scheduler.kernels.arrays import NodeArrays
from scheduler.kernels.devices import MOST_REST
from topology.inventory import NodeInventory, ShareSupport

MOST: Final = 1 << 56
"""What a node says beyond this is taken as this; so sums stay far inside 64 bits."""
MOST_MEMORY_MIB: Final = MOST_REST - 1


class ModelKey(NamedTuple):
    """Nodes whose devices are alike: one product with one card memory (0 MiB: unknown), which take shares or do not."""

    product: str
    card_mib: int
    takes_shares: bool


NO_MODEL: Final = ModelKey("", 0, False)
"""Of nodes whose devices are not modelled, and of those that have none."""


class NodeRow(NamedTuple):
    """A node on its slot, in its pool."""

    slot: int
    inventory: NodeInventory
    pool: int

    def write(self, arrays: NodeArrays, columns: Mapping[str, int], models: dict[ModelKey, int]) -> None:
        """Writes the row of the empty node; it is blank before. A model that is new gets the next number."""
        slot, inventory = self.slot, self.inventory
        for resource, amount in inventory.facts.allocatable.items():
            arrays.total[slot, columns[resource]] = min(amount, MOST)
        arrays.free[slot] = arrays.total[slot]
        arrays.virtual[slot] = inventory.virtual
        arrays.pool[slot] = self.pool
        arrays.accelerated[slot] = _accelerated(inventory)
        if inventory.devices and inventory.device_resource is not None:
            takes_shares = inventory.shares is ShareSupport.YES and not inventory.virtual
            model = ModelKey(inventory.product or "", inventory.devices[0].memory_mib, takes_shares)
            arrays.shares[slot] = takes_shares
            arrays.device_column[slot] = columns[inventory.device_resource]
            arrays.device_count[slot] = len(inventory.devices)
            arrays.model[slot] = models.setdefault(model, len(models))
            self._write_devices(arrays)

    def _write_devices(self, arrays: NodeArrays) -> None:
        slot = self.slot
        for row, device in enumerate(self.inventory.devices):
            memory_mib = min(device.memory_mib, MOST_MEMORY_MIB)
            arrays.device_total_mib[slot, row] = memory_mib
            arrays.device_free_mib[slot, row] = memory_mib
            arrays.device_free_milli[slot, row] = FULL_MILLI
            arrays.device_healthy[slot, row] = device.healthy
            arrays.device_island[slot, row] = device.island
            arrays.device_room_milli[slot, row], arrays.device_room_mib[slot, row] = room(arrays, slot, row)
        arrays.idle[slot] = sum(device.healthy for device in self.inventory.devices)
        arrays.openable[slot] = openable(arrays, slot)


def openable(arrays: NodeArrays, slot: int) -> int:
    """Untouched devices that may still be taken; see `NodeArrays.openable`."""
    if not arrays.device_count[slot]:
        return 0
    left = int(arrays.free[slot, arrays.device_column[slot]]) - int(arrays.shared[slot])
    return max(min(int(arrays.idle[slot]), left), 0)


def room(arrays: NodeArrays, slot: int, row: int) -> tuple[int, int]:
    """The largest fraction (the largest m ≤ free milli with m · total // 1000 ≤ free memory), and memory in MiB."""
    if not arrays.device_healthy[slot, row]:
        return 0, 0
    milli = int(arrays.device_free_milli[slot, row])
    total_mib, free_mib = int(arrays.device_total_mib[slot, row]), int(arrays.device_free_mib[slot, row])
    if total_mib > 0:
        milli = min(milli, ((free_mib + 1) * FULL_MILLI - 1) // total_mib)
    return max(milli, 0), max(free_mib, 0)


def _accelerated(inventory: NodeInventory) -> bool:
    return inventory.device_resource is not None or inventory.shares in (
        ShareSupport.MIG,
        ShareSupport.REPLICAS,
    )
