"""Calls to the API server as the metrics name them: by what they are for, not by URL."""

from __future__ import annotations

from typing import Final

from extender_api import metrics
from extender_api.cluster.client import PatchKind

NO_ANSWER: Final = "none"
"""In the place of a status code, where there was no answer."""


def count(method: str, path: str, content_type: str, status: int) -> None:
    """One call, for `ClusterClient.on_call`."""
    metrics.count_api_call(name_of(method, path, content_type), status or NO_ANSWER)


def name_of(method: str, path: str, content_type: str) -> str:
    """What a call is for: bind, ungate, nominate, message, event; else the verb and the resource, e.g. watch_pods."""
    resource, name, subresource = _parts(path)
    match method, resource, subresource:
        case "POST", "pods", "binding":
            return "bind"
        case "PATCH", "pods", "":
            return "ungate"
        case "PATCH", "pods", "status":
            return "nominate" if content_type == PatchKind.MERGE else "message"
        case "POST", "events", _:
            return "event"
        case "GET", _, _:
            return f"{'get' if name else 'list'}_{resource}"
        case _:
            return f"{method.lower()}_{resource}"


def _parts(path: str) -> tuple[str, str, str]:
    """Resource, name and subresource of /api/v1/… or /apis/GROUP/VERSION/…, "" for what is not there.

    A proxy before the API server may put something before that.
    """
    parts = path.strip("/").split("/")
    start = next((place for place, part in enumerate(parts) if part in ("api", "apis")), len(parts))
    parts = parts[start:]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    resource, name, subresource = (*parts, "", "", "")[:3]
    return resource or "other", name, subresource
