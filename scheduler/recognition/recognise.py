"""The order in which the ways to say what a gang is count, and what holds whichever of them it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from scheduler.claim import VALUES
from scheduler.membership import ALONE, Membership
from scheduler.object_facts import Objects
from scheduler.pod import PodFacts
from scheduler.recognition.case import Case, case_of
from scheduler.recognition.described import by_description, describes
from scheduler.recognition.fields import number, said
from scheduler.recognition.owners import by_owner
from scheduler.recognition.references import by_reference
from topology import vocabulary

_RANKS: Final = (
    vocabulary.JOB_INDEX,
    vocabulary.POD_INDEX,
    vocabulary.KUBEFLOW_REPLICA_INDEX,
    vocabulary.LWS_WORKER_INDEX,
)
"""Labels with which controllers number pods, for gangs whose reader knows nothing better."""


def recognise(pod: PodFacts, objects: Objects) -> Membership:
    """The gang of a pod: what its fields and labels reference, else what it describes itself, else what its owners
    make, else none. What counts less never changes what counts more. Never raises.
    """
    case = case_of(pod, objects)
    found = by_reference(case)
    if found is not None and (project := describes(case)):
        case.warn("GROUP_CONTRADICTION", f"the group of {project} is passed over: the pod names a group object")
    found = found or by_description(case) or by_owner(case) or ALONE
    return _completed(case, found)


def _completed(case: Case, found: Membership) -> Membership:
    _check_leaf(case, found)
    index = found.index
    if index is None:
        index = next((rank for word in _RANKS if (rank := number(said(case.pod.labels, word))) is not None), None)
    return replace(
        found,
        index=index,
        problem=found.problem or next(iter(case.refusals), ""),
        queue=found.queue or _queue(case),
        priority_class=found.priority_class or case.label_of_owners(vocabulary.PRIORITY_CLASS) or None,
        preemptible=found.preemptible if found.preemptible is not None else _preemptible(case),
        warnings=case.warnings,
    )


def _check_leaf(case: Case, found: Membership) -> None:
    if found.spec is None:
        return
    leaves = [leaf.name for leaf in found.spec.root.leaves()]
    if found.leaf not in leaves:
        case.refuse(f"{found.gang} has no group {found.leaf!r} for the pod: its labels and its owner do not agree")
    elif leaves.count(found.leaf) > 1:
        case.refuse(f"{found.gang} has several groups {found.leaf!r}: rename what they are made from")


def _queue(case: Case) -> str | None:
    """Our words on an owner, on the pod, and only then those of others."""
    named = case.label_of_owners(vocabulary.QUEUE)
    if named or said(case.pod.labels, vocabulary.QUEUE):
        return named or None
    return case.label_of_owners(vocabulary.FOREIGN_QUEUE) or None


def _preemptible(case: Case) -> bool | None:
    written = case.label_of_owners(vocabulary.PREEMPTIBILITY)
    if written in VALUES:
        return written == vocabulary.PREEMPTIBLE
    if written:
        case.warn(
            "PREEMPTIBILITY_UNKNOWN",
            f"label {vocabulary.PREEMPTIBILITY.key} of the owner: {written} has no effect: write {' or '.join(VALUES)}",
        )
    written = case.label_of_owners(vocabulary.VOLCANO_PREEMPTABLE)
    return written == "true" if written in ("true", "false") else None
