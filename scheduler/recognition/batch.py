"""Gangs of Jobs and JobSets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduler.gang_spec import ROOT, GangKey, GangSpec, Group
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.recognition.case import Case
from scheduler.recognition.fields import count, entries, number, said, section, spelled, text, texts
from scheduler.recognition.nearness import exclusive, flat, nearness_said, podsets, root_nearness, slices_said
from scheduler.recognition.pod_group import title
from scheduler.recognition.segments import MOST_LEAVES
from topology import vocabulary
from topology.vocabulary import Word


def batch_job(case: Case, job: ObjectFacts) -> Membership | None:
    """A gang only where somebody asks for a number of pods, or for pods near each other (one is then enough)."""
    asked = _asked(case, job.annotations, vocabulary.MIN_MEMBER, title(job))
    if asked is None:
        asked = _asked(case, job.annotations, vocabulary.MIN_PARALLELISM, title(job))
    if asked is not None:
        root = flat(case, _least(case, job, job, asked))
    else:
        root = flat(case, 1)
        if root.nearness is None and not root.slices:
            return None
    gang = GangKey(case.pod.namespace, "Job", job.name, job.uid)
    return Membership(gang, spec=GangSpec(root, created_ms=job.created_ms, counts_ended=True))


def job_set(case: Case, owner: ObjectFacts) -> Membership | None:
    """A group per replicatedJob, a leaf per Job. Pods of different restart attempts are never of one gang."""
    labels = case.pod.labels
    attempt = said(labels, vocabulary.JOBSET_ATTEMPT)
    name = owner.name if attempt in ("", "0") else f"{owner.name}.restart-{attempt}"
    gang = GangKey(case.pod.namespace, "JobSet", name, owner.uid)
    templates = entries(owner.spec, "replicatedJobs")
    if sum(_replicas(entry) for entry in templates) > MOST_LEAVES:
        case.refuse(f"{title(owner)} has more than {MOST_LEAVES} Jobs: a gang cannot be that large")
        return Membership(gang)
    min_children = _asked(case, owner.annotations, vocabulary.MIN_MEMBER, title(owner))
    if min_children is not None and min_children > len(templates):
        case.warn(
            "MIN_MEMBER_TOO_LARGE",
            f"{title(owner)}: {vocabulary.MIN_MEMBER.key} {min_children} is more than its "
            f"{len(templates)} replicatedJobs",
        )
        min_children = len(templates)
    if min_children is None and _starts_in_order(owner):
        min_children = 1
    groups, shared = podsets(
        case,
        [(_replicated_job(case, owner, entry), _pod_words(entry)) for entry in templates],
        joined=min_children is None,
    )
    root = Group(ROOT, children=groups, min_children=min_children, nearness=root_nearness(case) or shared)
    leaf = f"{said(labels, vocabulary.JOBSET_REPLICATED_JOB)}-{said(labels, vocabulary.JOBSET_JOB_INDEX)}"
    return Membership(gang, leaf=leaf, spec=GangSpec(root, created_ms=owner.created_ms, counts_ended=True))


def _replicated_job(case: Case, owner: ObjectFacts, entry: object) -> Group:
    name, words = text(entry, "name"), texts(entry, "template", "metadata", "annotations")
    who = f"replicatedJob {name} of {title(owner)}"
    asked = _asked(case, words, vocabulary.MIN_MEMBER, who)
    alone = said(words, vocabulary.JOBSET_EXCLUSIVE) or said(owner.annotations, vocabulary.JOBSET_EXCLUSIVE)
    template = ObjectFacts("batch/v1", "Job", owner.namespace, name, spec=section(entry, "template", "spec"))
    leaf = Group(name, nearness=exclusive(None, alone))
    leaf = _sliced(case, leaf, entry, _parallelism(template), who)
    whole, named = _least(case, template, template, asked), case.objects.named
    leaves = []
    for place in range(_replicas(entry)):
        child = named("batch", "Job", case.pod.namespace, f"{owner.name}-{name}-{place}")
        minimum = whole if child is None or not child.status else _least(case, template, child, asked)
        leaves.append(Group(f"{name}-{place}", minimum, nearness=leaf.nearness, slices=leaf.slices))
    return Group(name, children=tuple(leaves), nearness=nearness_said(case, words))


def _sliced(case: Case, leaf: Group, entry: object, parallelism: int, who: str) -> Group:
    """Kueue counts slices over all pods of a replicatedJob; they map where no slice has pods of two Jobs."""
    slices = slices_said(case, _pod_words(entry))
    if any(parallelism % part.size for part in slices):
        sizes = ", ".join(str(part.size) for part in slices)
        case.refuse(f"{who}: slices of {sizes} pods do not divide its Jobs of {parallelism}: change the slice size")
        return leaf
    return replace(leaf, slices=slices)


def _least(case: Case, template: ObjectFacts, job: ObjectFacts, asked: int | None) -> int:
    """The minimum of a Job: what is asked, else all of it, and never more than the pods that are still to come."""
    parallelism = _parallelism(template)
    if asked is not None and asked > parallelism:
        case.warn(
            "MIN_MEMBER_TOO_LARGE",
            f"{template.kind} {template.name}: {asked} pods are asked to start together, "
            f"parallelism allows {parallelism}",
        )
    least = parallelism if asked is None else min(asked, parallelism)
    completions, succeeded = count(template.spec, "completions"), count(job.status, "succeeded") or 0
    if completions is not None:
        return max(0, min(least, completions - succeeded))
    # Without completions no pod follows one that has succeeded.
    return min(least, count(job.status, "active") or 0) if succeeded else least


def _parallelism(job: ObjectFacts) -> int:
    found = count(job.spec, "parallelism")
    return 1 if found is None else found


def _replicas(entry: object) -> int:
    found = count(entry, "replicas")
    return 1 if found is None else found


def _pod_words(entry: object) -> dict[str, str]:
    return texts(entry, "template", "spec", "template", "metadata", "annotations")


def _starts_in_order(owner: ObjectFacts) -> bool:
    """Whether some of its Jobs are only made when others are up: they cannot be waited for."""
    if text(owner.spec, "startupPolicy", "startupPolicyOrder") == "InOrder":
        return True
    return any(entries(entry, "dependsOn") for entry in entries(owner.spec, "replicatedJobs"))


def _asked(case: Case, annotations: Mapping[str, str], word: Word, who: str) -> int | None:
    written = said(annotations, word)
    if not written:
        return None
    found = number(written)
    if not found:
        case.warn(
            "MIN_MEMBER_UNREADABLE",
            f"{who}: annotation {spelled(annotations, word)} {written[:40]!r} has no effect: "
            "write a whole number from 1 on",
        )
    return found or None
