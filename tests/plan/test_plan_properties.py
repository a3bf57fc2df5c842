"""Generated clusters: the order of the objects is no input, and no plan gives anything away twice."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.documents import GPU, Object, holding, leaving, node, plan, pod

MIB = 1000


@st.composite
def nodes(draw: st.DrawFn) -> list[Object]:
    return [
        node(f"n{number}", draw(st.integers(0, 4)), mib=MIB, allocatable={"cpu": str(draw(st.sampled_from([2, 4, 8])))})
        for number in range(draw(st.integers(1, 4)))
    ]


@st.composite
def held(draw: st.DrawFn, cluster: list[Object]) -> list[Object]:
    """Pods on nodes, over-use included: whole devices (written down or not), shares, CPU; some are leaving."""
    pods = []
    for number in range(draw(st.integers(0, 6))):
        where = draw(st.sampled_from(cluster))["metadata"]["name"]
        index = draw(st.integers(0, 3))
        found = draw(
            st.sampled_from(
                [
                    holding(f"h{number}", where, (index, MIB, 1000), gpus=1),
                    holding(f"h{number}", where, (index, 300, 300), fraction="0.3"),
                    holding(f"h{number}", where, (index, 400, 0), memory="400"),
                    pod(f"h{number}", gpus=1, on=where, scheduler="other"),
                    pod(f"h{number}", on=where),
                ]
            )
        )
        pods.append(leaving(found) if draw(st.booleans()) else found)
    return pods


@st.composite
def waiting(draw: st.DrawFn) -> list[Object]:
    pods = []
    for number in range(draw(st.integers(0, 7))):
        kind: Any = draw(
            st.sampled_from(
                [
                    {"gpus": 1},
                    {"gpus": 2},
                    {"fraction": "0.5"},
                    {"fraction": "0.7"},
                    {"memory": "400"},
                    {"fraction": "0.6", "devices": 2},
                    {"cpu": "3"},
                    {"gpus": 1, "fraction": "0.5"},
                ]
            )
        )
        pods.append(pod(f"w{number}", spec={"priority": draw(st.integers(0, 2))}, **kind))
    return pods


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    found = draw(nodes())
    return [*found, *draw(held(found)), *draw(waiting())]


PLACEMENTS = st.sampled_from([None, "spread", {"device": "spread"}, {"gpu": "spread"}])


@given(objects=clusters(), placement=PLACEMENTS, seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_the_order_of_the_objects_makes_no_difference(objects: list[Object], placement: Any, seed: int) -> None:
    shuffled = list(objects)
    random.Random(seed).shuffle(shuffled)
    assert plan(*objects, placement=placement) == plan(*shuffled, placement=placement)


@given(objects=clusters(), placement=PLACEMENTS)
@settings(max_examples=150, deadline=None)
def test_every_waiting_pod_is_answered_for_once(objects: list[Object], placement: Any) -> None:
    answer = plan(*objects, placement=placement)
    answered = [item["name"] for item in answer["placements"]] + [item["workload"] for item in answer["pending"]]
    names = [item["metadata"]["name"] for item in objects]
    assert sorted(answered) == sorted(name for name in names if name.startswith("w"))


@given(objects=clusters(), placement=PLACEMENTS)
@settings(max_examples=150, deadline=None)
def test_nothing_is_given_away_twice(objects: list[Object], placement: Any) -> None:
    """What is placed now fits beside everybody who still holds something; what is placed at all fits beside those who
    stay. Only devices and CPU that a placement touches are judged: the rest may be over-used from outside.
    """
    answer = plan(*objects, placement=placement)
    pods = {item["metadata"]["name"]: item for item in objects if item["kind"] == "Pod"}
    now = [item for item in answer["placements"] if item["when"] == "now"]
    on_nodes = [item for item in pods.values() if "nodeName" in item["spec"]]
    staying = [item for item in on_nodes if "deletionTimestamp" not in item["metadata"]]
    for held_, given_ in ((on_nodes, now), (staying, answer["placements"])):
        _judge(objects, pods, held_, given_)


def _judge(objects: list[Object], pods: dict[str, Object], held_: list[Object], given_: list[Any]) -> None:
    milli: Counter[tuple[str, int]] = Counter()
    mib: Counter[tuple[str, int]] = Counter()
    counted: Counter[tuple[str, str]] = Counter()
    places = [(item, item["spec"]["nodeName"], _devices(item)) for item in held_]
    places += [(pods[item["name"]], item["node"], item["devices"]) for item in given_]
    for item, where, devices in places:
        for device in devices:
            milli[where, device["index"]] += device["milli"]
            mib[where, device["index"]] += device["memoryMiB"]
        for resource, amount in item["spec"]["containers"][0]["resources"]["requests"].items():
            counted[where, resource] += int(amount)
    sizes = {item["metadata"]["name"]: item["status"]["allocatable"] for item in objects if item["kind"] == "Node"}
    for item in given_:
        where = item["node"]
        for device in item["devices"]:
            assert device["index"] < int(sizes[where].get(GPU, 0))
            assert milli[where, device["index"]] <= 1000
            assert mib[where, device["index"]] <= MIB
        for resource in pods[item["name"]]["spec"]["containers"][0]["resources"]["requests"]:
            assert counted[where, resource] <= int(sizes[where].get(resource, 0)), (item, resource)


def _devices(item: Object) -> list[Any]:
    text = item["metadata"]["annotations"].get("tangram.scheduler/allocation")
    return list(json.loads(text)["devices"]) if text else []


@given(objects=clusters())
@settings(max_examples=150, deadline=None)
def test_who_waits_would_not_fit_even_when_all_have_left(objects: list[Object]) -> None:
    """Checked by planning again, with those who stay and the places that were given, each pod alone."""
    answer = plan(*objects)
    staying = [item for item in objects if "deletionTimestamp" not in item["metadata"]]
    settled = [item for item in staying if item["metadata"]["name"][0] != "w"]
    names = {item["metadata"]["name"]: item for item in objects}
    for item in answer["placements"]:
        devices = [(device["index"], device["memoryMiB"], device["milli"]) for device in item["devices"]]
        wanted = names[item["name"]]
        requests = wanted["spec"]["containers"][0]["resources"]["requests"]
        found = holding(
            item["name"], item["node"], *devices, cpu=requests["cpu"], gpus=int(requests.get(GPU, 0)),
            annotations=wanted["metadata"]["annotations"],
        )  # fmt: skip
        settled.append(found)
    for item in answer["pending"]:
        if item["reason"]["code"] != "INVALID_REQUEST":
            assert plan(*settled, names[item["workload"]])["placements"] == []
