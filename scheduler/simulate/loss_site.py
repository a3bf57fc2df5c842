"""A cluster at which a job that finds no place is lost: each decides at once, and nothing waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from scheduler import placement
from scheduler.cluster import Cluster
from scheduler.constraints import Constraints
from scheduler.packing.refresh import Refresh, learner_of, teach
from scheduler.pod import PodFacts
from scheduler.policy import Policy
from scheduler.request import Request, foreign_request
from scheduler.room import Form
from scheduler.simulate.forms import PodForms
from scheduler.simulate.result import Place
from scheduler.simulate.scenario import Job, Scenario
from scheduler.simulate.site import Started


class LossSite:
    """Places pods by `Cluster.place` and books them, as a planning round does for one pod.

    `candidates` is how many feasible nodes are seen (None: all): they are taken in the order of names, beginning behind
    the last one looked at, as kube-scheduler samples nodes.
    """

    def __init__(self, scenario: Scenario, policy: Policy, candidates: int | None, forms: PodForms) -> None:
        self.cluster = Cluster(inventory=scenario.inventory, policy=policy)
        self._nodes = {facts.name: facts for facts in scenario.nodes}
        for facts in scenario.nodes:
            self.cluster.set_node(facts)
        for name, labels in scenario.namespaces.items():
            self.cluster.set_namespace(name, labels)
        for pod in scenario.residents:
            self.cluster.adopt(pod, foreign_request(pod, scenario.inventory.device_resources), None)
        self._candidates = candidates
        self._begin = 0
        self._running: dict[str, Job] = {}
        self._started: list[Started] = []
        self._forms = forms
        self.allocated_gpu_milli = 0
        self._refresh = Refresh(self.cluster) if scenario.mix is None else None
        if scenario.mix is not None:
            teach(self.cluster.state, scenario.mix)

    def arrive(self, job: Job, now_ms: int) -> bool:
        """See `Site.arrive`. A job of several pods is placed whole or lost whole."""
        self._learn(job, now_ms)
        places: list[Place] = []
        for count, pod in enumerate(job.pods):
            place = self._place(pod)
            if place is None:
                for placed in job.pods[:count]:
                    self._release(placed)
                self._forget(job, ran=False)
                return False
            places.append(place)
        self._running[job.name] = job
        self._started.append(Started(job, tuple(places)))
        return True

    def end(self, job: Job, now_ms: int) -> None:
        """See `Site.end`."""
        del self._running[job.name]
        for pod in job.pods:
            self._release(pod)
        self._forget(job, ran=True)

    def fail(self, node: str, now_ms: int) -> Iterable[Job]:
        """See `Site.fail`. The jobs that stood there are lost."""
        entries = {entry.uid for entry in self.cluster.ledger.on_node(node)}
        stopped = [job for job in self._running.values() if any(pod.uid in entries for pod in job.pods)]
        for job in stopped:
            self.end(job, now_ms)
        self.cluster.remove_node(node)
        return stopped

    def recover(self, node: str, now_ms: int) -> None:
        """See `Site.recover`."""
        self.cluster.set_node(self._nodes[node])

    def settle(self, now_ms: int) -> Iterator[Started]:
        """See `Site.settle`."""
        started, self._started = self._started, []
        yield from started

    def next_ms(self, now_ms: int) -> int | None:
        """See `Site.next_ms`. Nothing waits."""
        return None

    def reasons(self, now_ms: int) -> dict[str, str]:
        """See `Site.reasons`. Nothing waits."""
        return {}

    def usage_by_queue(self) -> dict[str, int]:
        """See `Site.usage_by_queue`. There are no queues."""
        return {}

    def _learn(self, job: Job, now_ms: int) -> None:
        if self._refresh is None or learner_of(self.cluster.state.policy) is None:
            return
        self._refresh.at_once(now_ms)
        for pod in job.pods:
            form = self._forms.of(pod)
            self._refresh.learner.came(pod.uid, Form(form.request, form.constraints))

    def _forget(self, job: Job, *, ran: bool) -> None:
        if self._refresh is not None:
            for pod in job.pods:
                self._refresh.learner.gone(pod.uid, ran=ran)

    def _place(self, pod: PodFacts) -> Place | None:
        request, constraints, gpu_milli, _ = self._forms.of(pod)
        if request is None:
            return None
        left = None if self._candidates is None else self._sample(pod, request, constraints, self._candidates)
        allocation = self.cluster.place(pod, request, constraints, left=left)
        if allocation is None:
            return None
        self.cluster.book(pod, request, allocation, None)
        self.allocated_gpu_milli += gpu_milli
        return Place(pod.name, allocation.node, allocation.devices)

    def _release(self, pod: PodFacts) -> None:
        self.cluster.release(pod.uid)
        self.allocated_gpu_milli -= self._forms.of(pod).gpu_milli

    def _sample(self, pod: PodFacts, request: Request, constraints: Constraints, count: int) -> NDArray[np.bool_]:
        """bool[slots]: the next `count` feasible nodes in the cyclic order of names."""
        state = self.cluster.state
        fits = placement.fits(state, request, self.cluster.mask(pod, constraints))
        ranks = state.arrays.rank[: fits.size]
        order = np.argsort(ranks, kind="stable")
        cyclic = np.roll(order, -self._begin)
        feasible = np.flatnonzero(fits[cyclic])[:count]
        sampled = np.zeros(fits.size, np.bool_)
        sampled[cyclic[feasible]] = True
        looked_at = int(feasible[-1]) + 1 if feasible.size == count else fits.size
        self._begin = (self._begin + looked_at) % max(fits.size, 1)
        return sampled
