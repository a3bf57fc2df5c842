"""One `Codec` per kind, and the functions that decode a single object of it."""

from __future__ import annotations

from typing import Any, Final, Required

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from extender_api.cluster.codec import Codec, EventModel, PageModel, Raw
from extender_api.cluster.fields import DecodeError
from extender_api.cluster.node import (
    LeaseFacts,
    LeaseModel,
    NamespaceFacts,
    NamespaceModel,
    NodeModel,
    lease_facts,
    namespace_facts,
    node_facts,
)
from extender_api.cluster.pod import pod_facts, same_pod
from extender_api.cluster.pod_model import MetaModel, PodModel
from extender_api.cluster.queue import QueueDocument, QueueObject, kai_queue_object, queue_object, same_queue
from extender_api.spec_model import API_VERSION
from extender_api.topology_objects.read import KAI_API_VERSION, topology
from scheduler.pod import PodFacts
from topology.node import NodeFacts
from topology.topology import Topology


class TopologyDocument(TypedDict, total=False):
    metadata: Required[MetaModel]
    spec: Any


def _uid(meta: MetaModel) -> str:
    return meta.get("uid") or f"{meta.get('namespace') or 'default'}/{meta['name']}"


def _name(meta: MetaModel) -> str:
    return meta["name"]


def _equal(old: object, new: object) -> bool:
    return old == new


def _topologies(kind: str, api_version: str) -> Codec[TopologyDocument, Topology]:
    def facts(document: TopologyDocument) -> Topology:
        return topology(document, document["metadata"]["name"], api_version)

    return Codec(
        kind,
        model=TypeAdapter(TopologyDocument),
        page=TypeAdapter(PageModel[TopologyDocument]),
        event=TypeAdapter(EventModel[TopologyDocument]),
        facts=facts,
        key=_name,
        same=_equal,
    )


PODS: Final[Codec[PodModel, PodFacts]] = Codec(
    "Pod",
    model=TypeAdapter(PodModel),
    page=TypeAdapter(PageModel[PodModel]),
    event=TypeAdapter(EventModel[PodModel]),
    facts=pod_facts,
    key=_uid,
    same=same_pod,
)
NODES: Final[Codec[NodeModel, NodeFacts]] = Codec(
    "Node",
    model=TypeAdapter(NodeModel),
    page=TypeAdapter(PageModel[NodeModel]),
    event=TypeAdapter(EventModel[NodeModel]),
    facts=node_facts,
    key=_name,
    same=_equal,
)
NAMESPACES: Final[Codec[NamespaceModel, NamespaceFacts]] = Codec(
    "Namespace",
    model=TypeAdapter(NamespaceModel),
    page=TypeAdapter(PageModel[NamespaceModel]),
    event=TypeAdapter(EventModel[NamespaceModel]),
    facts=namespace_facts,
    key=_name,
    same=_equal,
)
LEASES: Final[Codec[LeaseModel, LeaseFacts]] = Codec(
    "Lease",
    model=TypeAdapter(LeaseModel),
    page=TypeAdapter(PageModel[LeaseModel]),
    event=TypeAdapter(EventModel[LeaseModel]),
    facts=lease_facts,
    key=_name,
    same=_equal,
)
QUEUES: Final[Codec[QueueDocument, QueueObject]] = Codec(
    "Queue",
    model=TypeAdapter(QueueDocument),
    page=TypeAdapter(PageModel[QueueDocument]),
    event=TypeAdapter(EventModel[QueueDocument]),
    facts=queue_object,
    key=_name,
    same=same_queue,
)
KAI_QUEUES: Final[Codec[QueueDocument, QueueObject]] = Codec(
    "KAI Queue",
    model=TypeAdapter(QueueDocument),
    page=TypeAdapter(PageModel[QueueDocument]),
    event=TypeAdapter(EventModel[QueueDocument]),
    facts=kai_queue_object,
    key=_name,
    same=same_queue,
)
TOPOLOGIES: Final = _topologies("Topology", API_VERSION)
KAI_TOPOLOGIES: Final = _topologies("KAI Topology", KAI_API_VERSION)


def decode_pod(raw: Raw) -> PodFacts:
    """A v1 Pod, as bytes or parsed. Raises DecodeError naming the pod and the field."""
    return PODS.one(raw)


def decode_node(raw: Raw) -> NodeFacts:
    """A v1 Node, as bytes or parsed. Raises DecodeError naming the node and the field."""
    return NODES.one(raw)


def decode_namespace(raw: Raw) -> NamespaceFacts:
    """A v1 Namespace, as bytes or parsed. Raises DecodeError."""
    return NAMESPACES.one(raw)


def decode_lease(raw: Raw) -> LeaseFacts:
    """A coordination.k8s.io/v1 Lease, as bytes or parsed. Raises DecodeError."""
    return LEASES.one(raw)


__all__ = [
    "KAI_QUEUES",
    "KAI_TOPOLOGIES",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "QUEUES",
    "TOPOLOGIES",
    "DecodeError",
    "LeaseFacts",
    "NamespaceFacts",
    "decode_lease",
    "decode_namespace",
    "decode_node",
    "decode_pod",
]
