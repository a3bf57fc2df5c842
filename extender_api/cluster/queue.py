"""Queue objects of the cluster, ours and KAI's: what is said of the queue, and what stands in the status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Required

from typing_extensions import TypedDict

from extender_api.cluster.pod_model import MetaModel
from extender_api.queue_objects import kai
from extender_api.queue_objects.read import queue_spec
from queues.spec import QueueSpec


class QueueMetaModel(MetaModel, total=False):
    generation: int | None


class QueueDocument(TypedDict, total=False):
    apiVersion: str | None
    kind: str | None
    metadata: Required[QueueMetaModel]
    spec: Any
    status: Any


@dataclass(frozen=True, slots=True)
class QueueObject:
    """A queue, the generation of its spec, and its status as it stands in the object."""

    spec: QueueSpec
    generation: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)


def queue_object(document: QueueDocument) -> QueueObject:
    """A validated document as facts. Raises FieldError."""
    status = document.get("status")
    return QueueObject(
        spec=queue_spec(document),
        generation=document["metadata"].get("generation") or 0,
        status=status if isinstance(status, Mapping) else {},
    )


def kai_queue_object(document: QueueDocument) -> QueueObject:
    """The same for KAI's kind."""
    return queue_object({**document, "apiVersion": kai.API_VERSION})


def same_queue(old: QueueObject, new: QueueObject) -> bool:
    """Whether the queue is the same, whatever we have written into its status."""
    return old.spec == new.spec
