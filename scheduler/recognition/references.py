"""Group objects that pods name: which words name which kinds, and the rule whose pods may join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from scheduler.gang_spec import ROOT, GangKey, GangSpec
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.pod import PodFacts
from scheduler.recognition.case import Case, Lineage, lineage
from scheduler.recognition.fields import number, said
from scheduler.recognition.group_kinds import (
    coscheduling_spec,
    grove_leaf,
    grove_spec,
    upstream_spec,
    volcano_leaf,
    volcano_spec,
    workload_spec,
)
from scheduler.recognition.pod_group import pod_group_leaf, pod_group_spec, title
from topology import vocabulary
from topology.vocabulary import Word

UPSTREAM_GROUP: Final = "scheduling.k8s.io"
_OURS: Final = (vocabulary.API_GROUP, "PodGroup")
_KAIS: Final = (vocabulary.KAI_QUEUE_GROUP, "PodGroup")

SpecReader = Callable[[Case, ObjectFacts], GangSpec | None]
LeafReader = Callable[[Case, ObjectFacts, GangSpec], str]


def _only_leaf(case: Case, group: ObjectFacts, spec: GangSpec) -> str:
    return ROOT


@dataclass(frozen=True, slots=True)
class Reference:
    """A way to name a group object. `names` is what the pod says; `source` tells gangs of the same name apart."""

    source: str
    word: str
    kinds: tuple[tuple[str, str], ...]
    names: Callable[[PodFacts], str]
    spec: SpecReader
    leaf: LeafReader = _only_leaf
    index: Word | None = None


def _label(word: Word) -> Callable[[PodFacts], str]:
    return lambda pod: said(pod.labels, word)


def _annotation(word: Word) -> Callable[[PodFacts], str]:
    return lambda pod: said(pod.annotations, word)


def _workload(pod: PodFacts) -> str:
    return pod.workload_ref[0] if pod.workload_ref else ""


REFERENCES: Final = (
    Reference(
        "PodGroup",
        f"label {vocabulary.POD_GROUP.key}",
        (_OURS, _KAIS),
        _label(vocabulary.POD_GROUP),
        pod_group_spec,
        pod_group_leaf,
    ),
    Reference(
        "kubernetes",
        "spec.schedulingGroup.podGroupName",
        ((UPSTREAM_GROUP, "PodGroup"),),
        lambda pod: pod.scheduling_group,
        upstream_spec,
    ),
    Reference("kubernetes", "spec.workloadRef", ((UPSTREAM_GROUP, "Workload"),), _workload, workload_spec),
    Reference(
        "PodGroup",
        f"annotation {vocabulary.KAI_POD_GROUP.key}",
        (_KAIS, _OURS),
        _annotation(vocabulary.KAI_POD_GROUP),
        pod_group_spec,
        pod_group_leaf,
    ),
    Reference(
        "volcano",
        f"annotation {vocabulary.VOLCANO_GROUP.key}",
        (("scheduling.volcano.sh", "PodGroup"),),
        _annotation(vocabulary.VOLCANO_GROUP),
        volcano_spec,
        volcano_leaf,
        vocabulary.VOLCANO_TASK_INDEX,
    ),
    Reference(
        "coscheduling",
        f"label {vocabulary.COSCHEDULING_GROUP.key}",
        (("scheduling.x-k8s.io", "PodGroup"),),
        _label(vocabulary.COSCHEDULING_GROUP),
        coscheduling_spec,
    ),
    Reference(
        "grove",
        f"label {vocabulary.GROVE_GANG.key}",
        (("scheduler.grove.io", "PodGang"),),
        _label(vocabulary.GROVE_GANG),
        grove_spec,
        grove_leaf,
        vocabulary.GROVE_INDEX,
    ),
)
"""In the order in which they count."""


def by_reference(case: Case) -> Membership | None:
    """The gang of the group object that the pod names; what it names beside that is reported."""
    named = [(reference, name) for reference in REFERENCES if (name := reference.names(case.pod))]
    if not named:
        return _left_to_others(case)
    (first, name), *others = named
    for other, other_name in others:
        if (other.source, other_name) != (first.source, name):
            case.warn(
                "GROUP_CONTRADICTION",
                f"{other.word} ({other_name}) is passed over: {first.word} ({name}) comes first; remove one of them",
            )
    return _member(case, first, name)


def _member(case: Case, reference: Reference, name: str) -> Membership:
    pod = case.pod
    inner = f"/{pod.workload_ref[1]}" if pod.workload_ref and reference.names is _workload else ""
    gang = GangKey(pod.namespace, reference.source, name + inner)
    group = _found(case, reference, name)
    if group is None:
        return Membership(gang, missing=_missing(case, reference, name))
    if _is_of_others(case, group):
        owner = f"{group.owner.kind} {group.owner.name}" if group.owner is not None else "others"
        case.refuse(f"{title(group)} belongs to {owner}, which does not own this pod: remove {reference.word}")
        return Membership(gang)
    spec = reference.spec(case, group)
    if spec is None:
        return Membership(gang)
    spec = replace(spec, queue=spec.queue or said(group.labels, vocabulary.QUEUE) or None)
    return Membership(
        gang,
        leaf=reference.leaf(case, group, spec),
        index=number(_written(pod, reference.index)) if reference.index else None,
        spec=spec,
        queue=spec.queue,
        priority_class=spec.priority_class,
        preemptible=spec.preemptible,
    )


def _written(pod: PodFacts, word: Word) -> str:
    return said(pod.labels, word) or said(pod.annotations, word)


def _found(case: Case, reference: Reference, name: str) -> ObjectFacts | None:
    there = [
        found
        for group, kind in reference.kinds
        if (found := case.objects.named(group, kind, case.pod.namespace, name)) is not None
    ]
    if len(there) > 1:
        case.warn(
            "GROUP_TWICE",
            f"{title(there[0])} of {there[1].group} is passed over: that of {there[0].group} counts; "
            "delete one of them",
        )
    return there[0] if there else None


def _missing(case: Case, reference: Reference, name: str) -> str:
    kind = reference.kinds[0][1]
    if not any(case.objects.reads(group, kind) for group, kind in reference.kinds):
        case.warn(
            "GROUP_NOT_READ",
            f"{reference.word}: {kind}s of {reference.kinds[0][0]} are not read "
            "(not installed, or no right to list them)",
        )
    return f"{kind} {case.pod.namespace}/{name}"


def _is_of_others(case: Case, group: ObjectFacts) -> bool:
    """Whether a group was made for other pods: both lineages are known to their end and have nothing in common."""
    if group.owner is None or group.owner.api_version.startswith(f"{UPSTREAM_GROUP}/"):
        return False  # nobody's, or of a Workload, which describes pods and does not own them
    pod = case.pod
    mine, its = case.lineage, lineage(group.owner, pod, case.objects)
    if not _known(mine) or (its.cut is not None and not its.absent and its.cut.kind != "Pod"):
        return False
    return not (_uids(mine, pod) & (_uids(its, pod) - {pod.uid} | {group.owner.uid}))


def _known(line: Lineage) -> bool:
    return line.cut is None or line.absent


def _uids(line: Lineage, pod: PodFacts) -> set[str]:
    cut = {line.cut.uid} if line.cut is not None else set()
    return {pod.uid, *(owner.uid for owner in line.owners), *cut}


def _left_to_others(case: Case) -> Membership | None:
    """A pod whose group another controller names later is not grouped by its owner in the meantime."""
    pod, word = case.pod, vocabulary.SKIP_GROUPER
    if "true" not in (_written(pod, word), case.of_owners(word), case.label_of_owners(word)):
        return None
    missing = f"annotation {vocabulary.KAI_POD_GROUP.key}, which {word.key} leaves to another controller"
    return Membership(GangKey(pod.namespace, "Pod", pod.name, pod.uid), missing=missing)
