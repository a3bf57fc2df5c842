"""Which nodes are machines and which stand for something else: another cluster, a batch system, a cloud service."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from topology.node import NodeFacts
from topology.vocabulary import KWOK_NODE, NODE_CLUSTER

LOCAL_CLUSTER: Final = ""
"""The cluster identity that all real nodes share."""

LIQO_TYPE: Final = "liqo.io/type"
LIQO_CLUSTER: Final = "liqo.io/remote-cluster-id"
VCLUSTER_FAKE: Final = "vcluster.loft.sh/fake-node"
VCLUSTER_MANAGED: Final = "vcluster.loft.sh/managed-by"
VIRTUAL_KUBELET: Final = "virtual-kubelet.io/provider"
INTERLINK_TAINT: Final = "virtual-node.interlink/no-schedule"
INTERLINK_TYPE: Final = "virtual-node.interlink/type"
TYPE: Final = "type"
ALIBABA_PREFIX: Final = "alibabacloud.com/"
KARPENTER_COMING: Final = "karpenter.sh/unregistered"
KARPENTER_POOL: Final = "karpenter.sh/nodepool"
KARPENTER_INITIALIZED: Final = "karpenter.sh/initialized"


class NodeKind(StrEnum):
    """What a Node object stands for."""

    REAL = "real"
    KWOK = "kwok"
    KARPENTER = "karpenter"
    VCLUSTER_SYNCED = "vcluster-synced"
    LIQO = "liqo"
    VCLUSTER_FAKE = "vcluster-fake"
    ADMIRALTY = "admiralty"
    INTERLINK = "interlink"
    ACK = "ack"
    VIRTUAL_KUBELET = "virtual-kubelet"

    @property
    def virtual(self) -> bool:
        """Whether it is an aggregate without devices of its own; KWOK and coming Karpenter nodes count as machines."""
        return self not in _REAL


_REAL: Final = frozenset({NodeKind.REAL, NodeKind.KWOK, NodeKind.KARPENTER, NodeKind.VCLUSTER_SYNCED})


def kind_of(facts: NodeFacts) -> NodeKind:
    """The kind of a node, by the marks that each project puts on its nodes; the most specific mark wins.

    A node synced into a vCluster keeps the labels of the host's node, so the marks of virtual nodes come first: a
    virtual node does not become a machine by being synced.
    """
    labels = facts.labels
    taints = {taint.key: taint.value for taint in facts.taints}
    if labels.get(LIQO_TYPE) == "virtual-node":
        return NodeKind.LIQO
    if labels.get(VCLUSTER_FAKE) == "true":
        return NodeKind.VCLUSTER_FAKE
    if "admiralty" in (labels.get(VIRTUAL_KUBELET), taints.get(VIRTUAL_KUBELET)):
        return NodeKind.ADMIRALTY
    if INTERLINK_TAINT in taints or INTERLINK_TYPE in labels:
        return NodeKind.INTERLINK
    if KWOK_NODE in facts.annotations or labels.get(TYPE) == "kwok":
        return NodeKind.KWOK
    if labels.get(TYPE) == "virtual-kubelet" or VIRTUAL_KUBELET in taints:
        alibaba = any(key.startswith(ALIBABA_PREFIX) for key in labels)
        return NodeKind.ACK if alibaba else NodeKind.VIRTUAL_KUBELET
    if VCLUSTER_MANAGED in labels:
        return NodeKind.VCLUSTER_SYNCED
    if KARPENTER_COMING in taints or (KARPENTER_POOL in labels and KARPENTER_INITIALIZED not in labels):
        return NodeKind.KARPENTER
    return NodeKind.REAL


def cluster_identity(facts: NodeFacts, kind: NodeKind) -> str:
    """The cluster behind a node: LOCAL_CLUSTER for machines, else what Liqo or our annotation says, else its name."""
    if not kind.virtual:
        return LOCAL_CLUSTER
    return facts.labels.get(LIQO_CLUSTER) or facts.annotations.get(NODE_CLUSTER, "").strip() or facts.name
