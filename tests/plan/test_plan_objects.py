"""What a plan document says beside nodes, pods and queues: topologies, owners, and groups of pods."""

from __future__ import annotations

import random
from typing import Any

import pytest

from extender_api.cluster.object_kinds import OBJECT_KINDS, ObjectKind
from extender_api.plan_objects import PlanObjects, read_objects
from scheduler.object_facts import Objects
from scheduler.object_index import ObjectIndex
from tests.cluster.objects import pod_group, topology

Object = dict[str, Any]


def read(*objects: Object) -> PlanObjects:
    return read_objects(list(objects), "tangram")


def of(kind: ObjectKind, name: str, version: str = "", **spec: Any) -> Object:
    return {
        "apiVersion": f"{kind.group}/{version or kind.versions[0]}",
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "a"},
        "spec": spec or {"minMember": 1},
    }


def kai_topology(name: str, label: str) -> Object:
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}} | {
        "spec": {"levels": [{"nodeLabel": label}]}
    }


def test_objects_of_every_kind_and_version_are_read() -> None:
    documents = [of(kind, version, version) for kind in OBJECT_KINDS for version in kind.versions]
    found = read(*documents)
    assert (found.problems, found.notes) == ([], [])
    assert len(found.objects) == len(documents)
    objects: Objects = ObjectIndex([(kind.group, kind.kind) for kind in OBJECT_KINDS], found.objects)
    for kind in OBJECT_KINDS:
        assert objects.reads(kind.group, kind.kind)
        for version in kind.versions:
            facts = objects.named(kind.group, kind.kind, "a", version)
            assert facts is not None
            assert facts.api_version == f"{kind.group}/{version}"
            assert facts.spec == {"minMember": 1}


def test_lists_and_order_make_no_difference() -> None:
    documents = [of(kind, "x") for kind in OBJECT_KINDS] + [topology("t"), kai_topology("u", "rack")]
    before = read(*documents)
    random.Random(7).shuffle(documents)
    after = read({"kind": "List", "items": documents})
    assert (after.objects, after.topologies) == (before.objects, before.topologies)


def test_a_group_without_api_version_is_ours_and_no_other_kind_is() -> None:
    group = pod_group("g", "a", minMember=3)
    job = {"kind": "Job", "metadata": {"name": "j"}}
    del group["apiVersion"]
    found = read(group, job)
    assert [(facts.api_version, facts.name) for facts in found.objects] == [("tangram.scheduler/v1alpha1", "g")]
    assert found.notes == ["Job objects play no part in a plan"]


def test_topologies_of_both_kinds() -> None:
    found = read(kai_topology("a", "kai"), topology("a", "ours"), kai_topology("b", "kai"))
    assert found.problems == []
    assert [(item.name, item.levels) for item in found.topologies] == [("a", ("ours",)), ("b", ("kai",))]


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([topology("t", preset="none")], "Topology t: spec.preset: no preset 'none'"),
        ([topology("t"), topology("t")], "Topology t stands twice among the objects"),
        ([pod_group("g"), pod_group("g")], "PodGroup default/g stands twice among the objects"),
        ([pod_group("g", minMembers=3)], "PodGroup default/g: spec.minMembers: no such field in a PodGroup"),
        ([pod_group("g", minMember="3")], "PodGroup default/g: spec.minMember: Input should be a valid integer"),
        ([{**pod_group("g"), "sepc": {}}], "PodGroup default/g: sepc: no such field in a PodGroup"),
        ([{**pod_group("g"), "spec": 7}], "PodGroup default/g: spec: "),
        ([{**pod_group("g"), "metadata": {}}], "objects[0]: PodGroup: metadata.name: Field required"),
        (
            [{**pod_group("g"), "apiVersion": "scheduling.run.ai/v2"}],
            "PodGroup default/g: apiVersion: scheduling.run.ai/v2 is not read: write scheduling.run.ai/v2alpha2",
        ),
    ],
)
def test_what_is_wrong_is_said(objects: list[Object], problem: str) -> None:
    (found,) = read(*objects).problems
    assert found.startswith(problem)


def test_the_same_uid_twice_is_a_problem() -> None:
    first, second = pod_group("a"), pod_group("b")
    second["metadata"]["uid"] = first["metadata"]["uid"]
    assert read(second, first).problems == ["PodGroup default/b has the uid of PodGroup default/a"]


def test_groups_of_other_makes_are_not_checked() -> None:
    kai = {**pod_group("g", minMember=1, markUnschedulable=True), "apiVersion": "scheduling.run.ai/v2alpha2"}
    (facts,) = read(kai).objects
    assert facts.spec["markUnschedulable"] is True
