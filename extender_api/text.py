"""Words for reasons: few constant phrases for kube-scheduler, whole sentences with numbers for people.

kube-scheduler counts equal phrases over nodes and writes them on the pod; a phrase that changed with every attempt
would make the pod retry for ever. So phrases have neither numbers nor names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from extender_api import gang_text, queue_text
from scheduler.reason import Code, Reason

INTERNAL: Final = "Tangram failed to answer; its log says why"
"""Given to kube-scheduler when something unexpected happened."""
UNREADABLE: Final = "Tangram cannot read the request"
NOT_READY: Final = "Tangram is not ready"

PHRASES: Final[Mapping[Code, str]] = MappingProxyType(
    {
        Code.INVALID_REQUEST: "the pod's request contradicts itself",
        Code.HELD_BY_OTHER_GATE: "held by another scheduling gate",
        Code.NO_QUEUE: "no queue",
        Code.QUEUE_DOES_NOT_EXIST: "queue does not exist",
        Code.QUEUE_BROKEN: "queue has no way to the top",
        Code.QUEUE_NOT_A_LEAF: "queue has queues below it",
        Code.QUEUE_NOT_ALLOWED: "queue not allowed for the namespace",
        Code.QUEUE_CORDONED: "queue cordoned",
        Code.OVER_LIMIT: "over the limit of the queue",
        Code.NON_PREEMPTIBLE_OVER_QUOTA: "non-preemptible work over the quota of the queue",
        Code.BEHIND_STRICT_HEAD: "kept for what stands before in a strict queue",
        Code.RESERVED: "reserved for a workload that has waited long",
        Code.MODEL_OVER_LIMIT: "over what the queue may have of this kind of GPU",
        Code.GANG_NOT_FOUND: "its group does not exist",
        Code.GANG_INVALID: "its group contradicts itself",
        Code.GANG_INCOMPLETE: "its gang waits for more pods",
        Code.GANG_DOES_NOT_FIT: "no room for its gang",
        Code.WAITS_FOR_GANG: "goes when its gang goes",
        Code.NO_NODES: "node not known to Tangram yet",
        Code.INSUFFICIENT_CPU: "too little CPU",
        Code.INSUFFICIENT_MEMORY: "too little memory",
        Code.INSUFFICIENT_EPHEMERAL_STORAGE: "too little ephemeral storage",
        Code.TOO_MANY_PODS: "too many pods",
        Code.INSUFFICIENT_RESOURCE: "too little of an extended resource",
        Code.INSUFFICIENT_WHOLE_GPUS: "too few whole GPUs",
        Code.INSUFFICIENT_GPU_SHARE: "too little left on any one GPU",
        Code.INSUFFICIENT_GPU_MEMORY: "too little GPU memory on any one device",
        Code.NEED_DISTINCT_DEVICES: "too few different GPUs with room",
        Code.UNKNOWN_CARD_MEMORY: "GPU memory size not known",
        Code.SHARES_NOT_SUPPORTED: "node takes no GPU shares",
        Code.VIRTUAL_NODE_SHARES: "virtual node takes no GPU shares",
        Code.NODE_NOT_READY: "node not ready",
        Code.NODE_UNSCHEDULABLE: "node cordoned",
        Code.NODE_SELECTOR: "node selector does not match",
        Code.NODE_AFFINITY: "node affinity does not match",
        Code.UNTOLERATED_TAINT: "untolerated taint",
        Code.HOST_PORT_TAKEN: "host port taken",
        Code.MIG_NOT_KNOWN: "a pod there holds unknown MIG instances",
        Code.POD_AFFINITY: "pod affinity not met",
        Code.POD_ANTI_AFFINITY: "pod anti-affinity not met",
        Code.NOT_OFFERED: "ruled out by kube-scheduler",
        Code.SHARES_NEED_PLAN_MODE: "GPU shares need Tangram's plan mode",
        Code.PLANNED_ELSEWHERE: "planned on another node",
        Code.BACKING_OFF: "waiting before the next attempt",
    }
)

_MEASURES: Final = {"need": "needs", "best": "most free", "free": "most free", "have": "at most"}
"""How the first word of a number's name is said; most are said as they are."""
_MIB_BYTES: Final = 1 << 20
_UNITS: Final = frozenset({"mib", "bytes", "milli"})
"""The last word of a number's name, where it is a unit."""


def phrase(code: Code) -> str:
    """The constant phrase that kube-scheduler gets for one node."""
    return PHRASES[code]


def not_ready(why: str) -> str:
    """The error for kube-scheduler while nothing can be answered."""
    return f"{NOT_READY}: {why}"


def sentence(reason: Reason) -> str:
    """A reason for people, e.g. `no node fits: 31 nodes: too little GPU memory on any one device (needs 20,480 MiB,
    most free 12,288 MiB); 2 nodes: untolerated taint`.
    """
    if reason.code is Code.INVALID_REQUEST:
        return str(reason.numbers.get("text") or PHRASES[reason.code])
    if reason.code is Code.NO_NODES and not reason.nodes:
        return "the cluster has no nodes"
    words = queue_text.sentence(reason.code, reason.numbers) or gang_text.sentence(reason.code, reason.numbers)
    if words is not None:
        return words
    numbers = _numbers(reason)
    if not reason.nodes:
        return PHRASES[reason.code] + numbers
    counted = sorted(reason.nodes.items(), key=lambda item: (-item[1], item[0]))
    parts = [
        f"{count:,} {'node' if count == 1 else 'nodes'}: {PHRASES[code]}{numbers if code is reason.code else ''}"
        for code, count in counted
    ]
    return f"no node fits: {'; '.join(parts)}"


def reason_document(reason: Reason) -> dict[str, Any]:
    """A reason for programs: `code`, `message`, and `details` with the numbers, and the nodes by code."""
    details: dict[str, Any] = {name: value for name, value in reason.numbers.items() if name != "text"}
    if reason.nodes:
        details["nodes"] = {str(code): count for code, count in reason.nodes.items()}
    return {"code": str(reason.code), "message": sentence(reason), "details": details}


def _numbers(reason: Reason) -> str:
    said = ", ".join(_number(name, value, reason.code) for name, value in reason.numbers.items() if name != "resource")
    resource = reason.numbers.get("resource")
    said = f"{resource}: {said}" if resource and said else said or str(resource or "")
    return f" ({said})" if said else ""


def _number(name: str, value: int | str, code: Code) -> str:
    if isinstance(value, str):
        return f"{name.replace('_', ' ')} {value}"
    if name == "devices":
        return f"on {value} devices"
    first, last = name.partition("_")[0], name.rpartition("_")[2]
    words = name.removesuffix(f"_{last}") if last in _UNITS else name
    return f"{_MEASURES.get(first) or words.replace('_', ' ')} {_amount(first, last, value, code)}"


def _amount(first: str, unit: str, value: int, code: Code) -> str:
    match unit:
        case "mib":
            return f"{value:,} MiB"
        case "bytes" if abs(value) >= _MIB_BYTES:
            # what is needed must not read as less than it is, what is free not as more
            mib = -(-value // _MIB_BYTES) if first == "need" else value // _MIB_BYTES
            return f"{mib:,} MiB"
        case "bytes":
            return f"{value:,} bytes"
        case "milli":
            whole = f"{value / 1000:,.3f}".rstrip("0").rstrip(".")
            return f"{whole} cores" if code is Code.INSUFFICIENT_CPU else f"{whole} of a device"
        case _:
            return f"{value:,}"
