"""State and ledger under any order of events: what is taken is what pods hold, and nothing is given twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from scheduler import placement
from scheduler.allocation import Allocation, DeviceShare
from scheduler.kernels.arrays import NodeArrays
from scheduler.ledger import Ledger
from scheduler.policy import PlacementPolicy
from scheduler.request import Request
from scheduler.state import ClusterState
from tests import naive, strategies
from topology.inventory import NodeInventory

NODES = strategies.NAMES[:4]


@dataclass(frozen=True)
class Bound:
    """A pod as the API shows it."""

    uid: str
    request: Request
    node: str
    allocation: Allocation | None


class LedgerMachine(RuleBasedStateMachine):
    """The API is `nodes` and `pods`; the ledger hears of them late, repeatedly, and anew after restarts."""

    booked = Bundle("booked")
    bound = Bundle("bound")

    def __init__(self) -> None:
        super().__init__()
        self.policy = PlacementPolicy()
        self.nodes: dict[str, NodeInventory] = {}
        self.pods: dict[str, Bound] = {}
        self.now_ms = 0
        self.uids = 0
        self.disturbed: set[str] = set()
        """Nodes where something came from outside, so that over-use is not ours."""
        self._restart()

    def _restart(self) -> None:
        self.state = ClusterState(self.policy)
        self.ledger = Ledger(self.state)

    def _uid(self) -> str:
        self.uids += 1
        return f"pod-{self.uids * 7919 % 1000:03}"  # not in the order of arrival

    def _naive(self) -> list[naive.Node]:
        return [
            naive.Node(node, [(entry.request, entry.devices) for entry in self.ledger.on_node(name)])
            for name, node in sorted(self.nodes.items(), reverse=True)
        ]

    # -- nodes -------------------------------------------------------------------------------------------------

    @rule(node=st.sampled_from(NODES).flatmap(strategies.inventories))
    def node_appears_or_changes(self, node: NodeInventory) -> None:
        if node.name in self.nodes or self.ledger.on_node(node.name):
            self.disturbed.add(node.name)
        self.nodes[node.name] = node
        self.state.set_node(node)
        self.ledger.set_node(node.name)

    @precondition(lambda self: bool(self.nodes))
    @rule(data=st.data())
    def node_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        del self.nodes[name]
        self.ledger.remove_node(name)
        self.state.remove_node(name)

    # -- our pods ----------------------------------------------------------------------------------------------

    @rule(target=booked, request=strategies.requests(), patience_ms=st.integers(1, 50))
    def plan(self, request: Request, patience_ms: int) -> object:
        return self._plan(self._uid(), request, patience_ms)

    @rule(target=booked, uid=consumes(booked), request=strategies.requests())
    def plan_anew(self, uid: str, request: Request) -> object:
        if uid in self.ledger.bookings:
            self.ledger.release(uid)
            return self._plan(uid, request, 20)
        return multiple()

    def _plan(self, uid: str, request: Request, patience_ms: int) -> object:
        found = placement.place(self.state, request, np.ones(len(self.state.inventories), np.bool_))
        expected = naive.place(self._naive(), request, self.policy)
        assert expected == (found and (found.node, [share.index for share in found.devices]))
        if found is None:
            return multiple()
        self.ledger.book(uid, request, found, self.now_ms + patience_ms)
        assert self.ledger.sound(uid)
        return uid

    @rule(target=bound, uid=consumes(booked), seen=st.booleans())
    def bind(self, uid: str, seen: bool) -> object:
        """The Binding is written; the answer may be lost, and the watch tells later."""
        entry = self.ledger.bookings.get(uid)
        if entry is None:
            return multiple()
        self.pods[uid] = Bound(uid, entry.request, entry.node, entry.allocation)
        if seen:
            self.ledger.confirm(uid)
        return uid

    @rule(wait_ms=st.integers(1, 30))
    def time_passes(self, wait_ms: int) -> None:
        self.now_ms += wait_ms
        for uid in self.ledger.expired(self.now_ms):
            if uid in self.pods:
                self._observe(self.pods[uid])  # it was bound, only the news was late
            else:
                self.ledger.release(uid)
        assert self.ledger.expired(self.now_ms) == []

    # -- news --------------------------------------------------------------------------------------------------

    @rule(
        target=bound,
        request=strategies.requests(),
        node=st.sampled_from(NODES),
        devices=st.none() | strategies.device_shares(),
    )
    def somebody_binds(self, request: Request, node: str, devices: tuple[DeviceShare, ...] | None) -> str:
        pod = Bound(self._uid(), request, node, None if devices is None else Allocation(node, devices))
        self.pods[pod.uid] = pod
        self.disturbed.add(node)
        self._observe(pod)
        return pod.uid

    @rule(uid=bound)
    def the_watch_tells_again(self, uid: str) -> None:
        if uid in self.pods:
            self._observe(self.pods[uid])

    @rule(uid=consumes(bound))
    def pod_goes(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.ledger.release(uid)

    def _observe(self, pod: Bound) -> None:
        entry = self.ledger.adopt(pod.uid, pod.request, pod.node, pod.allocation)
        assert entry.bound
        assert entry.node == pod.node

    # -- restarts ----------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """Bookings are lost, everything else is found again, in whatever order it is told."""
        for pod in self.pods.values():
            self._observe(pod)
        for uid in list(self.ledger.bookings):
            self.ledger.release(uid)
        before = self._by_name()
        self._restart()
        for item in data.draw(st.permutations([*self.nodes, *self.pods])):
            if item in self.nodes:
                self.state.set_node(self.nodes[item])
                self.ledger.set_node(item)
            else:
                self._observe(self.pods[item])
        assert self._by_name() == before

    def _by_name(self) -> dict[str, object]:
        """All there is to know of each node, whatever its slot and the order of columns."""
        found: dict[str, object] = {}
        arrays = self.state.arrays
        for name, slot in self.state.slot_of.items():
            counts = {
                resource: (int(arrays.free[slot, column]), int(arrays.total[slot, column]))
                for resource, column in self.state.columns.items()
                if arrays.free[slot, column] or arrays.total[slot, column]
            }
            rows = int(arrays.device_count[slot])
            devices = {
                field: getattr(arrays, field)[slot, :rows].tolist()
                for field in NodeArrays._fields
                if field.startswith("device_") and getattr(arrays, field).ndim == 2
            }
            guesses = {entry.uid: (entry.guessed, entry.missing_devices) for entry in self.ledger.on_node(name)}
            found[name] = (counts, devices, guesses, int(arrays.idle[slot]), int(arrays.shared[slot]))
        return found

    # -- always ------------------------------------------------------------------------------------------------

    @invariant()
    def the_ledger_is_the_pods_and_the_state_is_the_ledger(self) -> None:
        self.state.validate()
        self.ledger.validate()
        for uid, pod in self.pods.items():
            assert self.ledger.entries[uid].node == pod.node
        assert {uid for uid in self.ledger.entries if uid not in self.pods} <= set(self.ledger.bookings)

    @invariant()
    def nothing_is_given_twice(self) -> None:
        """Where nothing came from outside, nothing is booked or allocated beyond what there is."""
        for node in self._naive():
            if node.name in self.disturbed:
                continue
            for resource in {*node.inventory.facts.allocatable, *self.state.columns}:
                assert node.free(resource) >= 0, (node.name, resource)
            for row in range(len(node.devices)):
                assert node.free_milli(row) >= 0
                assert node.free_mib(row) >= 0
                assert len(node.holders(row)) <= 1 or all(share.milli < 1000 for share in node.holders(row))
            if node.devices:
                assert node.inventory.device_resource is not None
                assert len(node.shared()) <= node.free(node.inventory.device_resource)


LedgerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_ledger_machine = LedgerMachine.TestCase
