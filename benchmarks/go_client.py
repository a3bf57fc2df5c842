"""Calls an extender as kube-scheduler does, and measures: Go's connection habits, Go's key order.

One `filter` or `prioritize` at a time; any number of `bind` calls at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from extender_api.demo.transport import Answer, Transport, TransportError

_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class CallError(RuntimeError):
    """A call failed or was answered with an error, so its time means nothing."""


def go_json(value: Any) -> bytes:
    """JSON as Go's json.Marshal writes it: no blanks, UTF-8, HTML characters escaped.

    Keys keep the order they have in `value`; Go sorts the keys of maps, so give labels and annotations
    sorted.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPES).encode()


def node_names(count: int) -> list[str]:
    """Names as long as cloud providers make them (28 bytes)."""
    return [f"gpu-pool-a100-europe-{number:07d}" for number in range(count)]


def args_body(pod: dict[str, Any], names: Sequence[str]) -> bytes:
    """ExtenderArgs for filter and prioritize with node names only."""
    return go_json({"Pod": pod, "Nodes": None, "NodeNames": list(names)})


def bind_body(name: str, namespace: str, uid: str, node: str) -> bytes:
    """ExtenderBindingArgs."""
    return go_json({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


async def timed(transport: Transport, path: str, body: bytes) -> tuple[float, Answer]:
    """Seconds and answer of one call. Raises CallError unless the status is 200."""
    start = time.perf_counter()
    try:
        answer = await transport.post(path, body)
    except TransportError as err:
        raise CallError(f"{path}: {err}") from err
    seconds = time.perf_counter() - start
    if answer.status != 200:
        raise CallError(f"{path}: status {answer.status}")
    return seconds, answer


async def serially(transport: Transport, path: str, bodies: Iterable[bytes]) -> list[tuple[float, Answer]]:
    """One call after the other, as the scheduling goroutine does."""
    return [await timed(transport, path, body) for body in bodies]


async def at_once(transport: Transport, path: str, bodies: Iterable[bytes]) -> list[tuple[float, Answer]]:
    """All calls at the same time, as binding goroutines do."""
    return await asyncio.gather(*(timed(transport, path, body) for body in bodies))
