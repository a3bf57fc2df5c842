"""Taking our gate off a pod, and nominating a node: the writes that hand a planned pod to kube-scheduler."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from extender_api.cluster import paths
from extender_api.cluster.answer import Answer, Unreachable
from extender_api.cluster.client import ClusterClient, PatchKind
from extender_api.cluster.live_pod import look
from scheduler.instruction import Evict, Expose, Nominate, Release
from topology import vocabulary

logger = logging.getLogger(__name__)


class Fate(Enum):
    """What became of a write: done, pointless for ever, or worth another try."""

    DONE = auto()
    FAILED = auto()
    AGAIN = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """The fate of a write, with the HTTP status (0: no answer) and text for the log."""

    fate: Fate
    status: int
    text: str = ""


async def hand_over(client: ClusterClient, order: Evict | Release | Expose | Nominate) -> Step:
    """Nominates and takes the gate off, or ends a pod, as ordered."""
    if isinstance(order, Evict):
        return await evict(client, order)
    if isinstance(order, Nominate):
        return await nominate(client, order)
    if isinstance(order, Release) and order.nominate:
        step = await nominate(client, Nominate(order.uid, order.namespace, order.name, order.node))
        if step.fate is Fate.AGAIN or step.status == 404:
            return step
        if step.fate is Fate.FAILED:
            # A nomination saves kube-scheduler work; without it the pod takes the long way.
            logger.warning("%s/%s is not nominated: %s", order.namespace, order.name, step.text)
    return await release(client, order)


async def evict(client: ClusterClient, order: Evict) -> Step:
    """Ends a pod, and no other of its name, as far as PodDisruptionBudgets let it."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": order.namespace, "name": order.name},
        "deleteOptions": {"preconditions": {"uid": order.uid}},
    }
    try:
        answer = await client.create(paths.pod(order.namespace, order.name, "eviction"), body)
    except Unreachable as err:
        return Step(Fate.AGAIN, 0, str(err))
    return Step(Fate.DONE, answer.status) if answer.status in (404, 409) else _step(answer)


async def nominate(client: ClusterClient, order: Nominate) -> Step:
    """Sets status.nominatedNodeName, or clears it. Only a change wakes kube-scheduler, so `again` clears it first."""
    if order.again:
        step = await _write_nomination(client, order, None)
        if step.fate is not Fate.DONE:
            return step
    return await _write_nomination(client, order, order.node)


async def _write_nomination(client: ClusterClient, order: Nominate, node: str | None) -> Step:
    body = {"metadata": {"uid": order.uid}, "status": {"nominatedNodeName": node}}
    try:
        answer = await client.patch(paths.pod(order.namespace, order.name, "status"), body, PatchKind.MERGE)
    except Unreachable as err:
        return Step(Fate.AGAIN, 0, str(err))
    return _step(answer)


async def release(client: ClusterClient, order: Release | Expose) -> Step:
    """Takes our gate off, and only ours: the patch tests that it stands where it is removed.

    When it does not, the pod is looked at: a gate that is gone counts as done, one that moved is removed there.
    """
    try:
        index = order.gates.index(vocabulary.GATE)
    except ValueError:
        return await _release_as_found(client, order)
    try:
        answer = await _ungate(client, order, index)
        if answer.status in (409, 422):
            return await _release_as_found(client, order)
    except Unreachable as err:
        return Step(Fate.AGAIN, 0, str(err))
    return _step(answer)


async def _release_as_found(client: ClusterClient, order: Release | Expose) -> Step:
    try:
        pod = await look(client, order.namespace, order.name, order.uid)
        if pod is None:
            return Step(Fate.FAILED, 404, "the pod is gone")
        if pod.gate_index is None:
            return Step(Fate.DONE, 200, "the gate was gone already")
        answer = await _ungate(client, order, pod.gate_index)
    except Unreachable as err:
        return Step(Fate.AGAIN, 0, str(err))
    if answer.status in (409, 422):
        return Step(Fate.AGAIN, answer.status, answer.message)  # the pod changes faster than we look
    return _step(answer)


async def _ungate(client: ClusterClient, order: Release | Expose, index: int) -> Answer:
    patch = ungating(order.uid, index)
    return await client.patch(paths.pod(order.namespace, order.name), patch, PatchKind.JSON)


def ungating(uid: str, index: int) -> list[dict[str, Any]]:
    """A JSON patch that removes our gate from its place, or does nothing to any other pod or gate."""
    gate = f"/spec/schedulingGates/{index}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": f"{gate}/name", "value": vocabulary.GATE},
        {"op": "remove", "path": gate},
    ]


def _step(answer: Answer) -> Step:
    if answer.ok:
        return Step(Fate.DONE, answer.status)
    text = f"{answer.status}: {answer.message}"
    passing = answer.status >= 500 or answer.status in (408, 429)
    return Step(Fate.AGAIN if passing else Fate.FAILED, answer.status, text)
