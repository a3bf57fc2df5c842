"""The rules of a pod about nodes that hold whatever else runs there: selector, affinity, taints, readiness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.pod import NodeSelectorTerm, PodFacts, Toleration
from scheduler.reason import Code
from topology import selector
from topology.node import NodeFacts, Taint
from topology.selector import Requirement

NAME_FIELD: Final = "metadata.name"

_FORBIDDING: Final = ("NoSchedule", "NoExecute")
_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
_NOT_READY_KEYS: Final = (_NOT_READY.key, "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class Constraints:
    """The static rules of a pod. Pods with equal constraints may go to the same nodes.

    `node_affinity` None means that there is none; an empty tuple that no node can match.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()


def constraints_of(pod: PodFacts) -> Constraints:
    """The pod's rules in a form in which order and repetition make no difference."""
    affinity = pod.node_affinity
    return Constraints(
        node_selector=tuple(sorted(pod.node_selector.items())),
        node_affinity=None if affinity is None else tuple(term for term in affinity if _can_match(term)),
        tolerations=_normal(pod.tolerations) if pod.tolerations else (),
    )


def refusal(constraints: Constraints, node: NodeFacts) -> Code | None:
    """Why the node is closed to such pods, or None when it is open. The first rule that speaks gives the code."""
    if not (node.ready or _tolerates_not_ready(constraints.tolerations, node)):
        return Code.NODE_NOT_READY
    if node.unschedulable and not tolerates(constraints.tolerations, _CORDONED):
        return Code.NODE_UNSCHEDULABLE
    labels = node.labels
    for key, value in constraints.node_selector:
        if labels.get(key) != value:
            return Code.NODE_SELECTOR
    if constraints.node_affinity is not None and not _any_matches(constraints.node_affinity, node):
        return Code.NODE_AFFINITY
    for taint in node.taints:
        if taint.effect in _FORBIDDING and not tolerates(constraints.tolerations, taint):
            return Code.NODE_NOT_READY if taint.key in _NOT_READY_KEYS else Code.UNTOLERATED_TAINT
    return None


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint. Operators other than Equal and Exists cover nothing."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists":
            return True
        if toleration.operator in ("", "Equal") and toleration.value == taint.value:
            return True
    return False


def _tolerates_not_ready(tolerations: Sequence[Toleration], node: NodeFacts) -> bool:
    """Kube-scheduler looks at taints only. Until the node controller has set them, the condition stands for one."""
    if any(taint.key in _NOT_READY_KEYS and taint.effect == "NoSchedule" for taint in node.taints):
        return True  # the taint itself decides, with the others
    return tolerates(tolerations, _NOT_READY)


def _any_matches(terms: Sequence[NodeSelectorTerm], node: NodeFacts) -> bool:
    for term in terms:  # noqa: SIM110 (the hot path, as in selector)
        if selector.matches(term.labels, node.labels) and _fields_match(term.fields, node):
            return True
    return False


def _fields_match(fields: Sequence[Requirement], node: NodeFacts) -> bool:
    """The name is the one field that a node has; others are empty."""
    for requirement in fields:
        if not selector.holds(requirement, node.name if requirement.key == NAME_FIELD else ""):
            return False
    return True


def _can_match(term: NodeSelectorTerm) -> bool:
    """An empty term matches nothing, and so does one with an expression that kube-scheduler cannot read."""
    if not term.labels and not term.fields:
        return False
    return all(map(selector.well_formed, term.labels)) and all(map(_well_formed_field, term.fields))


def _well_formed_field(requirement: Requirement) -> bool:
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def _normal(tolerations: Sequence[Toleration]) -> tuple[Toleration, ...]:
    """Without repetitions and without those that cannot cover a taint that forbids anything."""
    useful = {toleration for toleration in tolerations if toleration.effect in ("", *_FORBIDDING)}
    return tuple(sorted(useful, key=lambda each: (each.key, each.operator, each.value, each.effect)))
