"""Gangs of LeaderWorkerSets: one for each group of a leader and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from scheduler.gang_spec import ROOT, GangKey, GangSpec, Group, Nearness
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.recognition.case import Case
from scheduler.recognition.fields import count, number, said, section, text, texts
from scheduler.recognition.nearness import exclusive, nearness_said, podsets, root_nearness
from scheduler.recognition.pod_group import title
from scheduler.recognition.segments import MOST_LEAVES, segment_nearness, segment_size
from topology import vocabulary

_LEADER: Final = "leader"
_WORKERS: Final = "workers"


def leader_worker_set(case: Case, owner: ObjectFacts) -> Membership | None:
    """All pods of a group, or, where the workers are made when the leader is ready, the leader and then all workers."""
    place = said(case.pod.labels, vocabulary.LWS_GROUP_INDEX)
    gang = GangKey(case.pod.namespace, "LeaderWorkerSet", f"{owner.name}-{place}", owner.uid)
    worker = number(said(case.pod.labels, vocabulary.LWS_WORKER_INDEX))
    if number(place) is None or worker is None:
        case.refuse(
            f"labels {vocabulary.LWS_GROUP_INDEX.key} and {vocabulary.LWS_WORKER_INDEX.key} are missing or no numbers: "
            f"they say where the pod stands in {title(owner)}"
        )
        return Membership(gang)
    template = section(owner.spec, "leaderWorkerTemplate")
    size = count(template, "size") or 1
    words = texts(template, "workerTemplate", "metadata", "annotations")
    in_turn = text(owner.spec, "startupPolicy") == "LeaderReady"
    cut = _segment(case, owner, size, words)
    if cut is not None:
        groups, leaf, index = cut.groups(size, in_turn=in_turn), *cut.place(worker)
        shared = nearness_said(case, words)
    else:
        groups, shared = _leader_and_workers(case, template, size, in_turn=in_turn)
        leaf, index = (_LEADER, 0) if worker == 0 else (_WORKERS, worker - 1)
    near = exclusive(root_nearness(case) or shared, said(owner.annotations, vocabulary.LWS_EXCLUSIVE))
    root = Group(ROOT, children=groups, min_children=1 if in_turn else None, nearness=near)
    return Membership(gang, leaf, index, GangSpec(root))


def _leader_and_workers(
    case: Case, template: Mapping[str, Any], size: int, *, in_turn: bool
) -> tuple[tuple[Group, ...], Nearness | None]:
    """Two leaves; a single template for both speaks of them together."""
    words = texts(template, "workerTemplate", "metadata", "annotations")
    leaves = (Group(_LEADER, 1), *((Group(_WORKERS, size - 1),) if size > 1 else ()))
    if not section(template, "leaderTemplate"):
        return leaves, nearness_said(case, words)
    leader_words = texts(template, "leaderTemplate", "metadata", "annotations")
    return podsets(case, list(zip(leaves, (leader_words, words), strict=False)), joined=not in_turn)


def from_labels(case: Case) -> Membership | None:
    """The same where LeaderWorkerSets are not read: the pods say how many they are."""
    labels = case.pod.labels
    name, place = said(labels, vocabulary.LWS_NAME), said(labels, vocabulary.LWS_GROUP_INDEX)
    size = number(said(case.pod.annotations, vocabulary.LWS_SIZE))
    worker = number(said(labels, vocabulary.LWS_WORKER_INDEX))
    if not name or not place or not size or worker is None:
        return None
    leaves = (Group(_LEADER, 1), *((Group(_WORKERS, size - 1),) if size > 1 else ()))
    leaf, index = (_LEADER, 0) if worker == 0 else (_WORKERS, worker - 1)
    gang = GangKey(case.pod.namespace, "LeaderWorkerSet", f"{name}-{place}")
    return Membership(gang, leaf, index, GangSpec(Group(ROOT, children=leaves)))


class _Segments:
    """Workers in segments of `size`; the leader is in the first one or, `apart`, in none."""

    def __init__(self, size: int, near: Nearness | None, *, apart: bool) -> None:
        self._size = size
        self._near = near
        self._apart = apart

    def groups(self, pods: int, *, in_turn: bool) -> tuple[Group, ...]:
        """Beside the leader a leaf `workers-N` per segment; the first segment is an inner group where he is in it."""
        sizes: dict[int, int] = {}
        for worker in range(1, pods):
            segment = self._segment(worker)
            sizes[segment] = sizes.get(segment, 0) + 1
        leader = Group(_LEADER, 1)
        found = [Group(f"{_WORKERS}-{segment}", many, nearness=self._near) for segment, many in sizes.items()]
        if self._apart:
            return (leader, *found)
        first = [replace(leaf, nearness=None) for leaf in found if leaf.name == f"{_WORKERS}-0"]
        rest = [leaf for leaf in found if leaf.name != f"{_WORKERS}-0"]
        least = 1 if in_turn else None
        return (Group("segment-0", children=(leader, *first), min_children=least, nearness=self._near), *rest)

    def place(self, worker: int) -> tuple[str, int]:
        """Leaf and rank there of the pod with the worker index."""
        if worker == 0:
            return _LEADER, 0
        segment = self._segment(worker)
        start = segment * self._size + (1 if self._apart or segment == 0 else 0)
        return f"{_WORKERS}-{segment}", worker - start

    def _segment(self, worker: int) -> int:
        return (worker - 1 if self._apart else worker) // self._size


def _segment(case: Case, owner: ObjectFacts, pods: int, words: dict[str, str]) -> _Segments | None:
    policy = section(owner.spec, "leaderWorkerTemplate", "subGroupPolicy")
    alone = said(owner.annotations, vocabulary.LWS_SUBGROUP_EXCLUSIVE)
    near = exclusive(segment_nearness(words), alone)
    size = count(policy, "subGroupSize") or segment_size(case, words, pods)
    if not size or near is None:
        return None
    apart = text(policy, "subGroupPolicyType") == "LeaderExcluded"
    if apart and (pods - 1) % size:
        case.warn("SEGMENT_SIZE_WRONG", f"{title(owner)}: {pods - 1} workers cannot be divided into segments of {size}")
        return None
    if pods // size >= MOST_LEAVES:
        case.refuse(f"{title(owner)}: {pods} pods in segments of {size} are more than {MOST_LEAVES} segments")
        return None
    return _Segments(size, near, apart=apart)
