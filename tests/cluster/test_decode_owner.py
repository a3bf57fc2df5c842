"""What is kept of an object that owns or describes workloads, and the new words of pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_api.cluster.decode import decode_pod
from extender_api.cluster.fields import DecodeError
from extender_api.cluster.object_kinds import OBJECT_KINDS
from extender_api.cluster.owner import NOT_KEPT, STATUS_KEPT, object_codec
from scheduler.object_facts import ObjectFacts
from scheduler.pod import Owner
from tests.cluster.objects import pod

JOB = next(kind for kind in OBJECT_KINDS if kind.kind == "Job")
JOBS = object_codec(JOB, "v1")


def job(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "j", "namespace": "a", "uid": "u"}, **parts}


def test_all_that_plays_a_part_is_kept() -> None:
    found = JOBS.one(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "j",
                "namespace": "a",
                "uid": "u",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"tangram.scheduler/queue": "q"},
                "annotations": {"kai.scheduler/batch-min-member": "2", "kubectl.kubernetes.io/last-applied": "{…}"},
                "managedFields": [{"manager": "kubectl"}],
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "x"},
                    {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "y", "controller": True},
                ],
            },
            "spec": {
                "parallelism": 4,
                "template": {
                    "metadata": {"annotations": {"kai.scheduler/topology": "t"}, "managedFields": []},
                    "spec": {
                        "containers": [{"name": "c", "env": [{"name": "A"}]}],
                        "initContainers": [],
                        "volumes": [{"name": "v"}],
                        "priorityClassName": "train",
                    },
                },
                "groups": [{"env": [], "name": "g"}],
            },
            "status": {"succeeded": 3, "completedIndexes": "0-2", "active": 1, "conditions": [], "failedIndexes": None},
        }
    )
    assert found == ObjectFacts(
        api_version="batch/v1",
        kind="Job",
        namespace="a",
        name="j",
        uid="u",
        labels={"tangram.scheduler/queue": "q"},
        annotations={"kai.scheduler/batch-min-member": "2"},
        owner=Owner("CronJob", "c", "y", "batch/v1"),
        created_ms=1767225600000,
        spec={
            "parallelism": 4,
            "template": {
                "metadata": {"annotations": {"kai.scheduler/topology": "t"}},
                "spec": {"priorityClassName": "train"},
            },
            "groups": [{"name": "g"}],
        },
        status={"succeeded": 3, "completedIndexes": "0-2", "active": 1},
    )
    assert found.group == "batch"


def test_items_of_lists_do_not_say_what_they_are() -> None:
    body = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "j"}, "spec": None, "status": None}]}
    (found,) = JOBS.page(json.dumps(body).encode()).items
    assert found.facts == ObjectFacts("batch/v1", "Job", "default", "j")
    assert found.key == "default/j"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*sorted(NOT_KEPT), "name", "spec", "template"]), inner, max_size=4)
    ),
    max_leaves=20,
)


def keys(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(keys, value)) if value else set()
    return set(value).union(*map(keys, value.values())) if isinstance(value, dict) else set()


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3), st.dictionaries(st.sampled_from("ab"), JSON))
def test_what_is_dropped_is_dropped_everywhere_and_changes_nothing(spec: dict[str, Any], more: dict[str, Any]) -> None:
    found = JOBS.one(job(spec=spec, status=more))
    assert not keys(found.spec) & NOT_KEPT
    assert JOBS.one(job(spec=found.spec)) == found, "reducing it again changes nothing"
    assert JOBS.one(job(spec={**spec, "containers": more, "env": more}, status={"active": more})) == found
    assert found.status == {}


def test_what_is_active_is_kept_once_something_has_succeeded() -> None:
    assert JOBS.one(job(status={"active": 3})).status == {}
    assert JOBS.one(job(status={"active": 3, "succeeded": 0})).status == {"succeeded": 0}
    assert JOBS.one(job(status={"active": 3, "succeeded": 1})).status == {"succeeded": 1, "active": 3}


def test_of_replicas_what_has_succeeded_is_kept() -> None:
    said = {"Worker": {"active": 1, "succeeded": 2}, "Master": {"active": 1}, "Chief": None, "PS": {"succeeded": "x"}}
    found = JOBS.one(job(status={"replicaStatuses": said})).status
    assert found == {"replicaStatuses": {"Worker": {"succeeded": 2}}}
    assert JOBS.one(job(status={"replicaStatuses": {"Worker": {"active": 1}}})).status == {}


@given(st.dictionaries(st.sampled_from([*sorted(STATUS_KEPT), "ready", "active"]), JSON))
def test_a_status_is_plain_values_alone(status: dict[str, Any]) -> None:
    found = JOBS.one(job(status=status)).status
    assert found.keys() <= {*STATUS_KEPT, "active"}
    assert not any(isinstance(value, dict | list) or value is None for value in found.values())


def test_json_in_too_many_layers_is_a_problem_and_no_crash() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(DecodeError, match="Job a/j: spec: has more than 64 layers"):
        JOBS.one(job(spec=deep))


@pytest.mark.parametrize("part", ["spec", "status"])
def test_parts_must_be_objects(part: str) -> None:
    with pytest.raises(DecodeError, match=f"Job a/j: {part}: "):
        JOBS.one(job(**{part: ["x"]}))


@pytest.mark.parametrize(
    ("spec", "group", "workload"),
    [
        ({}, "", None),
        ({"schedulingGroup": None, "workloadRef": None}, "", None),
        ({"schedulingGroup": {"podGroupName": "g"}}, "g", None),
        ({"schedulingGroup": {}, "workloadRef": {"podGroup": "g"}}, "", None),
        ({"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "0"}}, "", ("w", "g")),
        ({"workloadRef": {"name": "w"}}, "", ("w", "")),
    ],
)
def test_groups_that_a_pod_names_in_fields(spec: dict[str, Any], group: str, workload: tuple[str, str] | None) -> None:
    found = decode_pod(pod(spec=spec))
    assert (found.scheduling_group, found.workload_ref) == (group, workload)
