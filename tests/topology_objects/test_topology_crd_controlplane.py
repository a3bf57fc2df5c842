"""The Topology CRD on a real API server: what it takes, what it refuses and in which words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender_api.cluster import paths
from extender_api.topology_objects.crd import TOPOLOGY
from extender_api.topology_objects.read import read_topology
from tests.cluster.objects import topology
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.resources import Object, Resource
from topology.domains import HOSTNAME, NVLINK_CLUSTER, PRESETS

pytestmark = pytest.mark.controlplane

TOPOLOGIES = Resource("tangram.scheduler/v1alpha1", "topologies", False)


@pytest.fixture
def kube(kube: Kube) -> Iterator[Kube]:
    """A client of a control plane with the CRD; the topologies go with the test."""
    kube.apply(TOPOLOGY.document())
    kube.wait_until_served(TOPOLOGIES)
    yield kube
    kube.delete_all(TOPOLOGIES)


def create(kube: Kube, **spec: Any) -> Object:
    document = {**topology("t"), "spec": spec, "metadata": {"name": "t"}}
    made: Object = kube.request("POST", paths.TOPOLOGIES, document, {"fieldValidation": "Strict"})
    return made


def labels(*names: str) -> list[Object]:
    return [{"nodeLabel": name} for name in names]


def test_the_definition_is_accepted_as_it_is(kube: Kube) -> None:
    found = kube.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{TOPOLOGY.name}")
    conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
    assert conditions["NamesAccepted"] == conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.parametrize(
    "spec",
    [
        {"levels": [{"nodeLabel": "example.com/block", "alias": "block"}, {"nodeLabel": HOSTNAME, "alias": "host"}]},
        {"levels": labels(HOSTNAME)},
        {"levels": labels(NVLINK_CLUSTER, "nvidia.com/gpu.clique")},
        {"levels": labels(*(f"level-{number}" for number in range(16)))},
        *({"preset": name} for name in PRESETS),
    ],
)
def test_what_the_api_server_takes_is_read(kube: Kube, spec: Object) -> None:
    made = create(kube, **spec)
    assert made["spec"] == spec, "nothing is dropped"
    found = read_topology(made)
    assert found.levels == PRESETS.get(spec.get("preset", "")) or tuple(level["nodeLabel"] for level in spec["levels"])


ONE_SOURCE = "write either levels or the name of a preset"
ALIAS = "an alias stands twice, or is the label of a level"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ONE_SOURCE),
        ({"preset": "gke", "levels": labels("a")}, ONE_SOURCE),
        ({"preset": "unknown"}, "Unsupported value"),
        ({"levels": []}, "should have at least 1 items"),
        ({"levels": labels("a", "b", "a")}, "a level stands twice"),
        ({"levels": labels(HOSTNAME, "a")}, f"{HOSTNAME} can only be the last level"),
        ({"levels": labels(*(f"l{number}" for number in range(17)))}, "must have at most 16 items"),
        ({"levels": labels("not a label")}, "should match"),
        ({"levels": [{"nodeLabel": "a", "alias": "x"}, {"nodeLabel": "b", "alias": "x"}]}, ALIAS),
        ({"levels": [{"nodeLabel": "a", "alias": "b"}, {"nodeLabel": "b"}]}, ALIAS),
        ({"levels": [{"alias": "x"}]}, "nodeLabel: Required value"),
        ({"levels": [{"nodeLabel": "a", "label": "b"}]}, "unknown field"),
    ],
)
def test_mistakes_are_refused_in_clear_words(kube: Kube, spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        create(kube, **spec)
    assert caught.value.status in (400, 422)
    assert words in str(caught.value)


def test_a_spec_is_needed(kube: Kube) -> None:
    document = {**topology("t"), "metadata": {"name": "t"}}
    del document["spec"]
    with pytest.raises(ApiError, match="spec: Required value"):
        kube.request("POST", paths.TOPOLOGIES, document)


def test_it_cannot_be_changed(kube: Kube) -> None:
    create(kube, levels=labels("a"))
    kube.patch(TOPOLOGIES, "t", {"metadata": {"labels": {"x": "y"}}, "spec": {"levels": labels("a")}})
    for spec in ({"levels": labels("a", "b")}, {"levels": None, "preset": "gke"}):
        with pytest.raises(ApiError, match="a Topology cannot be changed: make another"):
            kube.patch(TOPOLOGIES, "t", {"spec": spec})
