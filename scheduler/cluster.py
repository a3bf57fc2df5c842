"""The cluster as the planner sees it: nodes, what is taken on them, and every rule about who may go where.

One object holds the state arrays, the ledger and the rules, and keeps them in step. The live engine and the stateless
planner use the same class; neither touches its parts when a method here will do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from queues.spec import QueueSpec
from scheduler import placement
from scheduler.accounts import Accounts, Admission
from scheduler.allocation import Allocation, DeviceShare
from scheduler.charging import NodeClass
from scheduler.claim import ClaimRules, same_claim
from scheduler.constraints import Constraints, refusal
from scheduler.eligibility import Eligibility
from scheduler.growth import Growth
from scheduler.landscape import Landscape
from scheduler.ledger import Entry, Ledger
from scheduler.neighbours import Neighbours
from scheduler.pod import PodFacts
from scheduler.policy import Policy
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord
from scheduler.request import Demand, Request
from scheduler.state import ClusterState
from topology.inventory import InventorySettings, NodeInventory, describe
from topology.node import NodeFacts
from topology.topology import Topology


class Cluster:
    """Nodes, allocations, bookings and rules, in step.

    `growth` notes every change after which something that did not fit might fit; the planner tries a waiting pod again
    only then.
    """

    def __init__(self, *, inventory: InventorySettings, policy: Policy, rules: ClaimRules | None = None) -> None:
        """`rules` say whose pods are in queues, and in which."""
        self._inventory_settings = inventory
        self.accounts = Accounts(rules or ClaimRules())
        self.state = ClusterState(policy)
        self.ledger = Ledger(self.state)
        self.eligibility = Eligibility()
        self.neighbours = Neighbours()
        self.landscape = Landscape(inventory.levels)
        self.growth = Growth()
        self.node_changes = 0
        """Counts what happened to nodes: added, changed, removed."""
        self._as_told: dict[str, NodeFacts] = {}
        """Nodes as they were given; an inventory may hold fewer facts."""
        self._stranded: dict[str, dict[str, PodFacts]] = {}
        """Pods by the name of a node that is not known (yet, or any more), so that no rule forgets them."""

    # -- nodes and namespaces ----------------------------------------------------------------------------------

    def node(self, name: str) -> NodeInventory | None:
        """What is known of a node."""
        slot = self.state.slot_of.get(name)
        return None if slot is None else self.state.inventories[slot]

    @property
    def node_count(self) -> int:
        return len(self.state.slot_of)

    def set_node(self, facts: NodeFacts) -> bool:
        """Adds a node or takes its new facts. False when nothing changed that matters."""
        if self._as_told.get(facts.name) == facts:
            return False
        self._as_told[facts.name] = facts
        self.node_changes += 1
        inventory = describe(facts, self._inventory_settings)
        slot = self.state.set_node(inventory)
        self.eligibility.set_node(slot, facts)
        self.neighbours.set_node(slot, facts.labels)
        self.landscape.set_node(slot, facts.name, facts.labels)
        self.ledger.set_node(facts.name)
        for pod in self._stranded.pop(facts.name, {}).values():
            self.neighbours.add(pod, slot)
        if self.accounts.classes.set(slot, inventory):
            self._charge_anew(facts.name)
        self.growth.at(slot)
        return True

    def remove_node(self, name: str) -> None:
        """Forgets a node; what stood on it waits in the ledger for it to come back or for the pods to go."""
        slot = self.state.slot_of.get(name)
        if slot is None:
            return
        del self._as_told[name]
        self.node_changes += 1
        self.accounts.classes.clear(slot)
        self.ledger.remove_node(name)
        self.eligibility.clear_node(slot)
        self.landscape.clear_node(slot)
        stranded = self.neighbours.clear_node(slot)
        if stranded:
            self._stranded[name] = {pod.uid: pod for pod in stranded}
        self.state.remove_node(name)
        self.growth.anywhere()  # whom its pods repelled may go elsewhere now

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Labels of a namespace (None: it is gone). Whether pods may have another queue now."""
        self.neighbours.set_namespace(name, labels)
        self.growth.anywhere()
        return self.accounts.set_namespace(name, labels)

    def set_queues(self, specs: Iterable[QueueSpec]) -> None:
        """All queues there are. What pods want has to be told to the accounts again."""
        self.accounts.set_queues(specs)
        for name, slot in self.state.slot_of.items():
            inventory = self.state.inventories[slot]
            if inventory is not None and self.accounts.classes.set(slot, inventory):
                self._charge_anew(name)

    def set_topologies(self, topologies: Iterable[Topology]) -> None:
        """All topologies there are."""
        self.landscape.set_topologies(topologies)
        self.growth.anywhere()

    def pod(self, uid: str) -> PodFacts | None:
        """The pod that stands or is booked on a node, as it was known then."""
        placed = self.neighbours.pod(uid)
        if placed is not None:
            return placed
        return next((pods[uid] for pods in self._stranded.values() if uid in pods), None)

    # -- what is taken -----------------------------------------------------------------------------------------

    def adopt(self, pod: PodFacts, request: Request, allocation: Allocation | None) -> Entry:
        """Counts a pod that the API shows on a node, ours or anybody's."""
        assert pod.node_name is not None
        old = self.ledger.entries.get(pod.uid)
        entry = self.ledger.adopt(pod.uid, request, pod.node_name, allocation)
        self._settle(pod, pod.node_name)
        if entry is not old:
            self._charge(pod, entry)
            # guesses about other pods of the node may have moved; and it may have left another node, or hold less
            self._grew_on(entry.node)
            if old is not None:
                self._grew_on(old.node)
        return entry

    def book(self, pod: PodFacts, request: Request, allocation: Allocation, deadline_ms: int | None) -> None:
        """Books a plan. Raises LedgerError when it does not fit."""
        self.ledger.book(pod.uid, request, allocation, deadline_ms)
        self._settle(pod, allocation.node)
        self._charge(pod, self.ledger.entries[pod.uid])

    def release(self, uid: str) -> Entry | None:
        """Gives back what a pod had booked or held."""
        entry = self.ledger.release(uid)
        if entry is not None:
            self._unsettle(uid, entry.node)
            self._grew_on(entry.node)
            self.accounts.free(uid)
        return entry

    def _charge(self, pod: PodFacts, entry: Entry) -> None:
        slot = self.state.slot_of.get(entry.node, -1)
        self.accounts.hold(pod, entry.request, NodeClass() if slot < 0 else self.accounts.classes.of(slot))

    def charge(self, pod: PodFacts) -> None:
        """The queue in which a pod counts that holds a place is another than was thought."""
        entry = self.ledger.entries.get(pod.uid)
        if entry is not None:
            self._charge(pod, entry)

    def _charge_anew(self, node: str) -> None:
        """The class of the node is another: what its pods count for may be, too."""
        for entry in self.ledger.on_node(node):
            holding = self.accounts.holding(entry.uid)
            if holding is not None:
                self._charge(holding.pod, entry)

    def _grew_on(self, node: str) -> None:
        slot = self.state.slot_of.get(node)
        if slot is not None:
            self.growth.at(slot)

    def _settle(self, pod: PodFacts, node: str) -> None:
        slot = self.state.slot_of.get(node)
        if slot is None:
            self.neighbours.remove(pod.uid)
            self._stranded.setdefault(node, {})[pod.uid] = pod
        else:
            self.neighbours.add(pod, slot)

    def _unsettle(self, uid: str, node: str) -> None:
        self.neighbours.remove(uid)
        stranded = self._stranded.get(node)
        if stranded is not None and stranded.pop(uid, None) is not None and not stranded:
            del self._stranded[node]

    # -- who may go where --------------------------------------------------------------------------------------

    def mask(
        self, pod: PodFacts, constraints: Constraints, allowed: Collection[str] | None = None
    ) -> NDArray[np.bool_]:
        """bool[slots]: the nodes that the rules (not the room) leave to the pod. Read-only."""
        mask = self.eligibility.mask(constraints)[: len(self.state.inventories)]
        if self.neighbours.matters(pod):
            mask = mask.copy()
            for slot in self.neighbours.refusals(pod):
                mask[slot] = False
        if allowed is not None:
            mask = mask & self.slots_mask(allowed)
        return mask

    def slots_mask(self, names: Collection[str]) -> NDArray[np.bool_]:
        """bool[slots] of the named nodes; unknown names are left out."""
        mask = np.zeros(len(self.state.inventories), dtype=np.bool_)
        slot_of = self.state.slot_of
        slots = [slot for name in names if (slot := slot_of.get(name)) is not None]
        mask[slots] = True
        return mask

    def could_hold(self, request: Request, constraints: Constraints) -> NDArray[np.bool_]:
        """bool[slots]: nodes that have enough of everything in all, and whose own rules admit the pod."""
        mask = self.eligibility.mask(constraints)[: len(self.state.inventories)]
        ask, arrays = self.state.ask(request), self.state.arrays
        enough = (arrays.total[: mask.size, ask.columns] >= ask.amounts).all(axis=1)
        if request.demand is Demand.SHARE:
            large = arrays.device_healthy & (arrays.device_total_mib >= request.share_memory_mib)
            enough &= (arrays.shares & (large.sum(axis=1) >= request.device_count))[: mask.size]
        return np.asarray(mask & enough, np.bool_)

    def admit(self, record: PodRecord) -> Admission:
        """Whether its queue lets the pod start, and on which nodes. Its request has to be known."""
        request, constraints = record.request, record.constraints
        assert request is not None
        return self.accounts.admit(
            record.queue,
            request,
            record.preemptible,
            lambda: self.accounts.classes.among(self.could_hold(request, constraints)),
        )

    def admit_all(self, records: Sequence[PodRecord]) -> Admission:
        """The same for pods of one gang that have to start together. One that cannot give way makes all of them so."""

        def possible() -> Sequence[NodeClass]:
            slots = np.zeros(len(self.state.inventories), np.bool_)
            for request, constraints in dict.fromkeys((one.request, one.constraints) for one in records):
                if request is not None:
                    slots |= self.could_hold(request, constraints)
            return self.accounts.classes.among(slots)

        requests = [record.request for record in records if record.request is not None]
        preemptible = all(record.preemptible for record in records)
        return self.accounts.admit_all(records[0].queue, requests, preemptible, possible)

    def place(
        self,
        pod: PodFacts,
        request: Request,
        constraints: Constraints,
        allowed: Collection[str] | None = None,
        left: NDArray[np.bool_] | None = None,
    ) -> Allocation | None:
        """The best node with room, and devices there, or None. Books nothing. `left` is bool[slots], None for all."""
        mask = self.mask(pod, constraints, allowed)
        return placement.place(self.state, request, mask if left is None else mask & left)

    def opens(self, request: Request, constraints: Constraints, slots: Collection[int]) -> bool:
        """Whether the request fits on one of the slots, by room and by rules about the node alone."""
        return any(
            (inventory := self.state.inventories[slot]) is not None
            and refusal(constraints, inventory.facts) is None
            and placement.place_on(self.state, request, slot) is not None
            for slot in slots
        )

    def bears(self, pod: PodFacts, constraints: Constraints) -> bool:
        """Whether the node of the pod's booking still has the room and admits the pod by rules about the node alone."""
        entry = self.ledger.entries.get(pod.uid)
        slot = None if entry is None else self.state.slot_of.get(entry.node)
        if entry is None or slot is None or not self.ledger.sound(pod.uid):
            return False
        return bool(self.eligibility.mask(constraints)[slot])

    def relabel(self, pod: PodFacts) -> None:
        """Newer facts of a pod that holds a place: rules about neighbours see its labels as they are now."""
        entry, holding = self.ledger.entries.get(pod.uid), self.accounts.holding(pod.uid)
        if entry is not None and not entry.bound and holding is not None and not same_claim(holding.pod, pod):
            self._charge(pod, entry)  # what runs counts where it started until it ends: labels are no way around limits
        known = self.neighbours.placed(pod.uid)
        if known is not None and known.labels != pod.labels:
            self._settle(pod, self.ledger.entries[pod.uid].node)
            self.growth.anywhere()

    def place_on(self, request: Request, node: str) -> tuple[DeviceShare, ...] | None:
        """Devices for the request on one node, or None when it lacks room."""
        slot = self.state.slot_of.get(node)
        return None if slot is None else placement.place_on(self.state, request, slot)

    def refusals(self, pod: PodFacts, constraints: Constraints) -> dict[int, Code]:
        """Slot → the rule that forbids the node; nodes that no rule forbids are absent."""
        refused = dict(self.eligibility.refusals(constraints))
        if self.neighbours.matters(pod):
            for slot, code in self.neighbours.refusals(pod).items():
                refused.setdefault(slot, code)
        return refused

    def why(
        self,
        pod: PodFacts,
        request: Request,
        constraints: Constraints,
        allowed: Collection[str] | None = None,
        excluded: Mapping[int, Code] | None = None,
    ) -> Reason:
        """Why the pod fits nowhere, with numbers. `allowed` are the nodes that kube-scheduler offered; `excluded` are
        slots that others' claims keep from it, which is said of those where it would fit.
        """
        refused = self.refusals(pod, constraints)
        if excluded:
            fits = placement.fits(self.state, request, self.mask(pod, constraints, allowed))
            refused.update((slot, code) for slot, code in excluded.items() if slot < fits.size and fits[slot])
        if allowed is not None:
            for slot, inventory in enumerate(self.state.inventories):
                if inventory is not None and inventory.name not in allowed:
                    refused.setdefault(slot, Code.NOT_OFFERED)
        return placement.why(self.state, request, refused)

    def validate(self) -> None:
        """Raises AssertionError when state and ledger differ."""
        self.state.validate()
        self.ledger.validate()
        self.accounts.validate()
        assert {holding.pod.uid for holding in self.accounts.holdings} == set(self.ledger.entries)
