"""All gangs: who is in which, and whom a change of an owner or a group concerns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scheduler import claim
from scheduler.gang import Gang, age, smallest
from scheduler.gang_spec import GangKey, GangSpec
from scheduler.membership import Membership
from scheduler.memberships import Memberships, Recognise
from scheduler.object_facts import ObjectFacts, Objects
from scheduler.pod import PodFacts
from scheduler.record import PodRecord, Stage
from topology import vocabulary


class Gangs:
    """Gangs by key. A gang exists while it has members; `touched` are those of which something changed."""

    def __init__(self, objects: Objects, recognise: Recognise) -> None:
        self._memberships = Memberships(objects, recognise)
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
        found = self._memberships.find(pod)
        of_group = None if found.spec is None else found.spec.queue
        said = (of_group or self._queue_of_gang(pod, found) or found.queue, found.preemptible)
        if said != (pod.group_queue, pod.group_preemptible):
            pod = replace(pod, group_queue=said[0], group_preemptible=said[1])
        if found.priority_class in vocabulary.PRIORITIES and not pod.priority_class:
            priority_class = str(found.priority_class)
            pod = replace(pod, priority_class=priority_class, priority=vocabulary.PRIORITIES[priority_class])
        return pod

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
        return self._memberships.of(uid)

    def concerned(self, old: ObjectFacts | None, new: ObjectFacts | None) -> list[str]:
        """The pods to be looked at again, since an object came, changed or went."""
        return self._memberships.concerned(old, new)

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
            record.membership = replace(found, spec=gang.spec)
            self._memberships.put(record.uid, record.membership)
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
        self._memberships.forget(record.uid)

    def ended(self, uid: str) -> None:
        """A member that nobody has seen before ran to its end."""
        found = self.membership(uid)
        if found.gang is not None and not _goes_alone(found.spec):
            self.by_key.setdefault(found.gang, Gang(found.gang, found.spec, found.missing)).count_ended(found.leaf)

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
            found = self._memberships.find_passing(pod)
            gang = None if found.gang is None else self.by_key.get(found.gang)
            if gang is None:
                continue
            if any(one.stage is Stage.BOUND or one.facts.owner == pod.owner for one in gang.members.values()):
                gang.count_ended(found.leaf)
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


def _queue(record: PodRecord) -> str | None:
    return claim.queue_named(record.facts) or record.queue or None


def _goes_alone(spec: GangSpec | None) -> bool:
    if spec is None:
        return False
    root = spec.root
    return root.is_leaf and smallest(root) <= 1 and root.nearness is None and not root.slices
