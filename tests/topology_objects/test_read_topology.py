"""Topologies of both kinds become what the planner takes, or an error that names the field."""

from __future__ import annotations

from typing import Any

import pytest

from extender_api.cluster.fields import DecodeError
from extender_api.topology_objects.read import one_of_each_name, read_topology
from topology.domains import HOSTNAME, NVLINK_CLUSTER, PRESETS
from topology.topology import Topology

OURS, KAI = "tangram.scheduler/v1alpha1", "kai.scheduler/v1alpha1"
both = pytest.mark.parametrize("api_version", [OURS, KAI])


def document(api_version: str = OURS, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Topology", "metadata": {"name": "t"}, "spec": spec}


def levels(*pairs: tuple[str, str | None]) -> list[dict[str, Any]]:
    return [{"nodeLabel": label, **({"alias": alias} if alias else {})} for label, alias in pairs]


@both
def test_levels_and_aliases(api_version: str) -> None:
    spec = levels(("example.com/block", "block"), ("example.com/rack", None), (HOSTNAME, "host"))
    found = read_topology(document(api_version, levels=spec))
    assert found == Topology(
        "t", ("example.com/block", "example.com/rack", HOSTNAME), {"block": "example.com/block", "host": HOSTNAME}
    )
    assert [found.level(word) for word in ("block", "example.com/rack", "host", "rack")] == [0, 1, 2, None]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets(name: str) -> None:
    assert read_topology(document(preset=name)).levels == PRESETS[name]


def test_ours_is_meant_where_nothing_is_said() -> None:
    content = document(preset="gke")
    del content["apiVersion"]
    assert read_topology(content).levels == PRESETS["gke"]


def test_the_part_of_a_label_is_a_level() -> None:
    assert read_topology(document(levels=levels((NVLINK_CLUSTER, "nvl")))).level("nvl") == 0


@both
@pytest.mark.parametrize(
    ("found", "words"),
    [
        (levels(("a", None), ("b", None), ("a", None)), "spec.levels: the level a stands twice"),
        (levels((HOSTNAME, None), ("a", None)), "can only be the last level"),
        (levels(("a", "x"), ("b", "x")), "spec.levels: the alias x stands twice, or is the label of a level"),
        (levels(("a", "b"), ("b", None)), "spec.levels: the alias b stands twice, or is the label of a level"),
        (levels(("gke", None)), "spec.levels[0].nodeLabel: gke is the name of a preset: write spec.preset"),
        (levels(*((f"l{n}", None) for n in range(17))), "spec.levels"),
        (levels(("not a label", None)), "spec.levels"),
        ([], "spec.levels"),
        ([{"alias": "x"}], "spec.levels[0].nodeLabel: Field required"),
        ("rack", "spec.levels"),
    ],
)
def test_levels_that_cannot_be(api_version: str, found: Any, words: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_topology(document(api_version, levels=found))
    assert str(caught.value).startswith("Topology t: spec.levels")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (document(), "spec: write either levels or the name of a preset"),
        (document(preset="gke", levels=levels(("a", None))), "spec: write either levels or the name of a preset"),
        (document(preset="unknown"), "spec.preset: no preset 'unknown'; there are alibaba, "),
        (document(preset="gke", level=[]), "spec.level: no such field in a Topology"),
        (document(levels=[{"nodeLabel": "a", "label": "b"}]), "spec.levels[0].label: no such field in a Topology"),
        ({**document(preset="gke"), "levels": []}, "levels: no such field in a Topology"),
        (document("kai.scheduler/v2", levels=[]), "apiVersion: kai.scheduler/v2 is not read"),
        (document(KAI), "spec.levels: Field required"),
    ],
)
def test_mistakes_name_their_field(content: dict[str, Any], words: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_topology(content)
    assert str(caught.value).startswith(f"Topology t: {words}")


def test_a_topology_needs_a_name() -> None:
    with pytest.raises(DecodeError, match=r"Topology: metadata\.name: Field required"):
        read_topology({"metadata": {}, "spec": {"preset": "gke"}})


def test_kai_may_have_more_to_say() -> None:
    spec = {"levels": [{"nodeLabel": "a", "new": 1}], "also": "new"}
    assert read_topology({**document(KAI, **spec), "status": {}}).levels == ("a",)


def test_the_first_source_wins() -> None:
    ours, file, kai = (Topology("a", ("x",)), Topology("b", ("x",))), (Topology("c", ("y",)),), (Topology("b", ("z",)),)
    found, doubles = one_of_each_name(ours, file, kai)
    assert [(item.name, item.levels) for item in found] == [("a", ("x",)), ("b", ("x",)), ("c", ("y",))]
    assert doubles == ("b",)
