"""kube-scheduler's `preempt` question: which of its candidate nodes would really hold the pod once victims are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler import placement
from scheduler.cluster import Cluster
from scheduler.constraints import Constraints
from scheduler.pod import PodFacts
from scheduler.request import Request


def answer(
    cluster: Cluster,
    pod: PodFacts,
    request: Request,
    constraints: Constraints,
    victims: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """Node → victim uids, for the nodes that stay candidates.

    kube-scheduler counts devices, so it may offer a node where the count frees up while every single device is still
    held by a share. Such a node is dropped. Victims are never added, nor is a node kept without any.
    """
    mask = cluster.mask(pod, constraints)
    kept: dict[str, list[str]] = {}
    for node, uids in victims.items():
        slot = cluster.state.slot_of.get(node)
        if slot is None or not uids or not mask[slot]:
            continue
        if _fits_without(cluster, request, slot, uids):
            kept[node] = list(uids)
    return kept


def _fits_without(cluster: Cluster, request: Request, slot: int, uids: Sequence[str]) -> bool:
    """Whether the request fits on the node once these pods are gone. Changes nothing."""
    state = cluster.state
    name = state.inventories[slot]
    mark = state.checkpoint()
    try:
        for uid in uids:
            entry = cluster.ledger.entries.get(uid)
            if entry is not None and name is not None and entry.node == name.name:
                state.give(slot, entry.request, entry.devices)
        return placement.place_on(state, request, slot) is not None
    finally:
        state.rollback(mark)
