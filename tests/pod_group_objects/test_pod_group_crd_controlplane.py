"""The PodGroup CRD on a real API server: what it takes, what it refuses and in which words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender_api.pod_group_objects.crd import POD_GROUP
from extender_api.pod_group_objects.model import MOST_SUBGROUPS, PodGroupSpecModel
from tests.cluster.objects import pod_group
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.resources import Object, Resource

pytestmark = pytest.mark.controlplane

NAMESPACE = "default"
POD_GROUPS = Resource("tangram.scheduler/v1alpha1", "podgroups", True)


@pytest.fixture
def kube(kube: Kube) -> Iterator[Kube]:
    """A client of a control plane with the CRD; the group goes with the test."""
    kube.apply(POD_GROUP.document())
    kube.wait_until_served(POD_GROUPS, NAMESPACE)
    yield kube
    kube.delete_all(POD_GROUPS, NAMESPACE)


def create(kube: Kube, **spec: Any) -> Object:
    document = {**pod_group("g"), "spec": spec, "metadata": {"name": "g", "namespace": NAMESPACE}}
    made: Object = kube.request("POST", POD_GROUPS.path(NAMESPACE), document, {"fieldValidation": "Strict"})
    return made


def leaf(name: str, minimum: int = 1, **more: Any) -> Object:
    return {"name": name, "minMember": minimum, **more}


def test_the_definition_is_accepted_as_it_is(kube: Kube) -> None:
    found = kube.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POD_GROUP.name}")
    conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
    assert conditions["NamesAccepted"] == conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


NEAR = {"topology": "racks", "requiredTopologyLevel": "block", "preferredTopologyLevel": "rack"}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"minMember": 0},
        {"minMember": 8, "subGroups": []},
        {
            "minSubGroup": 2,
            "subGroups": [
                {"name": "prefill", "minSubGroup": 1, "topologyConstraint": NEAR},
                leaf("leader", parent="prefill"),
                leaf("workers", 4, parent="prefill", topologyConstraint={"preferredTopologyLevel": "rack"}),
                {"name": "decode", "minMember": 0},
            ],
            "topologyConstraint": NEAR,
            "queue": "team-a",
            "priorityClassName": "tangram-train",
            "preemptibility": "non-preemptible",
            "stalenessGracePeriod": "5m",
        },
        {"minMember": 1, "stalenessGracePeriod": "-1s", "preemptibility": "preemptible"},
        {"subGroups": [leaf(f"{number:063d}") for number in range(MOST_SUBGROUPS)]},
    ],
)
def test_what_the_api_server_takes_is_what_the_model_takes(kube: Kube, spec: Object) -> None:
    made = create(kube, **spec)
    assert made["spec"] == spec, "nothing is dropped or added"
    assert PodGroupSpecModel.model_validate(made["spec"])


BOTH = "write minMember or minSubGroup, not both"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minMember": 1, "minSubGroup": 1, "subGroups": [leaf("a")]}, BOTH),
        ({"subGroups": [leaf("a", minSubGroup=1), leaf("b", parent="a")]}, BOTH),
        ({"minSubGroup": 1}, "minSubGroup needs subGroups"),
        ({"minSubGroup": 1, "subGroups": []}, "minSubGroup needs subGroups"),
        ({"subGroups": [leaf("a"), leaf("a")]}, "two subgroups have the same name"),
        ({"subGroups": [leaf("a", parent="b")]}, "parent must be the name of another subgroup"),
        ({"subGroups": [leaf("a", parent="a")]}, "a subgroup cannot be its own parent"),
        ({"subGroups": [leaf("a"), {"name": "b"}]}, "it needs minMember, 0 where none are needed"),
        ({"subGroups": [{"name": "b", "minSubGroup": 1}]}, "it needs minMember, 0 where none are needed"),
        ({"topologyConstraint": {"topology": "t"}}, "write requiredTopologyLevel, preferredTopologyLevel or both"),
        ({"minMember": -1}, "greater than or equal to 0"),
        ({"minMember": "3"}, "must be of type integer"),
        ({"preemptibility": "sometimes"}, 'supported values: "preemptible", "non-preemptible"'),
        ({"stalenessGracePeriod": "soon"}, "should match"),
        ({"queue": "q" * 64}, "may not be more than 63"),
        ({"minMembers": 3}, 'unknown field "spec.minMembers"'),
        ({"subGroups": [leaf("a", topologyConstraint={"level": "rack"})]}, "unknown field"),
    ],
)
def test_mistakes_are_refused_in_clear_words(kube: Kube, spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        create(kube, **spec)
    assert caught.value.status in (400, 422)
    assert words in str(caught.value)


def test_it_may_grow_and_shrink(kube: Kube) -> None:
    create(kube, minMember=2)
    kube.patch(POD_GROUPS, "g", {"spec": {"minMember": 4}}, NAMESPACE)
    assert kube.get(POD_GROUPS, "g", NAMESPACE)["spec"] == {"minMember": 4}
