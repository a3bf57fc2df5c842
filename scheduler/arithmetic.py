"""What a pod occupies on its node: Kubernetes' own arithmetic over containers, sidecars, overhead and pod level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.pod import Container, PodFacts

HUGEPAGES_PREFIX: Final = "hugepages-"
_POD_LEVEL: Final = ("cpu", "memory")
_NATIVE: Final = "kubernetes.io/"


def effective(pod: PodFacts) -> dict[str, int]:
    """Resource name → amount that kube-scheduler counts for the pod; units as in `Container`.

    App containers run together, so they add up. Init containers run one after the other beside the sidecars that
    were started before them, so only the highest of those moments counts. The pod level, where set, replaces the
    containers' cpu, memory and hugepages; overhead comes on top.
    """
    total: dict[str, int] = {}
    for container in pod.containers:
        _add(total, asked_by(container))
    if pod.init_containers:
        _start_up(pod, total)
    if pod.pod_requests or pod.pod_limits:
        total |= _pod_level(pod, total)
    _add(total, pod.overhead)
    return total


def asked_by(container: Container) -> Mapping[str, int]:
    """The container's requests; a limit stands in for a request that is missing, as the API server has it."""
    if not container.limits:
        return container.requests
    return {**container.limits, **container.requests}


def is_counted(resource: str) -> bool:
    """Whether kube-scheduler counts the resource besides cpu, memory, storage and pods; other names mean nothing."""
    if is_extended(resource):
        return True
    return _NATIVE in resource or resource.startswith((HUGEPAGES_PREFIX, "attachable-volumes-"))


def is_extended(resource: str) -> bool:
    """Whether the API server takes the resource only whole and with a limit that equals the request."""
    return "/" in resource and _NATIVE not in resource and not resource.startswith("requests.")


def _start_up(pod: PodFacts, total: dict[str, int]) -> None:
    """Adds the sidecars to `total` and raises it to the highest moment of the start."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.init_containers:
        asked = asked_by(container)
        if container.restartable:
            _add(total, asked)
            _add(sidecars, asked)
            _raise_to(peak, sidecars)
        else:
            moment = dict(sidecars)
            _add(moment, asked)
            _raise_to(peak, moment)
    _raise_to(total, peak)


def _pod_level(pod: PodFacts, containers: Mapping[str, int]) -> dict[str, int]:
    """The pod-level requests after the API server's defaulting.

    A missing request of cpu or memory is what the containers ask for, and only without any of those the pod-level
    limit; hugepages cannot be overcommitted, so there the limit is the request.
    """
    found = {name: amount for name, amount in pod.pod_requests.items() if _has_pod_level(name)}
    for name, limit in pod.pod_limits.items():
        missing = name not in found and (name not in containers or name.startswith(HUGEPAGES_PREFIX))
        if missing and _has_pod_level(name):
            found[name] = limit
    return found


def _has_pod_level(resource: str) -> bool:
    return resource in _POD_LEVEL or resource.startswith(HUGEPAGES_PREFIX)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, amount - 1):
            total[name] = amount
