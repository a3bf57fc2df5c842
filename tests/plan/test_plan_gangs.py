"""Gangs in stateless plans: groups and owners among the objects, promises for all of a step, stale gangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plan.documents import Object, holding, leaving, node, placed, plan, pod, waits

RACK = "example.com/rack"


def group(name: str = "g", *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A PodGroup of ours."""
    metadata: Object = {"name": name, "namespace": "team", "annotations": annotations or {}}
    return {"apiVersion": "tangram.scheduler/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def member(name: str, *, of: str = "g", subgroup: str = "", **parts: Any) -> Object:
    """A pod of the group; it may be on a node."""
    labels = {"tangram.scheduler/pod-group": of} | ({"kai.scheduler/subgroup-name": subgroup} if subgroup else {})
    return pod(name, metadata={"name": name, "namespace": "team", "labels": labels}, **parts)


def runs(name: str, on: str, index: int, **parts: Any) -> Object:
    """A member on a node, with one whole device."""
    item = holding(name, on, (index, 40_000, 1000), gpus=1, **parts)
    item["metadata"]["labels"] = {"tangram.scheduler/pod-group": "g"}
    return item


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    members = [member(f"m{index}", gpus=1) for index in range(3)]
    whole = plan(node("n1", 3), group(minMember=3), *members)
    assert set(placed(whole)) == {"m0", "m1", "m2"}
    part = plan(node("n1", 2), group(minMember=3), *members)
    assert placed(part) == {}
    (pending,) = part["pending"]
    assert (pending["workload"], pending["pods"]) == ("g", ["m0", "m1", "m2"])
    assert pending["reason"]["code"] == "GANG_DOES_NOT_FIT"
    assert pending["reason"]["details"] == {"gang": "PodGroup team/g", "pods": 3, "fitting": 2}


def test_too_few_pods_wait_and_more_than_the_minimum_follow() -> None:
    members = [member(f"m{index}", gpus=1) for index in range(4)]
    few = plan(node("n1", 8), group(minMember=3), *members[:2])
    assert few["pending"][0]["reason"]["details"] == {"gang": "PodGroup team/g", "present": 2, "needed": 3}
    more = plan(node("n1", 8), group(minMember=3), *members)
    assert set(placed(more)) == {"m0", "m1", "m2", "m3"}
    some = plan(node("n1", 3), group(minMember=3), *members)
    assert set(placed(some)) == {"m0", "m1", "m2"}
    assert some["pending"][0]["pods"] == ["m3"]


def test_all_of_a_step_waits_for_what_one_of_it_waits_for() -> None:
    going = leaving(holding("old", "n1", (0, 40_000, 1000), gpus=1))
    answer = plan(node("n1", 2), going, group(minMember=2), member("a", gpus=1), member("b", gpus=1))
    assert {name: when for name, (_, _, when) in placed(answer).items()} == {"a": "after-release", "b": "after-release"}


def test_a_group_that_is_not_there_and_one_that_contradicts_itself() -> None:
    assert waits(plan(node("n1", 2), member("a", gpus=1))) == {"g": "GANG_NOT_FOUND"}
    both = plan(node("n1", 2), group(minMember=1, minSubGroup=1), member("a", gpus=1))
    assert waits(both) == {"g": "GANG_INVALID"}
    unknown = plan(
        node("n1", 2),
        group(subGroups=[{"name": "x", "minMember": 1}]),
        member("a", gpus=1, subgroup="x"),
        member("b", gpus=1, subgroup="y"),
    )
    assert set(placed(unknown)) == {"a"}
    assert waits(unknown) == {"g": "GANG_INVALID"}


def test_the_owner_says_how_many_and_which_queue() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "team",
            "uid": "uid-j",
            "labels": {"tangram.scheduler/queue": "small"},
            "annotations": {"kai.scheduler/batch-min-member": "2"},
        },
        "spec": {"parallelism": 2, "completions": 2},
    }
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}]
    pods = [pod(name, gpus=1, metadata={"name": name, "namespace": "team", "ownerReferences": owner}) for name in "ab"]

    def queue(limit: int) -> Object:
        spec = {"resources": {"gpu": {"quota": 0, "limit": limit}}}
        return {
            "apiVersion": "tangram.scheduler/v1alpha1",
            "kind": "Queue",
            "metadata": {"name": "small"},
            "spec": spec,
        }

    assert set(placed(plan(node("n1", 4), queue(2), job, *pods))) == {"a", "b"}
    over = plan(node("n1", 4), queue(1), job, *pods)
    assert placed(over) == {}
    assert waits(over) == {"j": "OVER_LIMIT"}, "the limit is held against the whole step"


def test_a_required_level_by_its_label_alone_and_by_a_topology() -> None:
    nodes = [node("n1", 1, labels={RACK: "r1"}), node("n2", 1, labels={RACK: "r2"}), node("n3", 1, labels={RACK: "r2"})]
    topology = {
        "apiVersion": "tangram.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "net"},
        "spec": {"levels": [{"nodeLabel": RACK, "alias": "rack"}]},
    }
    members = [member("a", gpus=1), member("b", gpus=1)]
    by_label = plan(*nodes, group(minMember=2, topologyConstraint={"requiredTopologyLevel": RACK}), *members)
    assert {where for where, _, _ in placed(by_label).values()} == {"n2", "n3"}
    wish = {"topology": "net", "requiredTopologyLevel": "rack"}
    by_alias = plan(*nodes, topology, group(minMember=2, topologyConstraint=wish), *members)
    assert placed(by_alias) == placed(by_label)
    unknown = plan(*nodes, group(minMember=2, topologyConstraint=wish), *members)
    assert waits(unknown) == {"g": "GANG_INVALID"}
    assert "net" in unknown["pending"][0]["reason"]["message"]


SINCE = {"kai.scheduler/stale-podgroup-timestamp": "2025-12-31T23:58:00Z"}


@pytest.mark.parametrize(
    ("spec", "annotations", "gone"),
    [
        ({"minMember": 3, "stalenessGracePeriod": "60s"}, SINCE, {"a", "b"}),
        ({"minMember": 3, "stalenessGracePeriod": "10m"}, SINCE, set()),
        ({"minMember": 3, "stalenessGracePeriod": "-1s"}, SINCE, set()),
        ({"minMember": 3}, SINCE, {"a", "b"}),
        ({"minMember": 2}, SINCE, set()),
        ({"minMember": 3}, {}, set()),
    ],
)
def test_what_is_left_of_a_stale_gang_goes(spec: Object, annotations: dict[str, str], gone: set[str]) -> None:
    answer = plan(node("n1", 2), group(annotations=annotations, **spec), runs("a", "n1", 0), runs("b", "n1", 1))
    assert {(item["name"], item["action"], item["for"]) for item in answer["evictions"]} == {
        (name, "stale", "g") for name in gone
    }


def test_a_gang_of_which_one_succeeded_or_that_is_completed_is_not_stale() -> None:
    spec = group(annotations=SINCE, minMember=2)
    done = runs("b", "n1", 1)
    done["status"]["phase"] = "Succeeded"
    assert plan(node("n1", 2), spec, runs("a", "n1", 0), done)["evictions"] == []
    completed = plan(node("n1", 2), spec, runs("a", "n1", 0), member("b", gpus=1))
    assert completed["evictions"] == []
    assert set(placed(completed)) == {"b"}
    unasked = plan(node("n1", 2), spec, runs("a", "n1", 0), actions=["allocate"])
    assert unasked["evictions"] == []


def test_the_example_of_gangs_is_placed_in_one_zone_and_in_order() -> None:
    text = (Path(__file__).parents[2] / "manifests" / "examples" / "gangs.yaml").read_text("utf-8")
    documents = list(yaml.safe_load_all(text))
    (job,) = (found for found in documents if found["kind"] == "Job")
    template = job["spec"]["template"]
    labels = template["metadata"]["labels"]
    workers = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"w{index}",
                "namespace": "default",
                "labels": labels | {"batch.kubernetes.io/job-completion-index": str(index)},
            },
            "spec": template["spec"],
        }
        for index in range(job["spec"]["completions"])
    ]
    zone, rack = "topology.kubernetes.io/zone", "cloud.provider.com/topology-rack"
    nodes = [node(f"n{at}", 8, labels={zone: f"z{at // 5}", rack: f"r{at // 2}"}) for at in range(10)]
    found = placed(plan(*nodes, *documents, *workers))
    assert set(found) == {"train-leader", "w0", "w1", "w2", "w3"}
    assert len({int(where[1:]) // 5 for where, _, _ in found.values()}) == 1, "one zone"
    workers_at = [found[f"w{index}"][0] for index in range(4)]
    assert workers_at == sorted(workers_at), "neighbours in number are neighbours in the network"
