"""From parsed v1 Nodes, Namespaces and Leases to facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Required

from typing_extensions import TypedDict

from extender_api.cluster.fields import amounts, epoch_ms
from extender_api.cluster.pod_model import ConditionModel, MetaModel
from topology import vocabulary
from topology.node import NodeFacts, Taint


class TaintModel(TypedDict, total=False):
    key: Required[str]
    value: str | None
    effect: Required[str]


class NodeSpecModel(TypedDict, total=False):
    taints: list[TaintModel] | None
    unschedulable: bool | None


class NodeStatusModel(TypedDict, total=False):
    capacity: dict[str, Any] | None
    allocatable: dict[str, Any] | None
    conditions: list[ConditionModel] | None


class NodeModel(TypedDict, total=False):
    metadata: Required[MetaModel]
    spec: NodeSpecModel | None
    status: NodeStatusModel | None


class NamespaceModel(TypedDict, total=False):
    metadata: Required[MetaModel]


class LeaseSpecModel(TypedDict, total=False):
    holderIdentity: str | None
    leaseDurationSeconds: int | None
    renewTime: Any
    acquireTime: Any


class LeaseModel(TypedDict, total=False):
    metadata: Required[MetaModel]
    spec: LeaseSpecModel | None


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """A namespace and its labels, which the namespace selectors of pod affinity ask for."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """A coordination Lease. An empty `holder` is nobody; times are milliseconds since the epoch, 0 where not told."""

    name: str
    holder: str = ""
    renewed_ms: int = 0
    duration_ms: int = 0
    acquired_ms: int = 0


def node_facts(node: NodeModel) -> NodeFacts:
    """The facts of a validated node. Raises FieldError for a bad quantity.

    A node that says nothing about being ready counts as ready: that is how nodes in files are written.
    """
    meta = node["metadata"]
    spec: NodeSpecModel = node.get("spec") or {}
    status: NodeStatusModel = node.get("status") or {}
    annotations = meta.get("annotations") or {}
    capacity = amounts(status.get("capacity"), "status", "capacity")
    allocatable = amounts(status.get("allocatable"), "status", "allocatable")
    return NodeFacts(
        name=meta["name"],
        uid=meta.get("uid") or "",
        labels=meta.get("labels") or {},
        annotations={key: annotations[key] for key in vocabulary.NODE_ANNOTATIONS if key in annotations},
        taints=tuple(
            Taint(taint["key"], taint.get("value") or "", taint["effect"]) for taint in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        ready=all(
            condition["status"] == "True"
            for condition in status.get("conditions") or ()
            if condition["type"] == "Ready"
        ),
        capacity=capacity or allocatable,
        allocatable=allocatable or capacity,
    )


def namespace_facts(namespace: NamespaceModel) -> NamespaceFacts:
    """The facts of a validated namespace."""
    meta = namespace["metadata"]
    return NamespaceFacts(name=meta["name"], labels=meta.get("labels") or {})


def lease_facts(lease: LeaseModel) -> LeaseFacts:
    """The facts of a validated lease. Raises FieldError for a bad time."""
    spec: LeaseSpecModel = lease.get("spec") or {}
    return LeaseFacts(
        name=lease["metadata"]["name"],
        holder=spec.get("holderIdentity") or "",
        renewed_ms=epoch_ms(spec.get("renewTime"), "spec", "renewTime") or 0,
        duration_ms=(spec.get("leaseDurationSeconds") or 0) * 1000,
        acquired_ms=epoch_ms(spec.get("acquireTime"), "spec", "acquireTime") or 0,
    )
