"""The definition of our Queue: `python -m extender_api.queue_objects.crd`."""

from __future__ import annotations

from typing import Final

from extender_api.crd import Definition
from extender_api.queue_objects.model import NAME_RULE, PARENT_RULE, QueueSpecModel
from extender_api.queue_objects.status import QueueStatus

QUEUE: Final = Definition(
    kind="Queue",
    plural="queues",
    short="tq",
    description="Who may have how much: a queue of a hierarchy. Workloads name a queue without children.",
    spec=QueueSpecModel,
    status=QueueStatus,
    columns=(
        ("Parent", "string", ".spec.parent"),
        ("Priority", "integer", ".spec.priority"),
        ("GPU quota", "string", ".spec.resources.gpu.quota"),
        ("GPU limit", "string", ".spec.resources.gpu.limit"),
        ("GPU used", "string", ".status.allocated.gpu"),
        ("Waiting", "integer", ".status.waiting"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
    rules=(PARENT_RULE, NAME_RULE),
    made_by="extender_api.queue_objects.crd",
    notes=(
        "Queue objects are optional: without any there is one queue, unlimited in everything.",
        "Deleting this definition deletes all Queue objects with it.",
    ),
)

if __name__ == "__main__":
    print(QUEUE.text(), end="")
