"""What a pod asks for, read once: node resources, and either whole devices or a share of devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from scheduler.arithmetic import asked_by, effective, is_counted, is_extended
from scheduler.pod import Container, PodFacts
from scheduler.problem import Problem, RequestError
from scheduler.share import Share, ShareWords, Warning_, share_of, warnings_of, words_of
from topology import vocabulary

__all__ = [
    "Demand",
    "Problem",
    "Request",
    "RequestError",
    "Warning_",
    "foreign_request",
    "parse_request",
    "warnings_of",
]

MAX_AMOUNT: Final = 1 << 56
"""More than any node has of anything; sums over the pods of a node stay far inside 64 bits."""


class Demand(IntEnum):
    """How a pod wants devices."""

    NONE = 0
    WHOLE = 1
    SHARE = 2


@dataclass(frozen=True, slots=True)
class Request:
    """What a pod asks for. Equal requests are interchangeable for every search.

    `extended` holds every other counted resource, sorted by name and without zeros: whole devices and MIG instances
    too. `device_resource` and `device_count` describe whole devices; with a share, `device_count` is the number of
    distinct devices, each giving `share_milli` (fraction) or `share_memory_mib` (memory), to `container`.
    """

    cpu_milli: int
    memory_bytes: int
    ephemeral_bytes: int
    extended: tuple[tuple[str, int], ...] = ()
    demand: Demand = Demand.NONE
    device_resource: str = ""
    device_count: int = 0
    share_milli: int = 0
    share_memory_mib: int = 0
    container: str = ""


def parse_request(pod: PodFacts, device_resources: Sequence[str]) -> Request:
    """The request of a pod of ours. `device_resources` are the resource names that mean whole devices.

    Raises RequestError when the pod contradicts itself; the text tells its author what to change.
    """
    for container in (*pod.init_containers, *pod.containers):
        _check_container(container)
    total = effective(pod)
    _check_totals(total)
    whole = [name for name in device_resources if total.get(name, 0) > 0]
    if len(whole) > 1:
        raise RequestError(
            Problem.TWO_DEVICE_RESOURCES,
            f"the pod asks for {' and '.join(whole)}: no node gives both to one pod, keep one of them",
            resources=", ".join(whole),
        )
    _check_annotations(pod, total)
    words = words_of(pod)
    if words.wants_share:
        _check_beside_share(pod, words, whole, total)
    share = share_of(pod, words, device_resources[0] if device_resources else "whole devices")
    return _request(total, whole, share)


def foreign_request(pod: PodFacts, device_resources: Sequence[str]) -> Request:
    """The request of a pod that is there whatever we think of it: of another scheduler, or bound already. Never raises.

    Share words count only on a bound pod that carries our allocation; elsewhere nobody honours them. What contradicts
    itself is read as the node sees it: whole devices win over a share, the first device resource over a second.
    """
    total = {name: min(max(amount, 0), MAX_AMOUNT) for name, amount in effective(pod).items()}
    whole = [name for name in device_resources if total.get(name, 0) > 0]
    share = None
    if not whole and pod.node_name is not None and vocabulary.ALLOCATION in pod.annotations:
        try:
            share = share_of(pod, words_of(pod), "")
        except RequestError:
            share = None
    return _request(total, whole, share)


def _request(total: Mapping[str, int], whole: Sequence[str], share: Share | None) -> Request:
    cpu_milli = total.get("cpu", 0)
    memory_bytes = total.get("memory", 0)
    ephemeral_bytes = total.get("ephemeral-storage", 0)
    extended = tuple(sorted((name, amount) for name, amount in total.items() if amount and is_counted(name)))
    if whole:
        return Request(
            cpu_milli,
            memory_bytes,
            ephemeral_bytes,
            extended,
            demand=Demand.WHOLE,
            device_resource=whole[0],
            device_count=total[whole[0]],
        )
    if share is None:
        return Request(cpu_milli, memory_bytes, ephemeral_bytes, extended)
    return Request(
        cpu_milli,
        memory_bytes,
        ephemeral_bytes,
        extended,
        demand=Demand.SHARE,
        device_count=share.devices,
        share_milli=share.milli,
        share_memory_mib=share.memory_mib,
        container=share.container,
    )


def _check_container(container: Container) -> None:
    """What the API server would have refused; a file given to the stateless planner may hold it."""
    for name, amount in (*container.requests.items(), *container.limits.items()):
        if amount < 0:
            raise RequestError(
                Problem.NEGATIVE_AMOUNT,
                f"container {container.name} asks for {amount} of {name}: write an amount of 0 or more",
                container=container.name,
                resource=name,
                amount=amount,
            )
    for name, amount in container.requests.items():
        limit = container.limits.get(name)
        if amount == (limit or 0) or not is_extended(name):
            continue
        if limit is None:
            raise RequestError(
                Problem.REQUEST_WITHOUT_LIMIT,
                f"container {container.name} requests {name}: {amount} without a limit: set {name}: {amount} under "
                "resources.limits (such resources need a limit, and a request is not needed beside it)",
                container=container.name,
                resource=name,
            )
        raise RequestError(
            Problem.REQUEST_NOT_LIMIT,
            f"container {container.name} requests {name}: {amount} with a limit of {limit}: make them equal or remove "
            "the request",
            container=container.name,
            resource=name,
        )


def _check_totals(total: Mapping[str, int]) -> None:
    for name, amount in total.items():
        if amount < 0:
            raise RequestError(
                Problem.NEGATIVE_AMOUNT,
                f"the pod asks for {amount} of {name}: write an amount of 0 or more",
                resource=name,
                amount=amount,
            )
        if amount > MAX_AMOUNT:
            raise RequestError(
                Problem.AMOUNT_TOO_LARGE,
                f"the pod asks for {amount} of {name}, more than any node has: write a smaller amount",
                resource=name,
                amount=amount,
            )


def _check_annotations(pod: PodFacts, total: Mapping[str, int]) -> None:
    """An old way to ask for MIG instances, by annotation: no device plugin would hand any out."""
    key = next((key for key in sorted(pod.annotations) if _is_mig(key) and not total.get(key)), None)
    if key is not None:
        raise RequestError(
            Problem.MIG_ANNOTATION,
            f"annotation {key} gives no MIG instance: ask for it as {key} under resources.limits",
            annotation=key,
        )


def _check_beside_share(pod: PodFacts, words: ShareWords, whole: Sequence[str], total: Mapping[str, int]) -> None:
    """A share stands alone: the device plugin would hand out whole devices or MIG instances beside it."""
    if whole:
        fraction = words.fraction is not None
        where = _where(pod, whole[0])
        raise RequestError(
            Problem.FRACTION_WITH_WHOLE_DEVICES if fraction else Problem.MEMORY_WITH_WHOLE_DEVICES,
            f"the pod asks for {words.asking} and for whole devices, {where}: remove {whole[0]} to get the share, or "
            "the annotation to get whole devices",
            resource=whole[0],
            amount=total[whole[0]],
        )
    mig = sorted(name for name, amount in total.items() if amount and _is_mig(name))
    if mig:
        raise RequestError(
            Problem.SHARE_WITH_MIG,
            f"the pod asks for {words.asking} and for MIG instances, {_where(pod, mig[0])}: remove {mig[0]} to get "
            "the share, or the annotation to get the instances",
            resource=mig[0],
            amount=total[mig[0]],
        )


def _where(pod: PodFacts, resource: str) -> str:
    """`resource: amount in container name` for the first container that asks for it."""
    for container in (*pod.containers, *pod.init_containers):
        amount = asked_by(container).get(resource, 0)
        if amount:
            return f"{resource}: {amount} in container {container.name}"
    return resource


def _is_mig(resource: str) -> bool:
    return resource.startswith(vocabulary.MIG_RESOURCE_PREFIX)
