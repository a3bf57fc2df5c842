"""Queues and their pods for tests of the engine, and a world in which exposed pods lose their gate, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from queues.amounts import UNLIMITED
from queues.spec import QueueSpec, Terms
from scheduler.claim import ClaimRules
from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.instruction import Expose, Instruction, Release, Tell
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy
from scheduler.reason import Reason
from tests.engine.world import World
from topology import vocabulary
from topology.inventory import InventorySettings

DEVICE = 1000
ENDLESS = Terms(UNLIMITED)


def devices(quota: float = 0, limit: float | None = None, weight: float = 1) -> Terms:
    """Terms in whole devices (or parts of them)."""
    most = UNLIMITED if limit is None else round(limit * DEVICE)
    return Terms(UNLIMITED if quota == UNLIMITED else round(quota * DEVICE), most, round(weight * DEVICE))


def queue(
    name: str,
    parent: str | None = None,
    *,
    quota: float = 0,
    limit: float | None = None,
    weight: float = 1,
    models: Mapping[str, Terms] | None = None,
    **other: Any,
) -> QueueSpec:
    """A queue that speaks of devices; of CPU and memory it has a quota without end unless `other` says otherwise."""
    said = {"cpu": ENDLESS, "memory": ENDLESS, "gpu": devices(quota, limit, weight), **other}
    return QueueSpec(name, parent, models=dict(models or {}), **said)


def in_queue(name: str, facts: PodFacts, *, namespace: str | None = None, fixed: bool = False) -> PodFacts:
    """The pod with the queue's label; `fixed` work may not be asked to give way."""
    labels = {**facts.labels, vocabulary.QUEUE.key: name}
    if fixed:
        labels[vocabulary.PREEMPTIBILITY.key] = vocabulary.NON_PREEMPTIBLE
    return replace(facts, labels=labels, namespace=namespace or facts.namespace)


def engine(rules: ClaimRules | None = None, **settings: Any) -> Engine:
    """An engine with an empty cluster."""
    cluster = Cluster(inventory=InventorySettings(), policy=PlacementPolicy(), rules=rules)
    return Engine(cluster, EngineSettings(**settings))


class QueuedWorld(World):
    """The truth in the API; exposed pods are released like planned ones, and kube-scheduler filters by resources."""

    def set_queues(self, *specs: QueueSpec) -> None:
        """All queues there are."""
        self.engine.set_queues(specs, self.now_ms)

    def plan(self) -> list[Instruction]:
        done = super().plan()
        for instruction in done:
            if isinstance(instruction, Expose):
                self.release(instruction.uid)
                self.show(instruction.uid)
        return done

    def fits_in_tree(self, facts: PodFacts) -> list[str]:
        """The nodes that kube-scheduler's own resource filter leaves to the pod, by what pods on nodes request."""
        wanted = _requests(facts)
        found = []
        for name, at in sorted(self.nodes.items()):
            here = [_requests(other) for other in self.pods.values() if other.node_name == name]
            used = {resource: sum(one.get(resource, 0) for one in here) for resource in wanted}
            enough = all(at.allocatable.get(key, 0) - used[key] >= amount for key, amount in wanted.items() if amount)
            if enough and at.ready and not at.unschedulable:
                found.append(name)
        return found

    def schedule(self, uid: str, offered: Iterable[str] | None = None) -> str | None:
        """As in `World`, but kube-scheduler asks no extender about a pod that its own filters leave no node."""
        names = self.fits_in_tree(self.pods[uid]) if offered is None else list(offered)
        return super().schedule(uid, names) if names else None

    def end(self, *names: str) -> None:
        """The pods have done their work."""
        for name in names:
            facts = self.pods.pop(f"uid-{name}")
            self.engine.apply_pod(replace(facts, phase="Succeeded"), self.now_ms)

    def relabel(self, name: str, **labels: str | None) -> None:
        """Somebody writes labels of the queue's vocabulary (`queue`, `preemptibility`) on the pod; None takes away."""
        facts = self.pods[f"uid-{name}"]
        changed = dict(facts.labels)
        for word, value in labels.items():
            key = {"queue": vocabulary.QUEUE.key, "preemptibility": vocabulary.PREEMPTIBILITY.key}[word]
            changed.pop(key, None)
            if value is not None:
                changed[key] = value
        self.create(replace(facts, labels=changed))

    def reason(self, name: str) -> Reason:
        """Why the waiting pod has no place as things are."""
        record = self.engine.roster.records[f"uid-{name}"]
        found = self.engine.why(record, self.now_ms) if f"uid-{name}" in self.engine.roster.waiting else record.reason
        assert found is not None, f"{name} does not wait"
        return found

    def told(self) -> dict[str, str]:
        """Pod name → the code it was told last."""
        return {said.name: said.reason.code.value for said in self.said if isinstance(said, Tell)}

    def running(self, label: str | None = None) -> set[str]:
        """Names of the pods on nodes, of one queue or of all."""
        return {
            facts.name
            for facts in self.pods.values()
            if facts.node_name is not None
            and not facts.finished
            and label in (None, facts.labels.get(vocabulary.QUEUE.key))
        }


def _requests(facts: PodFacts) -> dict[str, int]:
    """What the containers of a pod request together, and 1 of `pods`."""
    found = {"pods": 1}
    for container in facts.containers:
        for resource, amount in container.requests.items():
            found[resource] = found.get(resource, 0) + amount
    return found


def released(said: list[Instruction]) -> list[str]:
    """Names of the pods that were released for a plan, in that order."""
    return [item.name for item in said if isinstance(item, Release)]


def exposed(said: list[Instruction]) -> list[str]:
    """Names of the pods that were released for an autoscaler to see."""
    return [item.name for item in said if isinstance(item, Expose)]
