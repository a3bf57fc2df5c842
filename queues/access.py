"""Which queue a workload is in, and whether its namespace may use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from queues.tree import Tree
from topology import selector


class Refusal(StrEnum):
    """Why no queue takes a workload. The names are part of the API."""

    NO_QUEUE = "NO_QUEUE"
    """There are queues, the workload names none and there is no default."""
    QUEUE_DOES_NOT_EXIST = "QUEUE_DOES_NOT_EXIST"
    QUEUE_BROKEN = "QUEUE_BROKEN"
    """It has no way to the top of the tree."""
    QUEUE_NOT_A_LEAF = "QUEUE_NOT_A_LEAF"
    QUEUE_NOT_ALLOWED = "QUEUE_NOT_ALLOWED"


@dataclass(frozen=True, slots=True)
class Choice:
    """The leaf that a workload belongs to, or None with the refusal and what it is about."""

    queue: str | None
    refusal: Refusal | None = None
    numbers: Mapping[str, int | str] = field(default_factory=dict)


def choose(tree: Tree, named: str | None, namespace: str, labels: Mapping[str, str], default: str | None) -> Choice:
    """The queue of a workload that names `named` (or nothing) in a namespace with these labels.

    `default` is the queue for workloads of the namespace that name none.
    """
    if tree.implicit:
        return Choice(tree.roots[0])
    name = named or default
    if name is None:
        return Choice(None, Refusal.NO_QUEUE, {"namespace": namespace})
    queue = tree.of(name)
    about: dict[str, int | str] = {"queue": name}
    if queue is None:
        broken = name in tree.broken
        return Choice(None, Refusal.QUEUE_BROKEN if broken else Refusal.QUEUE_DOES_NOT_EXIST, about)
    if not queue.is_leaf:
        return Choice(None, Refusal.QUEUE_NOT_A_LEAF, about)
    if not allowed(tree, name, namespace, labels):
        return Choice(None, Refusal.QUEUE_NOT_ALLOWED, {**about, "namespace": namespace})
    return Choice(name)


def allowed(tree: Tree, queue: str, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether the namespace may use the queue. The lowest queue of its path that says anything decides."""
    for step in tree.path(queue):
        access = step.spec.access
        if not access.open:
            chosen = access.selector is not None and selector.matches(access.selector, labels)
            return namespace in access.namespaces or chosen
    return True
