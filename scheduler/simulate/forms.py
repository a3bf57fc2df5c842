"""What pods of a scenario ask for, read once for pods that share what it is read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.constraints import Constraints, constraints_of
from scheduler.packing.learner import gpu_milli_of
from scheduler.pod import PodFacts
from scheduler.request import Request, RequestError, parse_request


class PodForm(NamedTuple):
    """A pod as the search sees it. `request` None: it contradicts itself, and never gets a place."""

    request: Request | None
    constraints: Constraints
    gpu_milli: int
    devices: int


class PodForms:
    """Forms of pods. Inputs make thousands of pods from few templates, which share their containers and rules."""

    def __init__(self, device_resources: Sequence[str]) -> None:
        self._device_resources = device_resources
        self._known: dict[tuple[int, ...], PodForm] = {}
        self._kept: list[PodFacts] = []
        """Pods that were read, so that nothing else gets the identity of what they hold."""

    def of(self, pod: PodFacts) -> PodForm:
        """The form of a pod."""
        key = _identity(pod)
        found = self._known.get(key)
        if found is None:
            self._kept.append(pod)
            found = self._known[key] = self._read(pod)
        return found

    def _read(self, pod: PodFacts) -> PodForm:
        constraints = constraints_of(pod)
        try:
            request = parse_request(pod, self._device_resources)
        except RequestError:
            return PodForm(None, constraints, 0, 0)
        return PodForm(request, constraints, gpu_milli_of(request), request.device_count)


def _identity(pod: PodFacts) -> tuple[int, ...]:
    """All that a form is read from, by identity; what is empty is alike."""
    parts = (
        pod.containers,
        pod.init_containers,
        pod.annotations,
        pod.overhead,
        pod.pod_requests,
        pod.pod_limits,
        pod.node_selector,
        pod.tolerations,
    )
    affinity = 0 if pod.node_affinity is None else id(pod.node_affinity)
    return (affinity, *[id(part) if part else 0 for part in parts])
