"""Gangs of Kubeflow's training jobs, of the first generation: PyTorchJob, TFJob, MPIJob and their like."""

from __future__ import annotations

from typing import Final

from scheduler.gang_spec import ROOT, GangKey, GangSpec, Group
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.recognition.case import Case
from scheduler.recognition.fields import count, number, said, section, text, texts
from scheduler.recognition.nearness import podsets, root_nearness
from scheduler.recognition.pod_group import title
from scheduler.recognition.segments import segment_nearness, segment_size, segmented
from topology import vocabulary

GROUP: Final = "kubeflow.org"
REPLICA_SPECS: Final = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
"""Kind → where its kinds of replicas stand."""
_WORKER: Final = "worker"
_LAUNCHER: Final = "launcher"
_NEEDED: Final = {"XGBoostJob": ("master", _WORKER)}


def training_job(case: Case, job: ObjectFacts) -> Membership | None:
    """A leaf per kind of replica; that of the workers is cut into segments where its template asks for them."""
    specs = {str(kind).lower(): spec for kind, spec in section(job.spec, REPLICA_SPECS[job.kind]).items()}
    gang = GangKey(case.pod.namespace, job.kind, job.name, job.uid)
    absent = [kind for kind in _NEEDED.get(job.kind, ()) if kind not in specs]
    if absent or not specs:
        case.refuse(f"{title(job)}: {REPLICA_SPECS[job.kind]} lacks {' and '.join(absent) or 'any replicas'}: add it")
        return Membership(gang)
    replicas = {kind: _replicas(spec) for kind, spec in specs.items()}
    minima = _minima(case, job, replicas)
    parts, size = [], None
    for kind, spec in specs.items():
        words = texts(spec, "template", "metadata", "annotations")
        leaf = Group(kind, minima[kind])
        if kind == _WORKER and (size := segment_size(case, words, replicas[kind])) is not None:
            leaf = segmented(case, leaf, replicas[kind], size, segment_nearness(words))
        parts.append((leaf, words))
    groups, shared = podsets(case, parts)
    root = Group(ROOT, children=groups, nearness=root_nearness(case) or shared)
    leaf_name, index = _place(case, size)
    return Membership(gang, leaf_name, index, GangSpec(root, created_ms=job.created_ms, counts_ended=True))


def _place(case: Case, size: int | None) -> tuple[str, int | None]:
    labels = case.pod.labels
    kind = (said(labels, vocabulary.KUBEFLOW_REPLICA_TYPE) or said(labels, vocabulary.KUBEFLOW_ROLE)).lower()
    index = number(said(labels, vocabulary.KUBEFLOW_REPLICA_INDEX))
    if kind != _WORKER or size is None:
        return kind, index
    if index is None:
        case.refuse(f"label {vocabulary.KUBEFLOW_REPLICA_INDEX.key} is missing: it says which segment the pod is of")
        return kind, None
    return f"{kind}-{index // size}", index % size


def _replicas(spec: object) -> int:
    found = count(spec, "replicas")
    return 1 if found is None else found


def _minima(case: Case, job: ObjectFacts, replicas: dict[str, int]) -> dict[str, int]:
    """The minimum of the job, dealt out: workers get what the others leave. Finished replicas are not waited for."""
    needed = dict(replicas)
    if text(job.spec, "launcherCreationPolicy") == "WaitForWorkersReady" and _LAUNCHER in needed:
        needed[_LAUNCHER] = 0
    total = sum(needed.values())
    asked = count(job.spec, "runPolicy", "schedulingPolicy", "minAvailable")
    if asked is None and job.kind == "PyTorchJob":
        asked = count(job.spec, "elasticPolicy", "minReplicas")
    if asked is not None and asked > sum(replicas.values()):
        case.warn("MIN_MEMBER_TOO_LARGE", f"{title(job)}: a minimum of {asked} is more than its {total} replicas")
    left = total if asked is None else min(asked, total)
    minima = {}
    for kind in sorted(needed, key=lambda kind: (kind == _WORKER, kind)):
        least = min(needed[kind], left)
        left -= least
        minima[kind] = max(0, min(least, replicas[kind] - _succeeded(job, kind)))
    return minima


def _succeeded(job: ObjectFacts, kind: str) -> int:
    statuses = section(job.status, "replicaStatuses")
    return next((count(status, "succeeded") or 0 for name, status in statuses.items() if str(name).lower() == kind), 0)
