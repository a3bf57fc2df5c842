"""Kube-scheduler's rules about neighbours, node by node and pod by pod, without any index: the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from scheduler.pod import HostPort, PodAffinityTerm, PodFacts
from scheduler.reason import Code
from topology.selector import Requirement


class NaiveNeighbours:
    """The same questions and answers as `scheduler.neighbours.Neighbours`."""

    def __init__(self) -> None:
        self.nodes: dict[int, Mapping[str, str]] = {}
        self.pods: dict[str, tuple[PodFacts, int]] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}

    def add(self, pod: PodFacts, slot: int) -> None:
        self.pods[pod.uid] = (pod, slot)

    def remove(self, uid: str) -> None:
        self.pods.pop(uid, None)

    def set_node(self, slot: int, labels: Mapping[str, str]) -> None:
        self.nodes[slot] = labels

    def clear_node(self, slot: int) -> None:
        self.nodes.pop(slot, None)
        self.pods = {uid: (pod, where) for uid, (pod, where) in self.pods.items() if where != slot}

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels

    def refusals(self, pod: PodFacts) -> dict[int, Code]:
        found = {slot: self.refusal(pod, slot) for slot in self.nodes}
        return {slot: code for slot, code in found.items() if code is not None}

    def refusal(self, pod: PodFacts, slot: int) -> Code | None:
        if self.port_taken(pod, slot):
            return Code.HOST_PORT_TAKEN
        if pod.pod_affinity and not self.affine(pod, slot):
            return Code.POD_AFFINITY
        if self.repelled(pod, slot):
            return Code.POD_ANTI_AFFINITY
        return None

    def others(self, pod: PodFacts) -> Iterator[tuple[PodFacts, int]]:
        """Every other pod on a node that exists."""
        for other, slot in self.pods.values():
            if other.uid != pod.uid and slot in self.nodes:
                yield other, slot

    def port_taken(self, pod: PodFacts, slot: int) -> bool:
        there = [port for other, where in self.others(pod) if where == slot for port in lasting_ports(other)]
        return any(collide(mine, theirs) for mine, theirs in product(lasting_ports(pod), there))

    def affine(self, pod: PodFacts, slot: int) -> bool:
        terms = pod.pod_affinity
        if not all(term.topology_key in self.nodes[slot] for term in terms):
            return False
        friends = [where for other, where in self.others(pod) if all(self.selects(term, other) for term in terms)]
        if all(any(self.together(slot, where, term.topology_key) for where in friends) for term in terms):
            return True
        counted = any(term.topology_key in self.nodes[where] for term in terms for where in friends)
        return not counted and all(self.selects(term, pod) for term in terms)

    def repelled(self, pod: PodFacts, slot: int) -> bool:
        for other, where in self.others(pod):
            mine = [term for term in pod.pod_anti_affinity if self.selects(term, other)]
            theirs = [term for term in other.pod_anti_affinity if self.selects(term, pod)]
            if any(self.together(slot, where, term.topology_key) for term in mine + theirs):
                return True
        return False

    def together(self, one: int, other: int, key: str) -> bool:
        """Both nodes have the label, with the same value."""
        return key in self.nodes[one] and self.nodes[one][key] == self.nodes[other].get(key)

    def selects(self, term: PodAffinityTerm, pod: PodFacts) -> bool:
        if term.selector is None or not fulfils(pod.labels, term.selector):
            return False
        if pod.namespace in term.namespaces:
            return True
        labels = {"kubernetes.io/metadata.name": pod.namespace, **self.namespaces.get(pod.namespace, {})}
        return term.namespace_selector is not None and fulfils(labels, term.namespace_selector)


def fulfils(labels: Mapping[str, str], requirements: tuple[Requirement, ...]) -> bool:
    return all(fulfilled(labels, each) for each in requirements)


def fulfilled(labels: Mapping[str, str], requirement: Requirement) -> bool:
    present = requirement.key in labels
    among = present and labels[requirement.key] in requirement.values
    return {"In": among, "NotIn": not among, "Exists": present, "DoesNotExist": not present}[requirement.operator]


def lasting_ports(pod: PodFacts) -> list[HostPort]:
    sidecars = [each for each in pod.init_containers if each.restartable]
    return [port for each in (*pod.containers, *sidecars) for port in each.host_ports if port.port > 0]


def collide(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol or "TCP") != (other.port, other.protocol or "TCP"):
        return False
    addresses = {one.ip or "0.0.0.0", other.ip or "0.0.0.0"}
    return len(addresses) == 1 or "0.0.0.0" in addresses
