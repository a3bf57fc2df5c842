"""Gangs that pods describe themselves, in labels and annotations: one reader per project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.gang_spec import ROOT, GangKey, GangSpec, Group, Nearness
from scheduler.membership import Membership
from scheduler.recognition.case import Case
from scheduler.recognition.fields import count, entries, number, parsed, said, text
from scheduler.recognition.nearness import flat, root_nearness
from topology import vocabulary


def by_description(case: Case) -> Membership | None:
    """The gang that the pod describes; what it describes beside that is reported."""
    found, first = None, ""
    for project, reader in _PROJECTS:
        if found is None:
            found, first = reader(case), project
        elif reader(_silent(case)) is not None:
            case.warn("GROUP_CONTRADICTION", f"the group of {project} is passed over: that of {first} comes first")
    return found


def describes(case: Case) -> str:
    """In whose words the pod describes a gang, "" in nobody's; nothing is reported."""
    return next((project for project, reader in _PROJECTS if reader(_silent(case)) is not None), "")


def _silent(case: Case) -> Case:
    return Case(case.pod, case.objects, case.lineage)


def _koordinator(case: Case) -> Membership | None:
    words = case.pod.annotations
    name = said(words, vocabulary.KOORDINATOR_GANG)
    if not name:
        return None
    gang = GangKey(case.pod.namespace, "koordinator", name)
    groups = said(words, vocabulary.KOORDINATOR_GROUPS)
    listed = parsed(groups) if groups else []
    if listed not in ([], [f"{case.pod.namespace}/{name}"]):
        case.warn(
            "GANG_OF_GANGS",
            f"annotation {vocabulary.KOORDINATOR_GROUPS.key} has no effect: gangs that start together are subgroups of "
            "one PodGroup",
        )
    minimum = _asked(case, words.get(vocabulary.KOORDINATOR_MINIMUM.key, ""), vocabulary.KOORDINATOR_MINIMUM.key)
    if minimum is None:
        return Membership(gang)
    nearness = _gathering(case) or root_nearness(case)
    root = Group(ROOT, minimum, nearness=nearness) if nearness else flat(case, minimum)
    return Membership(gang, spec=GangSpec(root))


def _kueue(case: Case) -> Membership | None:
    pod = case.pod
    name = said(pod.labels, vocabulary.KUEUE_GROUP) or said(pod.annotations, vocabulary.KUEUE_GROUP)
    if not name:
        return None
    # Pods of another owner that say the same name are another group: they would otherwise count as members.
    line = case.lineage
    uid = line.top.uid if line.top is not None and line.cut is None else ""
    gang = GangKey(pod.namespace, "kueue", name, uid)
    total = _asked(case, said(pod.annotations, vocabulary.KUEUE_TOTAL), vocabulary.KUEUE_TOTAL.key)
    if total is None:
        return Membership(gang)
    # With fast admission the pods come one after the other, each when the one before it is up.
    one_by_one = said(pod.annotations, vocabulary.KUEUE_FAST_ADMISSION) == "true"
    label = said(pod.annotations, vocabulary.KUEUE_INDEX_LABEL)
    index = pod.labels.get(label, "") if label else said(pod.labels, vocabulary.KUEUE_INDEX)
    return Membership(gang, index=number(index), spec=GangSpec(flat(case, 1 if one_by_one else total)))


def _old_coscheduling(case: Case) -> Membership | None:
    name = said(case.pod.labels, vocabulary.OLD_COSCHEDULING_GROUP)
    if not name:
        return None
    key = vocabulary.OLD_COSCHEDULING_MINIMUM
    minimum = _asked(case, said(case.pod.labels, key), key.key)
    gang = GangKey(case.pod.namespace, "coscheduling-labels", name)
    return Membership(gang, spec=None if minimum is None else GangSpec(flat(case, minimum)))


def _yunikorn(case: Case) -> Membership | None:
    """A leaf per task group. Only the first pod of an application has to list the groups: the others wait for it."""
    pod = case.pod
    app, keys = "", vocabulary.YUNIKORN_APP
    app = pod.labels.get(keys.key, "") or said(pod.annotations, keys) or said(pod.labels, keys)
    app = app or said(pod.labels, vocabulary.SPARK_APP)
    task_group = said(pod.annotations, vocabulary.YUNIKORN_TASK_GROUP)
    if not app or not task_group:
        return None
    gang = GangKey(pod.namespace, "yunikorn", app)
    written = said(pod.annotations, vocabulary.YUNIKORN_TASK_GROUPS)
    if not written:
        missing = f"a pod of application {app} with annotation {vocabulary.YUNIKORN_TASK_GROUPS.key}"
        return Membership(gang, leaf=task_group, missing=missing)
    leaves = {
        text(entry, "name"): Group(text(entry, "name"), least)
        for entry in entries({"groups": parsed(written)}, "groups")
        if text(entry, "name") and (least := count(entry, "minMember")) is not None
    }
    if task_group not in leaves:
        case.refuse(
            f"annotation {vocabulary.YUNIKORN_TASK_GROUPS.key} lists no task group {task_group} with a name and a "
            "minMember: write it as a JSON list"
        )
        return Membership(gang, leaf=task_group)
    root = Group(ROOT, children=tuple(leaves.values()), nearness=root_nearness(case))
    return Membership(gang, leaf=task_group, spec=GangSpec(root))


_PROJECTS: Final[tuple[tuple[str, Callable[[Case], Membership | None]], ...]] = (
    ("Koordinator", _koordinator),
    ("Kueue", _kueue),
    ("the old coscheduling labels", _old_coscheduling),
    ("YuniKorn", _yunikorn),
)
"""In the order in which they count."""


def _asked(case: Case, written: str, key: str) -> int | None:
    found = number(written)
    if found is None or found == 0:
        case.refuse(f"{key} is {written[:40]!r}: write how many pods belong together, a whole number from 1 on")
        return None
    return found


def _gathering(case: Case) -> Nearness | None:
    written = said(case.pod.annotations, vocabulary.KOORDINATOR_TOPOLOGY)
    if not written:
        return None
    layers = entries(parsed(written), "gatherStrategy")
    if not layers:
        case.warn(
            "TOPOLOGY_NOT_READ", f"annotation {vocabulary.KOORDINATOR_TOPOLOGY.key} has no gatherStrategy in JSON"
        )
    level = {text(layer, "strategy"): text(layer, "layer") for layer in layers}
    found = Nearness(required=level.get("MustGather", ""), preferred=level.get("PreferGather", ""))
    return found if found.required or found.preferred else None
