"""Usage over time as a Prometheus knows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from pydantic_core import from_json
from yarl import URL

from queues.amounts import NOTHING, Amounts
from queues.history import PPM

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 16 << 20
QUEUE_LABELS: Final = ("queue", "queue_name")
FIELDS: Final = {"gpu": "gpu_milli", "cpu": "cpu_milli", "memory": "memory_bytes"}
"""Resource label → its part of `Amounts`. Series without the label count for GPUs."""


class PrometheusError(RuntimeError):
    """No usage can be had now; the text says why."""


async def read(url: str, query: str) -> dict[str, Amounts]:
    """Queue → usage in parts per million of the capacity, from an instant query. Raises PrometheusError."""
    timeout, shown = aiohttp.ClientTimeout(total=TIMEOUT_S), _without_password(url)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{url.rstrip('/')}/api/v1/query", data={"query": query}) as response,
        ):
            body = await _body(response.content)
            status = response.status
    except (aiohttp.ClientError, OSError, ValueError) as err:
        raise PrometheusError(f"{shown} cannot be asked: {type(err).__name__} {err}".rstrip()) from None
    if len(body) > MOST_BYTES:
        raise PrometheusError(f"{shown} answers with more than {MOST_BYTES >> 20} MiB: narrow the query")
    try:
        document = from_json(body)
    except ValueError:
        raise PrometheusError(f"{shown} answers with {status} and no JSON: is it a Prometheus?") from None
    if not isinstance(document, dict) or document.get("status") != "success":
        said = document.get("error") if isinstance(document, dict) else None
        raise PrometheusError(f"{shown} refuses the query with {status}: {said or 'no reason given'}")
    return usage_of(document.get("data"))


def usage_of(data: Any) -> dict[str, Amounts]:
    """The usage in the data of an answer; series without a queue are left out. Raises PrometheusError."""
    if not isinstance(data, Mapping) or data.get("resultType") != "vector":
        raise PrometheusError("the query must give an instant vector: one number for each queue and resource")
    found: dict[str, Amounts] = {}
    try:
        for series in data["result"]:
            labels, (_, value) = series["metric"], series["value"]
            queue = next((labels[key] for key in QUEUE_LABELS if labels.get(key)), None)
            field = FIELDS.get(labels.get("resource") or "gpu")
            part = _number(value)
            if queue is not None and field is not None and part is not None:
                found[queue] = found.get(queue, NOTHING)._replace(**{field: round(part * PPM)})
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        raise PrometheusError(f"the answer has not the form of Prometheus: {type(err).__name__} {err}") from None
    return found


def _without_password(url: str) -> str:
    """The URL as it may be logged."""
    try:
        return str(URL(url).with_user(None))
    except ValueError:
        return "the URL of Prometheus"


async def _body(content: aiohttp.StreamReader) -> bytes:
    """The whole body, cut off beyond MOST_BYTES. One read gives only what has arrived."""
    parts, size = [], 0
    while size <= MOST_BYTES and (part := await content.readany()):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _number(text: Any) -> float | None:
    try:
        part = float(text)
    except (TypeError, ValueError):
        return None
    return max(part, 0.0) if math.isfinite(part) else None
