"""Who holds what: one entry per pod, booked or bound. The only one that changes what is taken on nodes for good."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.allocation import FULL_MILLI, Allocation, DeviceShare
from scheduler.entry import Entry, borne, models, problem
from scheduler.request import Request
from scheduler.state import ClusterState, held_mib

__all__ = ["Entry", "Ledger", "LedgerError"]


class LedgerError(RuntimeError):
    """A booking that cannot be made; the text says why. The ledger is as before."""


class Ledger:
    """Entries by pod uid. After each call, what is taken in the state is the sum of the entries on known nodes.

    Nothing here depends on the order in which pods became known: guesses are laid anew after each change on a node,
    by uid onto the highest free indices, so a restart finds the same devices taken.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.entries: dict[str, Entry] = {}
        self.bookings: dict[str, Entry] = {}
        """Those of `entries` that are not bound."""
        self.differences: dict[str, Allocation] = {}
        """uid → what had been booked for a pod that the API then showed elsewhere or with other devices."""
        self._by_node: dict[str, dict[str, Entry]] = {}
        self._known: set[str] = set()

    def on_node(self, name: str) -> list[Entry]:
        """Entries on a node, known or not, by uid."""
        return [entry for _, entry in sorted(self._by_node.get(name, {}).items())]

    # -- bookings ----------------------------------------------------------------------------------------------

    def book(self, uid: str, request: Request, allocation: Allocation, deadline_ms: int | None) -> None:
        """Books a place, in exchange for an earlier booking of the uid. Raises LedgerError when it does not fit."""
        old = self.entries.get(uid)
        if old is not None and old.bound:
            raise LedgerError(f"pod {uid} is bound to {old.node}")
        if old is not None:
            self._remove(old)
        slot = self._slot(allocation.node)
        refusal = "the node is not known"
        if slot is not None:
            refusal = problem(self.state, slot, request, allocation.devices) or ""
        if not refusal:
            self._insert(Entry(uid, allocation.node, request, allocation, bound=False, deadline_ms=deadline_ms))
        elif old is not None:
            self._insert(old)
        if old is not None:
            self._settle(old.node)
        if refusal:
            raise LedgerError(f"pod {uid} does not fit on {allocation.node}: {refusal}")

    def confirm(self, uid: str) -> None:
        """The Binding of a booking is written: it holds until the pod goes. Does nothing for others."""
        entry = self.bookings.pop(uid, None)
        if entry is not None:
            entry.bound = True
            entry.deadline_ms = None

    def expired(self, now_ms: int) -> list[str]:
        """Bookings whose deadline has come, the earliest first."""
        due = [
            (entry.deadline_ms, uid)
            for uid, entry in self.bookings.items()
            if entry.deadline_ms is not None and entry.deadline_ms <= now_ms
        ]
        return [uid for _, uid in sorted(due)]

    def sound(self, uid: str) -> bool:
        """Whether the pod's node still bears what it holds (see `entry.borne`). False for unknown pods and nodes."""
        held = self.entries.get(uid)
        slot = None if held is None else self._slot(held.node)
        return held is not None and slot is not None and borne(self.state, slot, held)

    # -- what the API says -------------------------------------------------------------------------------------

    def adopt(self, uid: str, request: Request, node: str, allocation: Allocation | None) -> Entry:
        """A pod that the API shows on a node, anybody's. Never raises, whatever is over-used by it.

        With `allocation` it holds those devices. Whole devices that none names are guessed: free healthy ones from
        the highest index down; what cannot be found is counted in `missing_devices` and looked for again with every
        change on the node. A booking of the uid becomes an allocation; where it differs, the API wins and
        `differences` keeps what had been booked.
        """
        if allocation is None or allocation.node != node:
            allocation = Allocation(node)
        old = self.entries.get(uid)
        if old is not None:
            if (old.node, old.request, old.allocation.devices) == (node, request, allocation.devices):
                self.confirm(uid)
                return old
            if not old.bound and (old.node, old.allocation.devices) != (node, allocation.devices):
                self.differences[uid] = old.allocation
            self._remove(old)
        entry = Entry(uid, node, request, allocation, bound=True, deadline_ms=None)
        self._insert(entry)
        self._settle(node)
        if old is not None and old.node != node:
            self._settle(old.node)
        return entry

    def release(self, uid: str) -> Entry | None:
        """The pod holds nothing any more; returns what it held, None for a uid that held nothing."""
        entry = self.entries.get(uid)
        if entry is None:
            return None
        self._remove(entry)
        self._settle(entry.node)
        self.differences.pop(uid, None)
        return entry

    # -- nodes -------------------------------------------------------------------------------------------------

    def set_node(self, name: str) -> None:
        """A node came into the state or was described anew: what its pods hold is taken there."""
        slot = self.state.slot_of[name]
        self.state.clear(slot)
        self._known.add(name)
        for entry in self.on_node(name):
            self._forget_guess(entry)
            self.state.take(slot, entry.request, entry.allocation.devices)
        self._settle(name)

    def remove_node(self, name: str) -> None:
        """A node is about to leave the state. Its entries wait for it to come back, or for the pods to go."""
        if name in self._known:
            self.state.clear(self.state.slot_of[name])
            self._known.discard(name)
            for entry in self.on_node(name):
                self._forget_guess(entry)

    # -- inside ------------------------------------------------------------------------------------------------

    def _slot(self, node: str) -> int | None:
        return self.state.slot_of[node] if node in self._known else None

    def _insert(self, entry: Entry) -> None:
        if self.state.tentative:
            raise LedgerError("the ledger does not change inside a checkpoint of the state")
        self.entries[entry.uid] = entry
        self._by_node.setdefault(entry.node, {})[entry.uid] = entry
        if not entry.bound:
            self.bookings[entry.uid] = entry
        slot = self._slot(entry.node)
        if slot is not None:
            self.state.take(slot, entry.request, entry.allocation.devices)

    def _remove(self, entry: Entry) -> None:
        if self.state.tentative:
            raise LedgerError("the ledger does not change inside a checkpoint of the state")
        del self.entries[entry.uid]
        self.bookings.pop(entry.uid, None)
        here = self._by_node[entry.node]
        del here[entry.uid]
        if not here:
            del self._by_node[entry.node]
        slot = self._slot(entry.node)
        if slot is not None:
            self.state.give(slot, entry.request, entry.devices)
        self._forget_guess(entry)

    @staticmethod
    def _forget_guess(entry: Entry) -> None:
        entry.guessed = ()
        entry.missing_devices = 0

    def _settle(self, node: str) -> None:
        """Lays the guesses of a node anew: by uid, onto the highest untouched healthy devices."""
        slot = self._slot(node)
        if slot is None:
            return
        here = self._by_node.get(node, {}).values()
        guests = [entry for entry in here if entry.unwritten and models(self.state, slot, entry.request)]
        if not guests:
            return
        guests.sort(key=lambda entry: entry.uid)
        for entry in guests:
            self.state.drop(slot, entry.guessed)
        free = self._untouched(slot)
        for entry in guests:
            entry.guessed = tuple(free[: entry.unwritten])
            entry.missing_devices = entry.unwritten - len(entry.guessed)
            del free[: entry.unwritten]
            self.state.hold(slot, entry.guessed)

    def _untouched(self, slot: int) -> list[DeviceShare]:
        """Healthy devices that nobody holds, whole, from the highest index down."""
        nodes, inventory = self.state.arrays, self.state.inventories[slot]
        assert inventory is not None
        return [
            DeviceShare(row, int(nodes.device_total_mib[slot, row]), FULL_MILLI, inventory.devices[row].uuid)
            for row in reversed(range(int(nodes.device_count[slot])))
            if nodes.device_healthy[slot, row] and nodes.device_holders[slot, row] == 0
        ]

    def validate(self) -> None:
        """Raises AssertionError when the state is not the sum of the entries, or the indices are out of step."""
        assert self.bookings == {uid: entry for uid, entry in self.entries.items() if not entry.bound}
        here = {(node, uid) for node, entries in self._by_node.items() for uid in entries}
        assert here == {(entry.node, uid) for uid, entry in self.entries.items()}
        assert self._known == set(self.state.slot_of)
        for name, slot in self.state.slot_of.items():
            self._validate_node(slot, self.on_node(name))

    def _validate_node(self, slot: int, entries: Iterable[Entry]) -> None:
        nodes = self.state.arrays
        free = nodes.total[slot].copy()
        devices = range(int(nodes.device_count[slot]))
        milli = [FULL_MILLI for _ in devices]
        mib = [int(nodes.device_total_mib[slot, row]) for row in devices]
        holders = [0 for _ in devices]
        for entry in entries:
            free -= self.state.vector(entry.request)
            for share in entry.devices:
                if share.index < len(devices):
                    milli[share.index] -= share.milli
                    mib[share.index] -= held_mib(share, int(nodes.device_total_mib[slot, share.index]))
                    holders[share.index] += 1
            guesses = entry.unwritten if models(self.state, slot, entry.request) else 0
            assert len(entry.guessed) + entry.missing_devices == guesses, entry
        assert np.array_equal(nodes.free[slot], free), (slot, nodes.free[slot], free)
        assert nodes.device_free_milli[slot, : len(devices)].tolist() == milli, slot
        assert nodes.device_free_mib[slot, : len(devices)].tolist() == mib, slot
        assert nodes.device_holders[slot, : len(devices)].tolist() == holders, slot
