"""Why something waits or was refused: a code and numbers. Text is made at the edge (extender_api.text)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Code(StrEnum):
    """Every reason Tangram gives. The names are part of the API: they are added to, never changed."""

    # the request itself
    INVALID_REQUEST = "INVALID_REQUEST"
    HELD_BY_OTHER_GATE = "HELD_BY_OTHER_GATE"
    # the queue
    NO_QUEUE = "NO_QUEUE"
    QUEUE_DOES_NOT_EXIST = "QUEUE_DOES_NOT_EXIST"
    QUEUE_BROKEN = "QUEUE_BROKEN"
    QUEUE_NOT_A_LEAF = "QUEUE_NOT_A_LEAF"
    QUEUE_NOT_ALLOWED = "QUEUE_NOT_ALLOWED"
    QUEUE_CORDONED = "QUEUE_CORDONED"
    OVER_LIMIT = "OVER_LIMIT"
    NON_PREEMPTIBLE_OVER_QUOTA = "NON_PREEMPTIBLE_OVER_QUOTA"
    BEHIND_STRICT_HEAD = "BEHIND_STRICT_HEAD"
    """The queue is strict, and what stands before in it comes first."""
    # the gang
    GANG_NOT_FOUND = "GANG_NOT_FOUND"
    """What defines the gang does not exist (yet)."""
    GANG_INVALID = "GANG_INVALID"
    """What defines the gang contradicts itself, or the pod contradicts its gang."""
    GANG_INCOMPLETE = "GANG_INCOMPLETE"
    """Too few of its pods are there."""
    GANG_DOES_NOT_FIT = "GANG_DOES_NOT_FIT"
    """There is no place for all the pods that it needs at once."""
    WAITS_FOR_GANG = "WAITS_FOR_GANG"
    """The pod goes when its gang goes."""
    # what a node lacks
    NO_NODES = "NO_NODES"
    INSUFFICIENT_CPU = "INSUFFICIENT_CPU"
    INSUFFICIENT_MEMORY = "INSUFFICIENT_MEMORY"
    INSUFFICIENT_EPHEMERAL_STORAGE = "INSUFFICIENT_EPHEMERAL_STORAGE"
    TOO_MANY_PODS = "TOO_MANY_PODS"
    INSUFFICIENT_RESOURCE = "INSUFFICIENT_RESOURCE"
    INSUFFICIENT_WHOLE_GPUS = "INSUFFICIENT_WHOLE_GPUS"
    INSUFFICIENT_GPU_SHARE = "INSUFFICIENT_GPU_SHARE"
    INSUFFICIENT_GPU_MEMORY = "INSUFFICIENT_GPU_MEMORY"
    NEED_DISTINCT_DEVICES = "NEED_DISTINCT_DEVICES"
    UNKNOWN_CARD_MEMORY = "UNKNOWN_CARD_MEMORY"
    SHARES_NOT_SUPPORTED = "SHARES_NOT_SUPPORTED"
    VIRTUAL_NODE_SHARES = "VIRTUAL_NODE_SHARES"
    # what a node refuses
    NODE_NOT_READY = "NODE_NOT_READY"
    NODE_UNSCHEDULABLE = "NODE_UNSCHEDULABLE"
    NODE_SELECTOR = "NODE_SELECTOR"
    NODE_AFFINITY = "NODE_AFFINITY"
    UNTOLERATED_TAINT = "UNTOLERATED_TAINT"
    HOST_PORT_TAKEN = "HOST_PORT_TAKEN"
    MIG_NOT_KNOWN = "MIG_NOT_KNOWN"
    """A pod there holds MIG instances, and nobody knows which."""
    POD_AFFINITY = "POD_AFFINITY"
    POD_ANTI_AFFINITY = "POD_ANTI_AFFINITY"
    RESERVED = "RESERVED"
    """Kept for a workload that has waited for long."""
    MODEL_OVER_LIMIT = "MODEL_OVER_LIMIT"
    """The queue may not use more devices of the node's kind."""
    NOT_OFFERED = "NOT_OFFERED"
    SHARES_NEED_PLAN_MODE = "SHARES_NEED_PLAN_MODE"
    # where the way was interrupted
    PLANNED_ELSEWHERE = "PLANNED_ELSEWHERE"
    BACKING_OFF = "BACKING_OFF"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason with its numbers, e.g. `Reason(Code.INSUFFICIENT_GPU_SHARE, {"need_milli": 500, "best_milli": 300})`.

    For a workload that fits nowhere, `nodes` counts the nodes by the first reason that rules each one out.
    """

    code: Code
    numbers: Mapping[str, int | str] = field(default_factory=dict)
    nodes: Mapping[Code, int] = field(default_factory=dict)
