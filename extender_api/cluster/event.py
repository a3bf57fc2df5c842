"""Events of the group events.k8s.io/v1 about pods."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any, Final

CONTROLLER: Final = "tangram.scheduler"
NOTE_BYTES: Final = 1024
_NAME: Final = 220


def event_body(
    *,
    namespace: str,
    pod: str,
    uid: str,
    reason: str,
    note: str,
    warning: bool,
    action: str,
    instance: str,
    now_ms: int,
) -> dict[str, Any]:
    """An event about a pod. `reason` is a code such as INSUFFICIENT_CPU, shown as InsufficientCpu."""
    time = datetime.fromtimestamp(now_ms // 1000, UTC).replace(microsecond=now_ms % 1000 * 1000)
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod[:_NAME].rstrip('-.')}.{secrets.token_hex(8)}", "namespace": namespace},
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": "Warning" if warning else "Normal",
        "reason": camel(reason),
        "action": action,
        "note": clipped(note),
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod, "uid": uid},
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128] or CONTROLLER,
    }


def camel(code: str) -> str:
    """INSUFFICIENT_GPU_SHARE → InsufficientGpuShare, as event reasons are written."""
    return "".join(word.capitalize() for word in code.split("_"))


def clipped(note: str) -> str:
    """At most 1,024 bytes, cut between characters."""
    data = note.encode()
    if len(data) <= NOTE_BYTES:
        return note
    mark = "…"
    return data[: NOTE_BYTES - len(mark.encode())].decode(errors="ignore") + mark
