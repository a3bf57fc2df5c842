"""The nodes as arrays: what there is and what is free, per node and per device. Kept by slot; slots are used again."""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.allocation import FULL_MILLI, DeviceShare
from scheduler.change_log import ChangeLog
from scheduler.costs import Costs, Sight
from scheduler.journal import Journal
from scheduler.kernels import arrays as layout
from scheduler.kernels import holding
from scheduler.kernels.arrays import Ask, NodeArrays, Scratch
from scheduler.node_row import NO_MODEL, ModelKey, NodeRow, openable, room
from scheduler.policy import PlacementPolicy, Policy
from scheduler.request import Demand, Request
from scheduler.shape import CORE_COLUMNS, Shape, resources_of, shape_of
from topology.inventory import NodeInventory

__all__ = ["Ask", "ClusterState", "NodeArrays", "StateError"]

REMEMBERED_REQUESTS: Final = 4096


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
        self._costs: Final = Costs()
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
        rank = self._arrays.rank[slot]
        self._blank(slot)
        self._arrays.rank[slot] = rank
        row = NodeRow(slot, inventory, self.policy.pool_of(inventory))
        row.write(self._arrays, self.columns, self.models)
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
        self._costs.clear()

    # -- requests ----------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Ask:
        """The request as kernels read it. May add columns, so take `arrays` afterwards."""
        return self._shape(request).ask

    def costs(self, request: Request) -> NDArray[np.int64]:
        """int64[S]: what the request costs on each slot; see `Costs.of`."""
        ask = self.ask(request)  # first: it may grow the arrays
        return self._costs.of(request, ask, self.sight())

    def sight(self) -> Sight:
        """What costs follow from, as things are now."""
        return Sight(self.policy, self.arrays, len(self.inventories), self.changes, self.scratch)

    def forget_costs(self) -> None:
        """Costs are calculated anew; for benchmarks."""
        self._costs.clear()

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
        self._arrays.openable[slot] = openable(self._arrays, slot)
        self._changed(slot)

    def _hold(self, slot: int, devices: tuple[DeviceShare, ...], sign: int) -> None:
        if devices:
            held = np.array([(share.index, share.milli, share.memory_mib) for share in devices], np.int64)
            holding.hold(self._arrays, slot, held, sign)

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
            assert arrays.openable[slot] == openable(self._arrays, slot), slot
            for row in range(int(arrays.device_count[slot])):
                kept = (arrays.device_room_milli[slot, row], arrays.device_room_mib[slot, row])
                assert kept == room(self._arrays, slot, row), (slot, row)
        for slot in self._vacant:
            assert not any(array[slot].any() for array in arrays if array is not arrays.device_column), slot


def held_mib(share: DeviceShare, total_mib: int) -> int:
    """What a share holds of a device's memory. Whole: all of it. Recorded while the memory was unknown: its part.

    0 of a device whose memory is unknown now.
    """
    if share.milli >= FULL_MILLI or total_mib == 0:
        return total_mib
    return share.memory_mib or share.milli * total_mib // FULL_MILLI


def _doubled(size: int, need: int) -> int:
    while size < need:
        size *= 2
    return size
