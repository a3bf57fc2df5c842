"""What a pod may stand beside: host ports, and required pod affinity and anti-affinity in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.host_ports import HostPorts, ports_of
from scheduler.node_labels import NodeLabels
from scheduler.old_mig import OldMig
from scheduler.pod import PodFacts
from scheduler.pod_terms import Namespaces, all_select
from scheduler.reason import Code
from scheduler.repulsion import Repulsion
from scheduler.tally import Tallies
from topology import selector
from topology.domains import HOSTNAME


class Neighbours:
    """The pods on nodes, by slot, and the slots that are closed to another pod because of them.

    Finished pods hold nothing: they are to be removed. A pod is never its own neighbour, so one that is booked
    already may be asked about again.
    """

    def __init__(self) -> None:
        self._nodes = NodeLabels()
        self._namespaces = Namespaces()
        self._ports = HostPorts()
        self._old_mig = OldMig()
        self._repulsion = Repulsion(self._namespaces)
        self._tallies = Tallies(self._namespaces)
        self._placed: dict[str, tuple[PodFacts, int]] = {}
        self._on: dict[int, set[str]] = {}

    # -- what is where -----------------------------------------------------------------------------------------

    def add(self, pod: PodFacts, slot: int) -> None:
        """The pod is on the slot's node from now on, wherever it was before."""
        self.remove(pod.uid)
        self._placed[pod.uid] = (pod, slot)
        self._on.setdefault(slot, set()).add(pod.uid)
        self._ports.take(slot, ports_of(pod))
        self._old_mig.add(pod, slot)
        self._repulsion.add(pod, slot)
        self._tallies.add(pod, slot)

    def placed(self, uid: str) -> PodFacts | None:
        """The pod as it was added."""
        placed = self._placed.get(uid)
        return None if placed is None else placed[0]

    def remove(self, uid: str) -> None:
        """The pod is on no node any more; a pod that is not known is none either."""
        placed = self._placed.pop(uid, None)
        if placed is None:
            return
        pod, slot = placed
        self._on[slot].discard(uid)
        if not self._on[slot]:
            del self._on[slot]
        self._ports.give(slot, ports_of(pod))
        self._old_mig.remove(pod, slot)
        self._repulsion.remove(pod, slot)
        self._tallies.remove(pod, slot)

    def pod(self, uid: str) -> PodFacts | None:
        """The pod as it was added, None when it is on no node."""
        placed = self._placed.get(uid)
        return None if placed is None else placed[0]

    def set_node(self, slot: int, labels: Mapping[str, str]) -> None:
        """Puts a node, or its new labels, on a slot; the pods there stay."""
        self._nodes.put(slot, labels)

    def clear_node(self, slot: int) -> list[PodFacts]:
        """Forgets the slot's node and the pods on it, which are returned: the slot may be another node's next."""
        self._nodes.clear(slot)
        gone = [self._placed[uid][0] for uid in sorted(self._on.get(slot, ()))]
        for pod in gone:
            self.remove(pod.uid)
        return gone

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Takes a namespace's labels; None when it is gone."""
        # what was counted by namespace selectors must go before pods leave again under the new labels
        if self._namespaces.put(name, labels):
            self._tallies.forget_namespace_selectors()

    # -- who may go where --------------------------------------------------------------------------------------

    def matters(self, pod: PodFacts) -> bool:
        """Whether `refusals` could close anything to the pod; quick to say no for the pod without such rules."""
        if pod.pod_affinity or pod.pod_anti_affinity:
            return True
        return self._repulsion.concerns(pod) or bool(ports_of(pod)) or self._old_mig.concerns(pod)

    def refusals(self, pod: PodFacts) -> dict[int, Code]:
        """Slot → the rule that closes its node to the pod; open slots and slots without a node are absent."""
        placed = self._placed.get(pod.uid)
        if placed is None:
            return self._judged(pod)
        self.remove(pod.uid)
        try:
            return self._judged(pod)
        finally:
            self.add(*placed)

    def _judged(self, pod: PodFacts) -> dict[int, Code]:
        known = self._nodes.slots
        refused = dict.fromkeys(self._ports.conflicts(ports_of(pod)) & known, Code.HOST_PORT_TAKEN)
        for slot in self._old_mig.conflicts(pod) & known:
            refused.setdefault(slot, Code.MIG_NOT_KNOWN)
        if pod.pod_affinity:
            for slot in known - self._attracting(pod):
                refused.setdefault(slot, Code.POD_AFFINITY)
        for key, slots in self._repelling(pod):
            for value in self._values(key, slots):
                for slot in self._nodes.domain(key, value):
                    refused.setdefault(slot, Code.POD_ANTI_AFFINITY)
        return refused

    def _attracting(self, pod: PodFacts) -> set[int]:
        """The slots where the pod's affinity is satisfied.

        There must be pods that match all terms at once, in the node's domain of each term. Where no such pod is in
        any domain, a pod that matches its own terms is the first of its group and may go wherever there are domains.
        """
        counts = self._tallies.of(pod.pod_affinity)
        values = {term.topology_key: self._values(term.topology_key, counts) for term in pod.pod_affinity}
        if any(values.values()):
            reached = [set().union(*(self._nodes.domain(key, each) for each in values[key])) for key in values]
            return set.intersection(*reached)
        if all_select(pod.pod_affinity, pod, self._namespaces):
            return set.intersection(*(self._nodes.with_key(key) for key in values))
        return set()

    def _repelling(self, pod: PodFacts) -> Iterator[tuple[str, Mapping[int, int]]]:
        """Topology keys, and slots whose domains of that key are closed: by the pod's own terms and by others'."""
        for term in pod.pod_anti_affinity:
            yield term.topology_key, self._tallies.of((term,))
        yield from self._repulsion.against(pod)

    def _values(self, key: str, slots: Mapping[int, int]) -> set[str]:
        """The values of a label on the nodes of the slots."""
        found = {self._nodes.value(slot, key) for slot in slots}
        return {value for value in found if value is not None}


def is_one_to_a_node(pod: PodFacts) -> bool:
    """Whether two pods like this one cannot be on one node: by their host ports, or since they repel each other."""
    if ports_of(pod):
        return True
    return any(
        term.topology_key == HOSTNAME
        and pod.namespace in term.namespaces
        and term.selector is not None
        and selector.matches(term.selector, pod.labels)
        for term in pod.pod_anti_affinity
    )
