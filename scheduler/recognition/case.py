"""One pod under the eyes of recognition: its owners as far as they are known, and what is found wrong on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from scheduler.object_facts import ObjectFacts, Objects
from scheduler.pod import Owner, PodFacts
from scheduler.recognition.fields import said
from topology import vocabulary
from topology.vocabulary import Word

_LONGEST: Final = 16
"""Owners above that many are not looked for."""
JOBSET: Final = ("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SET: Final = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
RAY_CLUSTER: Final = ("ray.io", "RayCluster")
_SIGNPOSTS: Final = (
    (vocabulary.LWS_NAME, LEADER_WORKER_SET),
    (vocabulary.JOBSET_NAME, JOBSET),
    (vocabulary.RAY_CLUSTER, RAY_CLUSTER),
)
"""Labels that name an owner further up, for where the owners between are not read."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The owners of a pod, nearest first. `cut` is where the walk ended early: that owner was not found, and `absent`
    says that it does not exist (else its kind is not read).
    """

    owners: tuple[ObjectFacts, ...] = ()
    cut: Owner | None = None
    absent: bool = False

    @property
    def top(self) -> ObjectFacts | None:
        """The last owner that is known."""
        return self.owners[-1] if self.owners else None


@dataclass(frozen=True, slots=True)
class Case:
    """`warnings` and `refusals` are filled while the pod is looked at; the first refusal is told."""

    pod: PodFacts
    objects: Objects
    lineage: Lineage
    warnings: dict[str, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    def warn(self, code: str, told: str) -> None:
        """Something that is passed over; the first text of a code is kept."""
        self.warnings.setdefault(code, told)

    def refuse(self, told: str) -> None:
        """Something for which the pod may not be placed."""
        self.refusals.append(told)

    def of_owners(self, word: Word) -> str:
        """What the annotations of the highest owner say that says anything."""
        return next((found for owner in reversed(self.lineage.owners) if (found := said(owner.annotations, word))), "")

    def label_of_owners(self, word: Word) -> str:
        """The same of labels."""
        return next((found for owner in reversed(self.lineage.owners) if (found := said(owner.labels, word))), "")


def case_of(pod: PodFacts, objects: Objects) -> Case:
    """A pod with its lineage."""
    return Case(pod, objects, lineage(pod.owner, pod, objects))


def lineage(owner: Owner | None, pod: PodFacts, objects: Objects) -> Lineage:
    """The owners from `owner` on, of the namespace of the pod: an owner elsewhere is none."""
    owners: list[ObjectFacts] = []
    seen = {pod.uid}
    while owner is not None and len(owners) < _LONGEST:
        found = objects.by_uid(owner.uid) if owner.uid and owner.uid not in seen else None
        if found is not None and found.namespace not in ("", pod.namespace):
            found = None
        if found is None:
            # Pods that own pods (a Spark driver, the leader of a group) are no objects here.
            absent = owner.kind != "Pod" and objects.reads(owner.api_version.rpartition("/")[0], owner.kind)
            found = None if absent else _signposted(pod, objects, seen)
            if found is None:
                return Lineage(tuple(owners), owner, absent)
        if found.uid in seen:
            break
        seen.add(found.uid)
        owners.append(found)
        owner = found.owner
    return Lineage(tuple(owners))


def _signposted(pod: PodFacts, objects: Objects, seen: set[str]) -> ObjectFacts | None:
    for word, (group, kind) in _SIGNPOSTS:
        name = said(pod.labels, word)
        found = objects.named(group, kind, pod.namespace, name) if name else None
        if found is not None and found.uid not in seen:
            return found
    return None
