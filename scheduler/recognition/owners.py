"""The gang that follows from what owns a pod: one entry in a table per kind of owner that makes gangs.

Owners of kinds that are not in it (ReplicaSet, StatefulSet, CronJob, RayJob, TrainJob, SparkApplication, Workflow,
VirtualMachineInstance, …) make none by themselves: the pods go alone, or another owner in the line decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.gang_spec import GangKey, GangSpec
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.pod import Owner
from scheduler.recognition import leader_workers
from scheduler.recognition.batch import batch_job, job_set
from scheduler.recognition.case import JOBSET, LEADER_WORKER_SET, RAY_CLUSTER, Case
from scheduler.recognition.fields import number, said
from scheduler.recognition.leader_workers import leader_worker_set
from scheduler.recognition.nearness import flat
from scheduler.recognition.pod_group import title
from scheduler.recognition.ray import ray_cluster
from scheduler.recognition.training import GROUP, REPLICA_SPECS, training_job
from topology import vocabulary

KINDS: Final[dict[tuple[str, str], Callable[[Case, ObjectFacts], Membership | None]]] = {
    ("batch", "Job"): batch_job,
    JOBSET: job_set,
    RAY_CLUSTER: ray_cluster,
    LEADER_WORKER_SET: leader_worker_set,
    **{(GROUP, kind): training_job for kind in REPLICA_SPECS},
}
"""API group and kind → its reader; None from a reader: this object makes no gang of the pod."""


def by_owner(case: Case) -> Membership | None:
    """The gang that the highest owner makes which makes one; None: the pod goes alone."""
    found = _spark(case) or _cut_off(case)
    if found is not None:
        return found
    for owner in reversed(case.lineage.owners):
        reader = KINDS.get((owner.group, owner.kind))
        found = reader(case, owner) if reader is not None else None
        if found is not None:
            return found
    found = _asked_of_volcano(case)
    if found is None:
        _warn_of_idle_topology(case)
    return found


def _spark(case: Case) -> Membership | None:
    """The driver starts first and asks for executors: one pod is enough."""
    labels = case.pod.labels
    app, role = said(labels, vocabulary.SPARK_APP), said(labels, vocabulary.SPARK_ROLE)
    if not app or role not in ("driver", "executor"):
        return None
    index = 0 if role == "driver" else number(said(labels, vocabulary.SPARK_EXECUTOR))
    gang = GangKey(case.pod.namespace, "Spark", app)
    return Membership(gang, index=index, spec=GangSpec(flat(case, 1)))


def _cut_off(case: Case) -> Membership | None:
    """What is said of pods whose owner would decide and cannot be asked."""
    cut, namespace = case.lineage.cut, case.pod.namespace
    if cut is None:
        return None
    group = cut.api_version.rpartition("/")[0]
    if case.lineage.absent and (group, cut.kind) in KINDS:
        gang = GangKey(namespace, cut.kind, cut.name, cut.uid)
        return Membership(gang, missing=f"{cut.kind} {namespace}/{cut.name}")
    if case.lineage.absent:
        return None
    found = leader_workers.from_labels(case) or _asked_by_template(case, cut)
    unknown = (group, cut.kind) in KINDS and cut.kind != "Job"
    hidden = said(case.pod.labels, vocabulary.JOBSET_NAME)
    if found is None and (unknown or hidden):
        kind = cut.kind if unknown else "JobSet"
        case.warn(
            "OWNER_NOT_READ",
            f"the pod goes alone: {kind}s are not read (not installed, or no right to list them), so that nothing is "
            "known of the gang",
        )
    return found


def _asked_by_template(case: Case, cut: Owner) -> Membership | None:
    """A Job that is not read may have its minimum on its pods as well."""
    minimum = number(said(case.pod.annotations, vocabulary.MIN_MEMBER))
    if cut.kind != "Job" or not minimum:
        return None
    return Membership(GangKey(case.pod.namespace, cut.kind, cut.name, cut.uid), spec=GangSpec(flat(case, minimum)))


def _asked_of_volcano(case: Case) -> Membership | None:
    """Owners of any kind whose pods Volcano would put into one group."""
    word = vocabulary.VOLCANO_MIN_MEMBER
    for owner in reversed(case.lineage.owners):
        written = said(owner.annotations, word)
        minimum = number(written)
        if minimum:
            gang = GangKey(case.pod.namespace, owner.kind, owner.name, owner.uid)
            return Membership(gang, spec=GangSpec(flat(case, minimum), created_ms=owner.created_ms))
        if written:
            case.warn(
                "MIN_MEMBER_UNREADABLE",
                f"{title(owner)}: annotation {word.key} {written[:40]!r} has no effect: write a whole number from 1 on",
            )
    return None


def _warn_of_idle_topology(case: Case) -> None:
    """Topology words on what is no gang have no effect."""
    if flat(case, 0).nearness is not None:
        case.warn(
            "TOPOLOGY_WITHOUT_GANG",
            "the pod goes alone, so that topology annotations have no effect: put it into a PodGroup with label "
            f"{vocabulary.POD_GROUP.key}, or ask for a gang on its owner",
        )
