"""Gangs of RayClusters, whoever made them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from scheduler.gang_spec import ROOT, GangKey, GangSpec, Group
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.recognition.case import Case
from scheduler.recognition.fields import count, entries, number, said, section, text, texts
from scheduler.recognition.nearness import podsets, root_nearness
from scheduler.recognition.pod_group import title
from topology import vocabulary

_HEAD: Final = "headgroup"
"""What KubeRay calls the group of the head."""


def ray_cluster(case: Case, cluster: ObjectFacts) -> Membership | None:
    """The head and a leaf per worker group. Other pods of the cluster (that clean up after it) are not of the gang."""
    if said(case.pod.labels, vocabulary.RAY_NODE_TYPE) not in ("head", "worker"):
        return None
    gang = GangKey(case.pod.namespace, "RayCluster", cluster.name, cluster.uid)
    workers = entries(cluster.spec, "workerGroupSpecs")
    twice = next((name for name, times in Counter(map(_name, workers)).items() if times > 1 or name == _HEAD), None)
    if twice is not None:
        case.refuse(f"{title(cluster)}: two groups are named {twice}: rename one")
        return Membership(gang)
    head = section(cluster.spec, "headGroupSpec")
    parts = [(Group(_HEAD, 1), texts(head, "template", "metadata", "annotations"))]
    for spec in workers:
        parts.append((Group(_name(spec), _minimum(spec)), texts(spec, "template", "metadata", "annotations")))
    groups, shared = podsets(case, parts)
    root = Group(ROOT, children=groups, nearness=root_nearness(case) or shared)
    leaf = _HEAD if said(case.pod.labels, vocabulary.RAY_NODE_TYPE) == "head" else _group_label(case)
    return Membership(gang, leaf, _index(case, workers), GangSpec(root, created_ms=cluster.created_ms))


def _name(spec: object) -> str:
    return text(spec, "groupName")


def _group_label(case: Case) -> str:
    return said(case.pod.labels, vocabulary.RAY_GROUP)


def _hosts(spec: object) -> int:
    return count(spec, "numOfHosts") or 1


def _minimum(spec: object) -> int:
    if section(spec).get("suspend") is True:
        return 0
    return (count(spec, "minReplicas") or count(spec, "replicas") or 0) * _hosts(spec)


def _index(case: Case, workers: tuple[object, ...]) -> int | None:
    labels = case.pod.labels
    replica = number(said(labels, vocabulary.RAY_REPLICA_INDEX))
    host = number(said(labels, vocabulary.RAY_HOST_INDEX)) or 0
    hosts = next((_hosts(spec) for spec in workers if _name(spec) == _group_label(case)), 1)
    return None if replica is None else replica * hosts + host
