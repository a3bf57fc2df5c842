"""The messages between kube-scheduler and an extender (k8s.io/kube-scheduler/extender/v1), exactly as Go has them.

Keys are capitalised because the Go structs carry no JSON tags; their order is that of the structs. Answers are made
here too, one for every way of being in trouble; questions are read in `wire_read`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import to_json
from typing_extensions import TypedDict

Object = dict[str, Any]
"""A Kubernetes object as parsed JSON."""


class ExtenderArgs(TypedDict):
    """What filter and prioritize are asked. Without nodeCacheCapable the nodes come in full, else as names."""

    Pod: Object
    Nodes: Object | None
    NodeNames: Sequence[str] | None


class ExtenderFilterResult(TypedDict):
    """The nodes that pass, in the form in which they were asked; the reasons count only when none does."""

    Nodes: Object | None
    NodeNames: list[str] | None
    FailedNodes: dict[str, str]
    FailedAndUnresolvableNodes: dict[str, str]
    Error: str


class HostPriority(TypedDict):
    """A node's score: a whole number, because Go drops the whole answer over a fraction."""

    Host: str
    Score: int


class ExtenderBindingArgs(TypedDict):
    """Which pod is to be bound to which node."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class ExtenderBindingResult(TypedDict):
    """An empty Error means that the pod is bound."""

    Error: str


class MetaPod(TypedDict):
    """A pod by its uid."""

    UID: str


class MetaVictims(TypedDict):
    """The pods that would have to go from one node."""

    Pods: list[MetaPod]
    NumPDBViolations: int


class Victims(TypedDict):
    """The same with the pods in full, sent without nodeCacheCapable."""

    Pods: list[Object]
    NumPDBViolations: int


class ExtenderPreemptionArgs(TypedDict):
    """Candidate nodes with their victims, in one of the two forms."""

    Pod: Object
    NodeNameToVictims: dict[str, Victims] | None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None


class ExtenderPreemptionResult(TypedDict):
    """The candidates that stay, always with uids."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


def encode(answer: object) -> bytes:
    """The JSON of an answer. Numbers that JSON does not have become null."""
    return to_json(answer, inf_nan_mode="null")


def filter_error(text: str) -> ExtenderFilterResult:
    """No answer: kube-scheduler tries again later and autoscalers ignore the pod."""
    return {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": text,
    }


def filter_result(args: ExtenderArgs, passed: Sequence[str], refused: Mapping[str, str]) -> ExtenderFilterResult:
    """The nodes that pass, in the form asked. `refused` maps names to reasons, for when none passes.

    All reasons go where preemption does not look: it would find no victim for what only we know about.
    """
    nodes, names = args["Nodes"], args["NodeNames"]
    return {
        "Nodes": None if nodes is None else _kept(nodes, frozenset(passed)),
        "NodeNames": None if names is None else list(passed),
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": dict(refused),
        "Error": "",
    }


def priorities(scores: Iterable[tuple[str, int]]) -> list[HostPriority]:
    """Scores by node name; an empty list is also the answer to trouble."""
    return [{"Host": name, "Score": int(score)} for name, score in scores]


def binding_result(error: str) -> ExtenderBindingResult:
    """An empty text for success."""
    return {"Error": error}


def preemption_result(victims: Mapping[str, Sequence[str]], violations: Mapping[str, int]) -> ExtenderPreemptionResult:
    """Node → uids of its victims; an empty mapping is also the answer to trouble.

    `violations` are those that kube-scheduler counted; fewer victims cannot violate more budgets than they are.
    """
    return {
        "NodeNameToMetaVictims": {
            node: {
                "Pods": [{"UID": uid} for uid in uids],
                "NumPDBViolations": max(min(violations.get(node, 0), len(uids)), 0),
            }
            for node, uids in victims.items()
        }
    }


def _kept(nodes: Object, names: frozenset[str]) -> Object:
    """The node list reduced to some names; everything else in it as it came."""
    return {**nodes, "items": [node for node in nodes.get("items") or () if node["metadata"]["name"] in names]}
