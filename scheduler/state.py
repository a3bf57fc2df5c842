"""The nodes as arrays: what there is and what is free, per node and per device. Kept by slot; slots are used again."""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.allocation import FULL_MILLI, DeviceShare
from scheduler.change_log import ChangeLog
from scheduler.costs import Costs
from scheduler.journal import Journal
from scheduler.kernels import arrays as layout
from scheduler.kernels import holding
from scheduler.kernels.arrays import Ask, NodeArrays, Scratch
from scheduler.kernels.devices import MOST_REST
from scheduler.policy import PlacementPolicy, Policy
from scheduler.request import Demand, Request
from scheduler.shape import CORE_COLUMNS, Shape, resources_of, shape_of
from topology.inventory import NodeInventory, ShareSupport

__all__ = ["Ask", "ClusterState", "NodeArrays", "StateError"]

MOST: Final = 1 << 56
"""What a node says beyond this is taken as this; so sums stay far inside 64 bits."""
MOST_MEMORY_MIB: Final = MOST_REST - 1
REMEMBERED_REQUESTS: Final = 4096


class ModelKey(NamedTuple):
    """Nodes whose devices are alike: one product with one card memory (0 MiB: unknown), which take shares or do not."""

    product: str
    card_mib: int
    takes_shares: bool


NO_MODEL: Final = ModelKey("", 0, False)
"""Of nodes whose devices are not modelled, and of those that have none."""


class StateError(RuntimeError):
    """The state was asked for something that it must not do now."""


class _Change(NamedTuple):
    """What pods on a node hold was changed: by `sign` times the vector, and by the devices."""

    slot: int
    request: Request | None
    devices: tuple[DeviceShare, ...]
    sign: int


class ClusterState:
    """Structure of arrays over node slots; see `NodeArrays`. Checks no request: that is the caller's part."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy: Policy = PlacementPolicy() if policy is None else policy
        self.inventories: list[NodeInventory | None] = []
        self.slot_of: dict[str, int] = {}
        self.version = 0
        """Grows with every change of anything."""
        self.columns: dict[str, int] = dict(CORE_COLUMNS)
        """Resource name → column of `free` and `total`. Columns beyond are zero."""
        self.models: dict[ModelKey, int] = {NO_MODEL: 0}
        """Model of a node's devices → its number; numbers are never given anew."""
        self._arrays = layout.blank(64, 8, 8)
        self.scratch: Scratch = layout.scratch(64, 8)
        self.changes: Final = ChangeLog()
        self.costs: Final = Costs()
        self._vacant: list[int] = []
        self._ranked = True
        self._journal: Journal[_Change] = Journal()
        self._shapes: dict[Request, Shape] = {}

    @property
    def arrays(self) -> NodeArrays:
        """The arrays as kernels read them. Longer than `inventories`; replaced when they grow, so never kept."""
        if not self._ranked:
            slots = [self.slot_of[name] for name in sorted(self.slot_of)]
            self._arrays.rank[slots] = np.arange(len(slots))
            self._ranked = True
        return self._arrays

    @property
    def occupied(self) -> NDArray[np.bool_]:
        """bool[len(inventories)]: the slots that hold a node."""
        occupied = np.ones(len(self.inventories), np.bool_)
        occupied[self._vacant] = False
        return occupied

    # -- nodes -------------------------------------------------------------------------------------------------

    def set_node(self, inventory: NodeInventory) -> int:
        """Adds a node or takes its new inventory; returns its slot. The node is empty afterwards.

        Whoever knows what is held there (the ledger) takes it again. Raises StateError inside a checkpoint.
        """
        self._outside_checkpoint("set_node")
        name = inventory.name
        slot = self.slot_of.get(name)
        if slot is None:
            slot = heapq.heappop(self._vacant) if self._vacant else len(self.inventories)
            if slot == len(self.inventories):
                self.inventories.append(None)
            self.slot_of[name] = slot
            self._ranked = False
        for resource in inventory.facts.allocatable:
            self.column(resource)
        self._fit(len(self.inventories), len(self.columns), len(inventory.devices))
        self.inventories[slot] = inventory
        self._write(slot, inventory)
        return slot

    def remove_node(self, name: str) -> None:
        """Forgets a node and everything held there; unknown names are ignored. Raises StateError in a checkpoint."""
        self._outside_checkpoint("remove_node")
        slot = self.slot_of.pop(name, None)
        if slot is None:
            return
        self.inventories[slot] = None
        heapq.heappush(self._vacant, slot)
        self._blank(slot)
        self._ranked = False
        self._changed(slot)

    def clear(self, slot: int) -> None:
        """Makes a node empty, as `set_node` does. Raises StateError inside a checkpoint or for a vacant slot."""
        self._outside_checkpoint("clear")
        self._write(slot, self._inventory(slot))

    def _inventory(self, slot: int) -> NodeInventory:
        inventory = self.inventories[slot]
        if inventory is None:
            raise StateError(f"slot {slot} holds no node")
        return inventory

    def _outside_checkpoint(self, what: str) -> None:
        if self._journal.recording:
            raise StateError(f"{what} inside a checkpoint: nodes do not change while a plan is made")

    def _blank(self, slot: int) -> None:
        for array in self._arrays:
            array[slot] = 0
        self._arrays.device_column[slot] = -1

    def _write(self, slot: int, inventory: NodeInventory) -> None:
        arrays = self._arrays
        rank = arrays.rank[slot]
        self._blank(slot)
        arrays.rank[slot] = rank
        for resource, amount in inventory.facts.allocatable.items():
            arrays.total[slot, self.columns[resource]] = min(amount, MOST)
        arrays.free[slot] = arrays.total[slot]
        arrays.virtual[slot] = inventory.virtual
        arrays.pool[slot] = self.policy.pool_of(inventory)
        arrays.accelerated[slot] = _accelerated(inventory)
        if inventory.devices and inventory.device_resource is not None:
            arrays.shares[slot] = inventory.shares is ShareSupport.YES and not inventory.virtual
            arrays.device_column[slot] = self.columns[inventory.device_resource]
            arrays.device_count[slot] = len(inventory.devices)
            arrays.model[slot] = self._model(inventory, bool(arrays.shares[slot]))
            for row, device in enumerate(inventory.devices):
                memory_mib = min(device.memory_mib, MOST_MEMORY_MIB)
                arrays.device_total_mib[slot, row] = memory_mib
                arrays.device_free_mib[slot, row] = memory_mib
                arrays.device_free_milli[slot, row] = FULL_MILLI
                arrays.device_healthy[slot, row] = device.healthy
                arrays.device_island[slot, row] = device.island
                arrays.device_room_milli[slot, row], arrays.device_room_mib[slot, row] = self._room(slot, row)
            arrays.idle[slot] = sum(device.healthy for device in inventory.devices)
            arrays.openable[slot] = self._openable(slot)
        self._changed(slot)

    def _changed(self, slot: int) -> None:
        self.version += 1
        self.changes.note(slot)

    # -- room for more -----------------------------------------------------------------------------------------

    def column(self, resource: str) -> int:
        """The column of a resource; a new one for a name not seen before."""
        column = self.columns.get(resource)
        if column is None:
            column = self.columns[resource] = len(self.columns)
            self._fit(0, len(self.columns), 0)
        return column

    def _fit(self, slots: int, columns: int, devices: int) -> None:
        """Doubles the arrays until they hold that many."""
        have = (*self._arrays.free.shape, self._arrays.device_holders.shape[1])
        need = zip(have, (slots, columns, devices), strict=True)
        want = tuple(_doubled(size, least) for size, least in need)
        if want == have:
            return
        self._arrays = layout.grown(self._arrays, *want)
        self.scratch = layout.scratch(want[0], want[2])
        self._shapes.clear()
        self.costs.clear()

    def _model(self, inventory: NodeInventory, takes_shares: bool) -> int:
        key = ModelKey(inventory.product or "", inventory.devices[0].memory_mib, takes_shares)
        return self.models.setdefault(key, len(self.models))

    # -- requests ----------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Ask:
        """The request as kernels read it. May add columns, so take `arrays` afterwards."""
        return self._shape(request).ask

    def vector(self, request: Request) -> NDArray[np.int64]:
        """int64[R]: what a pod takes of each column; every pod takes one of `pods`. Not to be changed."""
        return self._shape(request).vector

    def _shape(self, request: Request) -> Shape:
        shape = self._shapes.get(request)
        if shape is None:
            if len(self._shapes) >= REMEMBERED_REQUESTS:
                self._shapes.clear()
            for name in resources_of(request):
                self.column(name)
            shape = self._shapes[request] = shape_of(request, self.columns, self._arrays.free.shape[1])
        return shape

    # -- what is held ------------------------------------------------------------------------------------------

    def take(self, slot: int, request: Request, devices: tuple[DeviceShare, ...]) -> None:
        """A pod takes its place on a node. Checks nothing; devices that the node does not have are passed over."""
        self._change(_Change(slot, request, devices, 1))

    def give(self, slot: int, request: Request, devices: tuple[DeviceShare, ...]) -> None:
        """Gives back what `take` took with the same arguments."""
        self._change(_Change(slot, request, devices, -1))

    def hold(self, slot: int, devices: tuple[DeviceShare, ...]) -> None:
        """Like `take`, of devices alone: for a pod whose resources are taken and whose devices turn up later."""
        self._change(_Change(slot, None, devices, 1))

    def drop(self, slot: int, devices: tuple[DeviceShare, ...]) -> None:
        """Gives back what `hold` took."""
        self._change(_Change(slot, None, devices, -1))

    def checkpoint(self) -> int:
        """From here on changes can be undone. Checkpoints nest; the mark names this one."""
        return self._journal.open()

    def rollback(self, mark: int) -> None:
        """Undoes everything since the mark and closes it, with those inside it. Raises JournalError if not open."""
        for change in self._journal.undo(mark):
            self._apply(change._replace(sign=-change.sign))

    def commit(self, mark: int = 0) -> None:
        """Closes the mark (by default the outermost) and those inside it; the changes stay."""
        self._journal.close(mark)

    @property
    def tentative(self) -> bool:
        """Whether a checkpoint is open."""
        return self._journal.recording

    def _change(self, change: _Change) -> None:
        self._journal.note(change)
        self._apply(change)

    def _apply(self, change: _Change) -> None:
        slot, request, devices, sign = change
        if request is not None:
            vector = self.vector(request)  # first: it may grow the arrays
            self._arrays.free[slot] -= sign * vector
            if request.demand is not Demand.NONE:
                self._arrays.hosted[slot, layout.kind_of(request.demand, request.device_count)] += sign
        self._hold(slot, devices, sign)
        self._arrays.openable[slot] = self._openable(slot)
        self._changed(slot)

    def _hold(self, slot: int, devices: tuple[DeviceShare, ...], sign: int) -> None:
        if devices:
            held = np.array([(share.index, share.milli, share.memory_mib) for share in devices], np.int64)
            holding.hold(self._arrays, slot, held, sign)

    def _openable(self, slot: int) -> int:
        arrays = self._arrays
        if not arrays.device_count[slot]:
            return 0
        left = int(arrays.free[slot, arrays.device_column[slot]]) - int(arrays.shared[slot])
        return max(min(int(arrays.idle[slot]), left), 0)

    def _room(self, slot: int, row: int) -> tuple[int, int]:
        """The largest fraction (the largest m ≤ free milli with m · total // 1000 ≤ free memory), and memory in MiB."""
        arrays = self._arrays
        if not arrays.device_healthy[slot, row]:
            return 0, 0
        milli = int(arrays.device_free_milli[slot, row])
        total_mib, free_mib = int(arrays.device_total_mib[slot, row]), int(arrays.device_free_mib[slot, row])
        if total_mib > 0:
            milli = min(milli, ((free_mib + 1) * FULL_MILLI - 1) // total_mib)
        return max(milli, 0), max(free_mib, 0)

    def validate(self) -> None:
        """Raises AssertionError when the arrays contradict the inventories or one another."""
        arrays = self.arrays
        assert self.slot_of == {
            inventory.name: slot for slot, inventory in enumerate(self.inventories) if inventory is not None
        }
        assert sorted(self.slot_of, key=lambda name: arrays.rank[self.slot_of[name]]) == sorted(self.slot_of)
        assert (arrays.free <= arrays.total).all()
        assert (arrays.device_sharers >= 0).all()
        assert (arrays.hosted >= 0).all()
        assert (arrays.device_holders >= arrays.device_sharers).all()
        assert (arrays.idle == (arrays.device_healthy & (arrays.device_holders == 0)).sum(axis=1)).all()
        assert (arrays.shared == (arrays.device_sharers > 0).sum(axis=1)).all()
        for slot in self.slot_of.values():
            assert arrays.openable[slot] == self._openable(slot), slot
            for row in range(int(arrays.device_count[slot])):
                room = (arrays.device_room_milli[slot, row], arrays.device_room_mib[slot, row])
                assert room == self._room(slot, row), (slot, row)
        for slot in self._vacant:
            assert not any(array[slot].any() for array in arrays if array is not arrays.device_column), slot


def held_mib(share: DeviceShare, total_mib: int) -> int:
    """What a share holds of a device's memory. Whole: all of it. Recorded while the memory was unknown: its part.

    0 of a device whose memory is unknown now.
    """
    if share.milli >= FULL_MILLI or total_mib == 0:
        return total_mib
    return share.memory_mib or share.milli * total_mib // FULL_MILLI


def _accelerated(inventory: NodeInventory) -> bool:
    return inventory.device_resource is not None or inventory.shares in (
        ShareSupport.MIG,
        ShareSupport.REPLICAS,
    )


def _doubled(size: int, need: int) -> int:
    while size < need:
        size *= 2
    return size
