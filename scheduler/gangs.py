"""All gangs: who is in which, and whom a change of an owner or a group concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from scheduler import claim
from scheduler.gang import Gang, age, smallest
from scheduler.gang_spec import GangKey, GangSpec
from scheduler.membership import ALONE, Membership
from scheduler.object_facts import ObjectFacts, Objects
from scheduler.pod import PodFacts
from scheduler.record import PodRecord, Stage
from topology import vocabulary

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


class Gangs:
    """Gangs by key. A gang exists while it has members; `touched` are those of which something changed."""

    def __init__(self, objects: Objects, recognise: Recognise) -> None:
        self._objects = objects
        self._recognise = recognise
        self._memberships: dict[str, Membership] = {}
        self._clues: dict[str, tuple[object, ...]] = {}
        """What of a pod its membership follows from, beside the objects."""
        self._changed: dict[str, bool] = {}
        """Pods of which an object has changed since; whether only in its spec or status."""
        self._renewed: dict[GangKey, tuple[GangSpec, GangSpec]] = {}
        """Trees before and after the last change of an object, of gangs of which one member has been looked at."""
        self._sought: dict[str, set[Sought]] = {}
        self._seekers: dict[Sought, set[str]] = {}
        self.by_key: dict[GangKey, Gang] = {}
        self.touched: dict[GangKey, None] = {}
        self._over: set[str] = set()
        """Pods that have ended and are still in the API."""
        self._ended_unseen: dict[str, PodFacts] = {}
        """Those of them that ended before anybody here had seen them, not yet counted."""

    def __iter__(self) -> Iterator[Gang]:
        return iter(self.by_key.values())

    # -- recognition -------------------------------------------------------------------------------------------------

    def look(self, pod: PodFacts) -> PodFacts:
        """Finds out where the pod belongs; returns its facts with what its group and owner say of it."""
        clues = (pod.labels, pod.annotations, pod.owner, pod.scheduling_group, pod.workload_ref)
        same_pod, counts_only = self._clues.get(pod.uid) == clues, self._changed.pop(pod.uid, None)
        self._clues[pod.uid] = clues
        if not same_pod or (counts_only is not None and not (counts_only and self._renew(pod.uid))):
            self._recognise_anew(pod, counts_only=same_pod and counts_only is True)
        found = self._memberships[pod.uid]
        of_group = None if found.spec is None else found.spec.queue
        said = (of_group or self._queue_of_gang(pod, found) or found.queue, found.preemptible)
        if said != (pod.group_queue, pod.group_preemptible):
            pod = replace(pod, group_queue=said[0], group_preemptible=said[1])
        if found.priority_class in vocabulary.PRIORITIES and not pod.priority_class:
            priority_class = str(found.priority_class)
            pod = replace(pod, priority_class=priority_class, priority=vocabulary.PRIORITIES[priority_class])
        return pod

    def _recognise_anew(self, pod: PodFacts, *, counts_only: bool) -> None:
        tracer, old = _Tracer(self._objects), self._memberships.get(pod.uid)
        new = self._memberships[pod.uid] = self._recognise(pod, tracer)
        self._seek(pod.uid, tracer.sought)
        if not counts_only or old is None or new.gang is None or old.spec is None or new.spec is None:
            return
        leaves = [[leaf.name for leaf in spec.root.leaves()] for spec in (old.spec, new.spec)]
        if replace(old, spec=new.spec) == new and leaves[0] == leaves[1]:
            self._renewed[new.gang] = (old.spec, new.spec)

    def _renew(self, uid: str) -> bool:
        """Gives the pod the new tree of its gang, where one member was found to have changed in nothing else."""
        found = self._memberships[uid]
        before, after = (None, None) if found.gang is None else self._renewed.get(found.gang, (None, None))
        if after is None or found.spec is not before:
            return False
        self._memberships[uid] = replace(found, spec=after)
        return True

    def _queue_of_gang(self, pod: PodFacts, found: Membership) -> str | None:
        """Where its group says nothing, a gang is in the queue of its oldest member, whose owner or label decides."""
        gang = None if found.gang is None else self.by_key.get(found.gang)
        oldest = None if gang is None else gang.oldest
        if oldest is None or age(pod) <= age(oldest.facts):
            return None
        return _queue(oldest)

    def in_other_queues(self, gang: Gang) -> list[PodRecord]:
        """The members that stand elsewhere than the oldest says, who says something."""
        assert gang.oldest is not None
        queue = _queue(gang.oldest)
        return [one for one in gang.members.values() if _queue(one) != queue] if queue else []

    def membership(self, uid: str) -> Membership:
        """What was found out about a pod last."""
        return self._memberships.get(uid, ALONE)

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

    # -- who is in which ---------------------------------------------------------------------------------------------

    def join(self, record: PodRecord) -> bool:
        """Puts the record into the gang of its membership. Whether that, or the gang's spec, is another than before.

        A pod of a gang that needs no other pods, and of which nobody has to be near anybody, goes alone.
        """
        found = self.membership(record.uid)
        moved = record.membership != found
        key = None if found.problem or _goes_alone(found.spec) else found.gang
        if record.gang is not None and record.gang.key != key:
            self._part(record, ended=False)
        record.membership = found
        if key is None:
            return moved
        gang = self.by_key.setdefault(key, Gang(key))
        # of some kinds not every pod describes the gang
        spec = found.spec or next((one.membership.spec for one in gang.members.values() if one.membership.spec), None)
        changed = (gang.spec, gang.missing) != (spec, found.missing)
        gang.spec, gang.missing = gang.spec if gang.spec == spec else spec, found.missing
        if found.spec is not None:  # one tree for all of them
            record.membership = self._memberships[record.uid] = replace(found, spec=gang.spec)
        if record.gang is None:
            record.gang = gang
            gang.add(record)
            moved = True
        if moved or changed:
            self.touch(gang)
        return moved or changed

    def leave(self, record: PodRecord, *, ended: bool) -> None:
        """The pod is gone; `ended`: it ran to its end."""
        self._part(record, ended=ended)
        self._memberships.pop(record.uid, None)
        self._clues.pop(record.uid, None)
        self._changed.pop(record.uid, None)
        self._seek(record.uid, set())

    def ended(self, uid: str) -> None:
        """A member that nobody has seen before ran to its end."""
        found = self.membership(uid)
        if found.gang is not None and not _goes_alone(found.spec):
            _count_ended(self.by_key.setdefault(found.gang, Gang(found.gang, found.spec, found.missing)), found.leaf)

    def over(self, pod: PodFacts, *, unseen: bool) -> None:
        """The API shows a pod that has ended; `unseen`: nobody here knew it before, after a restart."""
        if unseen and pod.uid not in self._over and pod.phase == "Succeeded" and pod.deleted_ms is None:
            self._ended_unseen[pod.uid] = pod
        self._over.add(pod.uid)

    def gone(self, uid: str) -> None:
        """The pod is not in the API any more."""
        self._over.discard(uid)
        self._ended_unseen.pop(uid, None)

    def count_unseen(self) -> list[Gang]:
        """Counts those that ended unseen, once the other pods are known. Returns the gangs they are of.

        One may be left of an earlier gang of that name: it counts for a gang that runs, and for pods of its own owner.
        """
        unseen, self._ended_unseen = self._ended_unseen, {}
        counted = []
        for pod in unseen.values():
            found = self._recognise(pod, self._objects)
            gang = None if found.gang is None else self.by_key.get(found.gang)
            if gang is None:
                continue
            if any(one.stage is Stage.BOUND or one.facts.owner == pod.owner for one in gang.members.values()):
                _count_ended(gang, found.leaf)
                self.touch(gang)
                counted.append(gang)
        return counted

    def touch(self, gang: Gang) -> None:
        """Something about the gang changed: it has to be looked at."""
        self.touched[gang.key] = None

    def _part(self, record: PodRecord, *, ended: bool) -> None:
        gang, record.gang = record.gang, None
        if gang is None:
            return
        gang.remove(record.uid, ended=ended)
        self.touch(gang)
        if not gang.members:
            self.by_key.pop(gang.key, None)


def _count_ended(gang: Gang, leaf: str) -> None:
    if gang.spec is None or not gang.spec.counts_ended:
        gang.ended[leaf] = gang.ended.get(leaf, 0) + 1


def _queue(record: PodRecord) -> str | None:
    return claim.queue_named(record.facts) or record.queue or None


def _words(facts: ObjectFacts) -> tuple[object, ...]:
    return facts.labels, facts.annotations, facts.owner


def _goes_alone(spec: GangSpec | None) -> bool:
    if spec is None:
        return False
    root = spec.root
    return root.is_leaf and smallest(root) <= 1 and root.nearness is None and not root.slices
