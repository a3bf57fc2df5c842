"""Posting a Binding so that its outcome is known, whatever happens to the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from extender_api.actuator import BindOutcome, BindResult
from extender_api.cluster import paths
from extender_api.cluster.answer import Answer, Unreachable, Withheld
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.live_pod import look
from scheduler.instruction import BindOrder

BIND_S: Final = 8.0
"""A bind is over so long after it began, and nothing of it is sent later: what takes over from us counts on it."""
CALL_S: Final = 4.0
"""The longest that one call of it may take."""
_ATTEMPTS: Final = 2
_PAUSE_S: Final = 0.25
_SHORTEST_CALL_S: Final = 0.1


async def bind(client: ClusterClient, order: BindOrder, may_write: Callable[[], bool] = lambda: True) -> BindResult:
    """Puts the pod on its node, with the annotations, in one write.

    A Binding that was refused or went unanswered is looked up, and one whose fate is open is posted once more: that is
    safe, since the API server binds a pod once and only if its uid is the expected one. `may_write` is asked before
    each post; once it says no, nothing is posted any more.
    """
    ends_s = asyncio.get_running_loop().time() + BIND_S
    text = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            await asyncio.sleep(_PAUSE_S)
        left_s = _left(ends_s)
        if left_s < _SHORTEST_CALL_S:
            break
        try:
            answer = await _post(client, order, left_s, may_write)
        except Withheld as err:
            return BindResult(BindOutcome.RETRY, str(err))
        except Unreachable as err:
            text = str(err)
        else:
            if answer.ok:
                return BindResult(BindOutcome.BOUND)
            text = f"{answer.status}: {answer.message}"
            if answer.status == 404:
                return BindResult(BindOutcome.GONE, text)
            if _is_final(answer):
                return BindResult(BindOutcome.RETRY, text)
        known = await _found(client, order, text, _left(ends_s))
        if known is not None:
            return known
    return BindResult(BindOutcome.RETRY, text)


def _left(ends_s: float) -> float:
    """How long a call may take now."""
    return min(CALL_S, ends_s - asyncio.get_running_loop().time())


async def _post(client: ClusterClient, order: BindOrder, limit_s: float, may_write: Callable[[], bool]) -> Answer:
    """The API server is told the limit as well: it must not finish what nobody waits for."""
    return await client.call(
        "POST",
        paths.pod(order.namespace, order.name, "binding"),
        query={"timeout": f"{limit_s:.3f}s"},
        body=binding_body(order),
        timeout_s=limit_s,
        may_send=may_write,
    )


def binding_body(order: BindOrder) -> dict[str, Any]:
    """The Binding: metadata.annotations are copied to the pod in the same write that sets its node."""
    metadata: dict[str, Any] = {"name": order.name, "namespace": order.namespace, "uid": order.uid}
    if order.annotations:
        metadata["annotations"] = dict(order.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": order.node},
    }


def _is_final(answer: Answer) -> bool:
    """A refusal that looking at the pod would not explain: bad input, missing rights."""
    return 400 <= answer.status < 500 and answer.status not in (408, 409, 429)


async def _found(client: ClusterClient, order: BindOrder, text: str, limit_s: float) -> BindResult | None:
    """What the pod itself says; None when it is still to be bound and trying again makes sense."""
    try:
        pod = await look(client, order.namespace, order.name, order.uid, timeout_s=max(limit_s, _SHORTEST_CALL_S))
    except Unreachable:
        return None
    if pod is None:
        return BindResult(BindOutcome.GONE, text)
    if pod.node == order.node:
        return BindResult(BindOutcome.ALREADY_THERE)
    if pod.node:
        return BindResult(BindOutcome.ELSEWHERE, f"already assigned to node {pod.node}")
    if pod.deleting:
        return BindResult(BindOutcome.GONE, text)
    if pod.gate_index is not None:
        return BindResult(BindOutcome.RETRY, text)
    return None
