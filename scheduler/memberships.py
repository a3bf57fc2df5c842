"""To which gang each pod belongs, found out once and again when an object that says so changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scheduler.gang_spec import GangKey, GangSpec
from scheduler.membership import ALONE, Membership
from scheduler.object_facts import ObjectFacts, Objects
from scheduler.pod import PodFacts

Recognise = Callable[[PodFacts, Objects], Membership]
Sought = tuple[str, ...]
"""What was looked for: a uid, or API group, kind, namespace and name."""


class _Tracer:
    """Objects that note what was looked for."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.sought: set[Sought] = set()

    def by_uid(self, uid: str) -> ObjectFacts | None:
        self.sought.add((uid,))
        return self._objects.by_uid(uid)

    def named(self, group: str, kind: str, namespace: str, name: str) -> ObjectFacts | None:
        self.sought.add((group, kind, namespace, name))
        return self._objects.named(group, kind, namespace, name)

    def reads(self, group: str, kind: str) -> bool:
        return self._objects.reads(group, kind)


class Memberships:
    """Memberships by uid."""

    def __init__(self, objects: Objects, recognise: Recognise) -> None:
        self._objects = objects
        self._recognise = recognise
        self._of: dict[str, Membership] = {}
        self._clues: dict[str, tuple[object, ...]] = {}
        """What of a pod its membership follows from, beside the objects."""
        self._changed: dict[str, bool] = {}
        """Pods of which an object has changed since; whether only in its spec or status."""
        self._renewed: dict[GangKey, tuple[GangSpec, GangSpec]] = {}
        """Trees before and after the last change of an object, of gangs of which one member has been looked at."""
        self._sought: dict[str, set[Sought]] = {}
        self._seekers: dict[Sought, set[str]] = {}

    def of(self, uid: str) -> Membership:
        """What was found out about a pod last."""
        return self._of.get(uid, ALONE)

    def put(self, uid: str, membership: Membership) -> None:
        """The same membership with the tree that all of the gang share."""
        self._of[uid] = membership

    def find(self, pod: PodFacts) -> Membership:
        """Where the pod belongs now."""
        clues = (pod.labels, pod.annotations, pod.owner, pod.scheduling_group, pod.workload_ref)
        same_pod, counts_only = self._clues.get(pod.uid) == clues, self._changed.pop(pod.uid, None)
        self._clues[pod.uid] = clues
        if not same_pod or (counts_only is not None and not (counts_only and self._renew(pod.uid))):
            self._find_anew(pod, counts_only=same_pod and counts_only is True)
        return self._of[pod.uid]

    def find_passing(self, pod: PodFacts) -> Membership:
        """The same of a pod that is not kept."""
        return self._recognise(pod, self._objects)

    def _find_anew(self, pod: PodFacts, *, counts_only: bool) -> None:
        tracer, old = _Tracer(self._objects), self._of.get(pod.uid)
        new = self._of[pod.uid] = self._recognise(pod, tracer)
        self._seek(pod.uid, tracer.sought)
        if not counts_only or old is None or new.gang is None or old.spec is None or new.spec is None:
            return
        leaves = [[leaf.name for leaf in spec.root.leaves()] for spec in (old.spec, new.spec)]
        if replace(old, spec=new.spec) == new and leaves[0] == leaves[1]:
            self._renewed[new.gang] = (old.spec, new.spec)

    def _renew(self, uid: str) -> bool:
        """Gives the pod the new tree of its gang, where one member was found to have changed in nothing else."""
        found = self._of[uid]
        before, after = (None, None) if found.gang is None else self._renewed.get(found.gang, (None, None))
        if after is None or found.spec is not before:
            return False
        self._of[uid] = replace(found, spec=after)
        return True

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._of.pop(uid, None)
        self._clues.pop(uid, None)
        self._changed.pop(uid, None)
        self._seek(uid, set())

    def concerned(self, old: ObjectFacts | None, new: ObjectFacts | None) -> list[str]:
        """The pods that looked for an object that came, changed or went. They are to be looked at again."""
        found: set[str] = set()
        for facts in (old, new):
            if facts is not None:
                found |= self._seekers.get((facts.uid,), set())
                found |= self._seekers.get((facts.group, facts.kind, facts.namespace, facts.name), set())
        counts_only = old is not None and new is not None and _words(old) == _words(new)
        self._renewed.clear()
        for uid in found:
            self._changed[uid] = counts_only and self._changed.get(uid, True)
        return sorted(found)

    def _seek(self, uid: str, sought: set[Sought]) -> None:
        old = self._sought.get(uid, set())
        for key in old - sought:
            self._seekers[key].discard(uid)
            if not self._seekers[key]:
                del self._seekers[key]
        for key in sought - old:
            self._seekers.setdefault(key, set()).add(uid)
        if sought:
            self._sought[uid] = sought
        else:
            self._sought.pop(uid, None)


def _words(facts: ObjectFacts) -> tuple[object, ...]:
    return facts.labels, facts.annotations, facts.owner
