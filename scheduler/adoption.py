"""Pods that the API shows on a node, ours or anybody's: how what they hold gets into the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.allocation import Allocation, AllocationError, from_annotation
from scheduler.cluster import Cluster
from scheduler.pod import PodFacts
from scheduler.request import Request, RequestError, foreign_request, parse_request
from topology import vocabulary


class Adoption:
    """Counts bound pods. What the ledger wrote itself stays; a difference is reported, not followed."""

    def __init__(self, cluster: Cluster, scheduler_name: str, device_resources: Sequence[str]) -> None:
        self._cluster = cluster
        self._scheduler_name = scheduler_name
        self._device_resources = device_resources
        self.differences: dict[str, str] = {}
        """uid → how a bound pod's annotation differs from what was written; for the ops API and a metric."""

    def adopt(self, facts: PodFacts) -> None:
        """Takes a pod with a node into the ledger."""
        request = bound_request(facts, self._scheduler_name, self._device_resources)
        allocation = self._written(facts)
        entry = self._cluster.ledger.entries.get(facts.uid)
        if entry is not None and entry.node == facts.node_name:
            # what was booked there was written with the Binding, whether or not its answer has come yet
            self._compare(facts, allocation, entry.allocation)
            if entry.request == request:
                self._cluster.ledger.confirm(facts.uid)
                self._cluster.relabel(facts)
                return
            if entry.allocation.devices:
                allocation = entry.allocation
        self._cluster.adopt(facts, request, allocation)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self.differences.pop(uid, None)

    def _written(self, facts: PodFacts) -> Allocation | None:
        """The allocation that a bound pod carries, or None when it carries none that can be true."""
        try:
            return written_allocation(facts)
        except AllocationError as err:
            self.differences[facts.uid] = f"the allocation annotation is ignored: {err}"
            return None

    def _compare(self, facts: PodFacts, says: Allocation | None, wrote: Allocation) -> None:
        if wrote.devices and (says is None or says.devices != wrote.devices):
            self.differences[facts.uid] = "the allocation annotation is not what was written with the Binding"
        elif says is not None:
            self.differences.pop(facts.uid, None)


def written_allocation(pod: PodFacts) -> Allocation | None:
    """The allocation that a bound pod carries, of any backend, or None. Raises AllocationError for a false one."""
    text = pod.annotations.get(vocabulary.ALLOCATION)
    if text is None:
        return None
    allocation = from_annotation(text)
    if allocation.node != pod.node_name:
        raise AllocationError(f"it names node {allocation.node}, the pod is on {pod.node_name}")
    return allocation


def bound_request(facts: PodFacts, scheduler_name: str, device_resources: Sequence[str]) -> Request:
    """What a bound pod holds: as its author asked where it is ours and makes sense, else what any node would count."""
    if facts.scheduler_name == scheduler_name:
        try:
            return parse_request(facts, device_resources)
        except RequestError:
            pass
    return foreign_request(facts, device_resources)
