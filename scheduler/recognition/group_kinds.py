"""The group objects of other schedulers and of Kubernetes, one reader per kind."""

from __future__ import annotations

from typing import Final

from scheduler.gang_spec import ROOT, GangSpec, Group, Nearness
from scheduler.object_facts import ObjectFacts
from scheduler.recognition.case import Case
from scheduler.recognition.fields import count, entries, said, section, text
from scheduler.recognition.nearness import nearness_said
from scheduler.recognition.pod_group import title
from topology import vocabulary

REST: Final = "*"
"""The leaf of pods whose task has no minimum of its own; it needs none."""


def coscheduling_spec(case: Case, group: ObjectFacts) -> GangSpec | None:
    """PodGroup of scheduler-plugins."""
    minimum = _minimum(case, group)
    if minimum is None:
        return None
    return GangSpec(Group(ROOT, minimum, nearness=nearness_said(case, group.annotations)), created_ms=group.created_ms)


def volcano_spec(case: Case, group: ObjectFacts) -> GangSpec | None:
    """PodGroup of Volcano. As there, the minima of tasks count only when `minMember` is not below their sum."""
    minimum = _minimum(case, group)
    if minimum is None:
        return None
    tasks = section(group.spec, "minTaskMember")
    minima = {str(task): least for task in tasks if (least := count(tasks, task)) is not None}
    nearness = _volcano_nearness(case, group) or nearness_said(case, group.annotations)
    if minima and minimum >= sum(minima.values()):
        if minimum > sum(minima.values()):
            case.warn(
                "MIN_MEMBER_IDLE",
                f"{title(group)}: minMember {minimum} is more than minTaskMember adds up to: only the latter counts",
            )
        leaves = (*(Group(task, least) for task, least in sorted(minima.items())), Group(REST))
        root = Group(ROOT, children=leaves, nearness=nearness)
    else:
        root = Group(ROOT, minimum, nearness=nearness)
    return GangSpec(
        root,
        queue=text(group.spec, "queue") or None,
        priority_class=text(group.spec, "priorityClassName") or None,
        created_ms=group.created_ms,
    )


def volcano_leaf(case: Case, group: ObjectFacts, spec: GangSpec) -> str:
    """By the task that the pod is of."""
    if spec.root.is_leaf:
        return ROOT
    task = said(case.pod.labels, vocabulary.VOLCANO_TASK) or said(case.pod.annotations, vocabulary.VOLCANO_TASK)
    return task if any(leaf.name == task for leaf in spec.root.leaves()) else REST


def upstream_spec(case: Case, group: ObjectFacts) -> GangSpec | None:
    """PodGroup of scheduling.k8s.io, of every version."""
    return _upstream(case, group, group.spec, "schedulingPolicy", "the group")


def workload_spec(case: Case, workload: ObjectFacts) -> GangSpec | None:
    """Workload of scheduling.k8s.io/v1alpha1, whose groups stand in it."""
    wanted = case.pod.workload_ref[1] if case.pod.workload_ref else ""
    groups = entries(workload.spec, "podGroups")
    found = next((entry for entry in groups if text(entry, "name") == wanted), None)
    if found is None:
        names = ", ".join(text(entry, "name") for entry in groups[:8])
        case.refuse(f"{title(workload)} has no group {wanted}: spec.workloadRef.podGroup has to be one of {names}")
        return None
    return _upstream(case, workload, found, "policy", f"group {wanted}")


def grove_spec(case: Case, gang: ObjectFacts) -> GangSpec | None:
    """PodGang of Grove: a leaf per clique."""
    cliques = {text(entry, "name"): entry for entry in entries(gang.spec, "podgroups") if text(entry, "name")}
    if not cliques:
        case.refuse(f"{title(gang)} has no podgroups: nothing says how many pods it needs")
        return None
    leaves = tuple(
        Group(name, count(entry, "minReplicas") or 0, nearness=_packing(entry)) for name, entry in cliques.items()
    )
    root = Group(ROOT, children=leaves, nearness=_packing(gang.spec) or nearness_said(case, gang.annotations))
    return GangSpec(root, priority_class=text(gang.spec, "priorityClassName") or None, created_ms=gang.created_ms)


def grove_leaf(case: Case, gang: ObjectFacts, spec: GangSpec) -> str:
    """By the clique that the pod is of."""
    clique = said(case.pod.labels, vocabulary.GROVE_CLIQUE)
    if all(leaf.name != clique for leaf in spec.root.leaves()):
        case.refuse(f"{title(gang)} has no podgroup {clique!r}, which label {vocabulary.GROVE_CLIQUE.key} names")
    return clique


def _minimum(case: Case, group: ObjectFacts) -> int | None:
    minimum = count(group.spec, "minMember")
    if minimum is None and group.spec.get("minMember") is None:
        return 1
    if minimum is None:
        case.refuse(f"{title(group)}: minMember is no whole number from 0 on")
    return minimum


def _upstream(case: Case, group: ObjectFacts, said_of_it: object, policy: str, who: str) -> GangSpec | None:
    if "gang" in section(said_of_it, policy):
        minimum = count(said_of_it, policy, "gang", "minCount")
        if not minimum:
            case.refuse(f"{title(group)}: gang.minCount of {who} has to be a whole number from 1 on")
            return None
    else:
        minimum = 0
    keys = [key for entry in entries(said_of_it, "schedulingConstraints", "topology") if (key := text(entry, "key"))]
    if len(keys) > 1:
        case.warn("TOPOLOGY_TWICE", f"{title(group)}: only the first topology key, {keys[0]}, counts")
    nearness = Nearness(required=keys[0]) if keys else nearness_said(case, group.annotations)
    return GangSpec(
        Group(ROOT, minimum, nearness=nearness),
        priority_class=text(said_of_it, "priorityClassName") or None,
        created_ms=group.created_ms,
    )


def _volcano_nearness(case: Case, group: ObjectFacts) -> Nearness | None:
    """A named tier is taken as a level; a number says nothing outside Volcano's own tree of switches."""
    network = section(group.spec, "networkTopology")
    level = text(network, "highestTierName")
    if network and not level:
        case.warn(
            "TOPOLOGY_NOT_READ",
            f"{title(group)}: networkTopology.highestTierAllowed has no effect: name a level with highestTierName or "
            f"annotation {vocabulary.REQUIRED_PLACEMENT.key}",
        )
    if not level:
        return None
    return Nearness(preferred=level) if text(network, "mode") == "soft" else Nearness(required=level)


def _packing(said_of_it: object) -> Nearness | None:
    pack = section(said_of_it, "topologyConstraint", "packConstraint")
    required, preferred = text(pack, "required"), text(pack, "preferred")
    return Nearness(required, preferred) if required or preferred else None
