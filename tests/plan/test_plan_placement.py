"""Plans under policies by name, and with a demand mix."""

from __future__ import annotations

from typing import Any

import pytest

from extender_api.mix_document import MixError, mix_document, read_mix
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.named import NAMES
from tests.plan.documents import holding, node, placed, plan, pod, refused
from tests.plan.test_plan_gangs import RACK, group, member

MIX: list[dict[str, Any]] = [
    {"cpuMilli": 1000, "memoryBytes": 0, "devices": 1, "milli": 500, "demand": 3},
    {"cpuMilli": 8000, "memoryBytes": 0, "devices": 2, "milli": 1000, "demand": 1, "models": ["A", "B"]},
]


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_plans_what_fits(name: str) -> None:
    pods = [pod("a", gpus=2), pod("b", fraction="0.5"), pod("c", memory="20000"), pod("d"), pod("e", gpus=9)]
    answer = plan(node("n1", 4), node("n2", 2), node("cpu"), *pods, placement=name)
    assert set(placed(answer)) == {"a", "b", "c", "d"}
    assert placed(answer)["d"][0] == "cpu"
    assert [item["workload"] for item in answer["pending"]] == ["e"]


def test_the_same_objects_give_the_same_plan_in_any_order() -> None:
    objects = [node("n1", 4), node("n2", 4), *(pod(f"p{at}", fraction="0.4") for at in range(6)), pod("w", gpus=2)]
    assert plan(*objects, placement="rsv")["placements"] == plan(*objects[::-1], placement="rsv")["placements"]


def test_rsv_goes_by_the_mix_that_is_given() -> None:
    """0.3 joins a half where that is good for nothing else, and opens a device where its half is wanted."""
    objects = [
        node("n1", 2),
        node("n2", 2),
        holding("old", "n1", (0, 20_000, 500), fraction="0.5"),
        pod("new", fraction="0.3"),
    ]
    sevens, halves = (
        {"cpuMilli": 1000, "memoryBytes": 0, "devices": 1, "milli": milli, "demand": 1} for milli in (700, 500)
    )
    joined = placed(plan(*objects, placement="rsv", mix=[sevens]))["new"]
    assert joined[:2] == ("n1", [(0, 12_000, 300)])
    opened = placed(plan(*objects, placement="rsv", mix=[sevens, halves]))["new"]
    assert opened[:2] == ("n1", [(1, 12_000, 300)])


def test_a_mix_is_read_as_it_is_written() -> None:
    mix = read_mix(MIX)
    assert mix == Mix((PodClass(1000, 0, 1, 500), PodClass(8000, 0, 2, 1000, models=frozenset({"A", "B"}))), (3, 1))
    assert read_mix(mix_document(mix)) == mix
    with_pods = Mix(mix.classes, mix.demand, (1, 0))
    assert read_mix(mix_document(with_pods)) == with_pods


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "options.mix must be a list of classes"),
        ([3], r"options.mix\[0\] must be an object"),
        ([{"devices": -1}], r"options.mix\[0\].devices must be a whole number from 0"),
        ([{"devices": True}], "it is True"),
        ([{"models": "A"}], r"options.mix\[0\].models must be a list of products"),
        ([{"pods": 1}, {}], 'either every class has "pods" or none'),
        ([{"milli": "500"}], "it is '500'"),
        ([{"milli": 1001}], r"options.mix\[0\].milli is a part of a device"),
    ],
)
def test_a_mix_that_makes_no_sense_is_refused(given: Any, words: str) -> None:
    with pytest.raises(MixError, match=words):
        read_mix(given)
    (warning,) = refused({"objects": [], "options": {"mix": given}})
    assert warning.startswith("options.mix")


def test_an_unknown_policy_is_told_with_all_there_are() -> None:
    (warning,) = refused({"objects": [], "options": {"placement": "tetris"}})
    assert warning == f'options.placement: "tetris" is no placement policy: {", ".join(NAMES)} are'


def test_a_gang_goes_where_its_places_cost_least() -> None:
    """Two shares that have to be in one rack fill devices in use, although the other rack is fuller as a whole."""
    topology = {
        "apiVersion": "tangram.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "racks"},
        "spec": {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    wish = {"topology": "racks", "requiredTopologyLevel": RACK}
    racks = [
        node("full", 2, labels={RACK: "r1"}),
        node("open", 8, labels={RACK: "r2"}),
        holding("old-1", "open", (0, 20_000, 500), fraction="0.5"),
        holding("old-2", "open", (1, 20_000, 500), fraction="0.5"),
    ]
    halves = [{"cpuMilli": 1000, "memoryBytes": 0, "devices": 1, "milli": 1000, "demand": 1}]
    members = [member(f"m{at}", fraction="0.5") for at in range(2)]
    objects = [topology, *racks, group(minMember=2, topologyConstraint=wish), *members]
    packed, valued = placed(plan(*objects)), placed(plan(*objects, placement="rsv", mix=halves))
    assert {place[0] for place in packed.values()} == {"full"}
    assert {place[0] for place in valued.values()} == {"open"}
    assert sorted(place[1][0][0] for place in valued.values()) == [0, 1]
