"""The contract of stateless planning, sentence by sentence."""

from __future__ import annotations

import time
from typing import Any

import pytest

from extender_api import plan_document
from scheduler.claim import ClaimRules
from tests.plan.documents import SETTINGS, Object, holding, leaving, node, placed, plan, pod, waits
from topology.inventory import InventorySettings


def test_the_form_of_an_answer() -> None:
    answer = plan(node("n1", 2), pod("a", gpus=1), pod("b", gpus=8))
    assert list(answer) == ["placements", "evictions", "pending", "queues", "warnings"]
    assert answer["placements"] == [
        {
            "namespace": "team",
            "name": "a",
            "node": "n1",
            "devices": [{"index": 0, "memoryMiB": 40_000, "milli": 1000}],
            "when": "now",
        }
    ]
    (waiting,) = answer["pending"]
    assert waiting["namespace"] == "team"
    assert waiting["workload"] == "b"
    assert waiting["pods"] == ["b"]
    assert waiting["reason"]["code"] == "INSUFFICIENT_WHOLE_GPUS"
    assert "8" in waiting["reason"]["message"]
    assert waiting["reason"]["details"]["nodes"] == {"INSUFFICIENT_WHOLE_GPUS": 1}
    assert (answer["evictions"], answer["queues"], answer["warnings"]) == ([], [], [])


def test_nothing_to_plan() -> None:
    assert plan() == {"placements": [], "evictions": [], "pending": [], "queues": [], "warnings": []}


def test_a_cluster_without_nodes_says_so() -> None:
    assert waits(plan(pod("a"))) == {"a": "NO_NODES"}


# -- what is held --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["annotation", "nvidia", "hami", ""])
def test_a_pod_with_a_node_is_placed_whatever_its_backend(backend: str) -> None:
    answer = plan(node("n1", 1), holding("held", "n1", (0, 24_000, 600), backend=backend), pod("a", fraction="0.5"))
    assert waits(answer) == {"a": "INSUFFICIENT_GPU_SHARE"}
    answer = plan(node("n1", 1), holding("held", "n1", (0, 24_000, 600), backend=backend), pod("a", fraction="0.4"))
    assert placed(answer) == {"a": ("n1", [(0, 16_000, 400)], "now")}


def test_an_allocation_on_a_pod_without_node_is_ignored() -> None:
    """Anybody may write annotations on their own pods before they are bound."""
    forged = holding("forged", "n1", (0, 40_000, 1000))
    del forged["spec"]["nodeName"]
    forged["status"]["phase"] = "Pending"
    answer = plan(node("n1", 1), forged, pod("a", gpus=1))
    assert placed(answer)["a"] == ("n1", [(0, 40_000, 1000)], "now")


def test_an_allocation_that_cannot_be_true_is_named_and_ignored() -> None:
    bad = pod("bad", on="n1", annotations={"tangram.scheduler/allocation": "{"})
    elsewhere = holding("elsewhere", "n2", (0, 40_000, 1000))
    elsewhere["spec"]["nodeName"] = "n1"
    answer = plan(node("n1", 1), bad, elsewhere, pod("a", gpus=1))
    assert placed(answer)["a"][0] == "n1"
    assert [warning.split(":")[0] for warning in answer["warnings"]] == ["pod team/bad", "pod team/elsewhere"]


def test_unknown_keys_of_an_allocation_are_ignored() -> None:
    text = (
        '{"v":1,"node":"n1","backend":"x","later":{"a":1},"devices":[{"index":0,"memoryMiB":40000,"milli":1000,"z":2}]}'
    )
    held = pod("held", gpus=1, on="n1", annotations={"tangram.scheduler/allocation": text})
    assert waits(plan(node("n1", 1), held, pod("a", gpus=1))) == {"a": "INSUFFICIENT_WHOLE_GPUS"}


def test_whole_pods_of_other_schedulers_hold_devices_too() -> None:
    answer = plan(node("n1", 2), pod("other", gpus=1, on="n1", scheduler="default-scheduler"), pod("a", gpus=2))
    assert waits(answer) == {"a": "INSUFFICIENT_WHOLE_GPUS"}


def test_finished_pods_hold_nothing_and_want_nothing() -> None:
    done = pod("done", gpus=1, on="n1", status={"phase": "Succeeded"})
    failed = pod("failed", gpus=1, status={"phase": "Failed"})
    assert list(placed(plan(node("n1", 1), done, failed, pod("a", gpus=1)))) == ["a"]


def test_a_pod_on_a_node_that_is_not_there_is_reported() -> None:
    (warning,) = plan(node("n1", 1), pod("lost", on="gone"))["warnings"]
    assert "team/lost" in warning
    assert "gone" in warning


# -- what is about to be free --------------------------------------------------------------------------------------


def test_what_a_releasing_pod_holds_counts_as_about_to_be_free() -> None:
    going = leaving(holding("going", "n1", (0, 40_000, 1000), gpus=1))
    answer = plan(node("n1", 1), going, pod("a", gpus=1))
    assert placed(answer) == {"a": ("n1", [(0, 40_000, 1000)], "after-release")}


@pytest.mark.parametrize(
    ("deleted", "when"),
    [
        ("2025-12-31T23:58:00Z", "after-release"),
        ("2025-12-31T23:57:59Z", None),
        ("2026-01-01T01:00:00Z", "after-release"),
    ],
)
def test_a_pod_that_should_be_gone_for_more_than_two_minutes_is_stuck(deleted: str, when: str | None) -> None:
    going = leaving(holding("going", "n1", (0, 40_000, 1000), gpus=1), deleted)
    answer = plan(node("n1", 1), going, pod("a", gpus=1))
    if when is None:
        assert waits(answer) == {"a": "INSUFFICIENT_WHOLE_GPUS"}
    else:
        assert placed(answer)["a"][2] == when


def test_a_free_place_is_better_than_one_that_will_be_free() -> None:
    going = leaving(holding("going", "n1", (0, 40_000, 1000), gpus=1))
    answer = plan(node("n1", 1), node("n2", 4), going, pod("a", gpus=1))
    assert placed(answer) == {"a": ("n2", [(0, 40_000, 1000)], "now")}


def test_cpu_of_a_releasing_pod() -> None:
    going = leaving(pod("going", cpu="30", on="n1"))
    answer = plan(node("n1"), going, pod("small", cpu="2"), pod("large", cpu="20"))
    assert {name: when for name, (_, _, when) in placed(answer).items()} == {"small": "now", "large": "after-release"}


def test_nobody_gets_now_what_is_promised_for_later() -> None:
    """`two` needs the device that is free and the one that will be: `one` must not take the free one in between."""
    going = leaving(holding("going", "n1", (0, 40_000, 1000), gpus=1))
    objects = [
        node("n1", 2),
        going,
        pod("two", gpus=2, spec={"priority": 5}),
        pod("one", gpus=1, spec={"priority": 1}),
    ]
    answer = plan(*objects)
    assert placed(answer) == {"two": ("n1", [(0, 40_000, 1000), (1, 40_000, 1000)], "after-release")}
    assert waits(answer) == {"one": "INSUFFICIENT_WHOLE_GPUS"}


def test_what_is_not_promised_is_given_now() -> None:
    """Of three devices one is leaving and another promised with it: the third is free, and found."""
    going = leaving(holding("going", "n1", (2, 40_000, 1000), gpus=1))
    blocker = holding("blocker", "n1", (1, 20_000, 500), fraction="0.5")
    two = pod("two", fraction="0.6", devices=2, spec={"priority": 5})
    answer = plan(node("n1", 3), going, blocker, two, pod("one", fraction="0.5"))
    assert placed(answer)["two"] == ("n1", [(0, 24_000, 600), (2, 24_000, 600)], "after-release")
    assert placed(answer)["one"] == ("n1", [(1, 20_000, 500)], "now")


def test_a_share_waits_for_room_on_a_device_in_use_before_it_opens_another() -> None:
    """As KAI packs; where devices are spread it takes the free one."""
    objects = [
        node("n1", 2),
        holding("stays", "n1", (0, 20_000, 500), fraction="0.5"),
        leaving(holding("going", "n1", (0, 20_000, 500), fraction="0.5")),
        pod("a", fraction="0.5"),
    ]
    assert placed(plan(*objects)) == {"a": ("n1", [(0, 20_000, 500)], "after-release")}
    assert placed(plan(*objects, placement="spread")) == {"a": ("n1", [(1, 20_000, 500)], "now")}


def test_a_share_does_not_wait_for_a_device_that_will_be_empty() -> None:
    going = leaving(holding("going", "n1", (0, 32_000, 800), fraction="0.8"))
    assert placed(plan(node("n1", 2), going, pod("a", fraction="0.5"))) == {"a": ("n1", [(1, 20_000, 500)], "now")}


def test_whole_devices_that_nobody_wrote_down_do_not_move_when_others_go() -> None:
    """The stranger is on device 0, since device 1 is written down as another's; it stays there when that one goes."""
    stranger = pod("stranger", gpus=1, on="n1", scheduler="default-scheduler")
    going = leaving(holding("going", "n1", (1, 40_000, 1000), gpus=1))
    answer = plan(node("n1", 2), stranger, going, pod("a", gpus=1))
    assert placed(answer) == {"a": ("n1", [(1, 40_000, 1000)], "after-release")}


def test_a_waiting_pod_that_is_being_deleted_wants_nothing() -> None:
    answer = plan(node("n1", 1), leaving(pod("a", gpus=1)))
    assert (answer["placements"], answer["pending"]) == ([], [])


def test_anti_affinity_towards_a_releasing_pod_is_waited_for() -> None:
    alone = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
            ]
        }
    }
    going = leaving(pod("going", on="n1", metadata={"labels": {"app": "db"}}))
    answer = plan(node("n1", labels={"kubernetes.io/hostname": "n1"}), going, pod("a", spec={"affinity": alone}))
    assert placed(answer)["a"][2] == "after-release"


# -- shares --------------------------------------------------------------------------------------------------------


def test_a_memory_share_has_milli_0() -> None:
    assert placed(plan(node("n1", 1), pod("a", memory="5000"))) == {"a": ("n1", [(0, 5000, 0)], "now")}


def test_shares_only_where_something_honours_them() -> None:
    document = {"objects": [node("n1", 1), pod("a", fraction="0.5")]}
    assert waits(plan_document.answer(document, inventory=InventorySettings())) == {"a": "SHARES_NOT_SUPPORTED"}
    labelled = {"objects": [node("n1", 1, labels={"tangram.scheduler/shares": "true"}), pod("a", fraction="0.5")]}
    assert placed(plan_document.answer(labelled, inventory=InventorySettings()))["a"][0] == "n1"


def test_a_contradiction_waits_with_its_reason_and_disturbs_nobody() -> None:
    answer = plan(node("n1", 1), pod("bad", gpus=1, fraction="0.5"), pod("good", gpus=1))
    assert list(placed(answer)) == ["good"]
    (waiting,) = answer["pending"]
    assert waiting["reason"]["code"] == "INVALID_REQUEST"
    assert waiting["reason"]["details"]["problem"] == "FRACTION_WITH_WHOLE_DEVICES"


def test_a_deprecated_word_works_and_is_reported() -> None:
    answer = plan(node("n1", 1), pod("a", annotations={"kai.scheduler/gpu-fraction": "0.5"}))
    assert placed(answer)["a"][1] == [(0, 20_000, 500)]
    (warning,) = answer["warnings"]
    assert warning.startswith("pod team/a: ")


# -- gates and schedulers ------------------------------------------------------------------------------------------


def gated(name: str, *gates: str) -> Object:
    return pod(name, gpus=1, spec={"schedulingGates": [{"name": gate} for gate in gates]})


def test_our_gate_alone_is_pending_and_another_is_neither_demand_nor_ready() -> None:
    answer = plan(node("n1", 8), gated("ours", "tangram.scheduler/queued"), gated("theirs", "example.com/hold"))
    assert list(placed(answer)) == ["ours"]
    assert waits(answer) == {"theirs": "HELD_BY_OTHER_GATE"}


def test_waiting_pods_of_other_schedulers_are_not_planned_and_not_passed_over_in_silence() -> None:
    answer = plan(node("n1", 1), *(pod(f"p{i}", scheduler="default-scheduler") for i in range(7)))
    assert (answer["placements"], answer["pending"]) == ([], [])
    (warning,) = answer["warnings"]
    assert warning.startswith("7 waiting pods are not planned")
    assert "team/p0" in warning


def test_the_scheduler_name_is_a_setting() -> None:
    document = {"objects": [node("n1", 1), pod("a", scheduler="mine")]}
    answer = plan_document.answer(document, inventory=SETTINGS, rules=ClaimRules(scheduler_name="mine"))
    assert list(placed(answer)) == ["a"]


# -- order ---------------------------------------------------------------------------------------------------------


def test_priority_then_age_then_uid() -> None:
    def aged(name: str, created: str, priority: int, uid: str) -> Object:
        metadata = {"creationTimestamp": created, "uid": uid}
        return pod(name, gpus=1, metadata={"name": name, "namespace": "team"} | metadata, spec={"priority": priority})

    answer = plan(
        node("n1", 3),
        aged("young", "2026-01-01T00:00:02Z", 5, "3"),
        aged("second", "2026-01-01T00:00:01Z", 5, "2"),
        aged("first", "2026-01-01T00:00:01Z", 5, "1"),
        aged("important", "2026-01-01T00:00:09Z", 9, "9"),
    )
    assert list(placed(answer)) == ["important", "first", "second"]
    assert list(waits(answer)) == ["young"]


def test_a_pod_that_fits_goes_although_a_larger_one_before_it_waits() -> None:
    answer = plan(node("n1", 1), pod("large", gpus=2, spec={"priority": 9}), pod("small", gpus=1))
    assert list(placed(answer)) == ["small"]


# -- options -------------------------------------------------------------------------------------------------------


def spread_nodes() -> list[Object]:
    return [node("n1", 2), node("n2", 2), holding("held", "n1", (0, 40_000, 1000), gpus=1)]


@pytest.mark.parametrize(
    ("placement", "where"),
    [
        (None, "n1"),
        ({}, "n1"),
        ({"gpu": "binpack"}, "n1"),
        ({"gpu": "spread"}, "n2"),
        ("binpack", "n1"),
        ("spread", "n2"),
        ({"cpu": "spread"}, "n1"),
        ({"gpu": None}, "n1"),
    ],
)
def test_placement_of_gpu_pods(placement: Any, where: str) -> None:
    assert placed(plan(*spread_nodes(), pod("a", gpus=1), placement=placement))["a"][0] == where


def test_placement_of_cpu_pods_and_of_devices() -> None:
    busy = [node("n1"), node("n2"), pod("held", cpu="8", on="n1")]
    assert placed(plan(*busy, pod("a")))["a"][0] == "n1"
    assert placed(plan(*busy, pod("a"), placement={"cpu": "spread"}))["a"][0] == "n2"
    shared = [node("n1", 2), holding("held", "n1", (0, 10_000, 250), fraction="0.25")]
    assert placed(plan(*shared, pod("a", fraction="0.25")))["a"][1] == [(0, 10_000, 250)]
    spread = plan(*shared, pod("a", fraction="0.25"), placement={"device": "spread"})
    assert placed(spread)["a"][1] == [(1, 10_000, 250)]


def test_now_is_the_time_of_the_call_unless_given() -> None:
    recent = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 30))
    going = leaving(holding("going", "n1", (0, 40_000, 1000), gpus=1), recent)
    document: Object = {"objects": [node("n1", 1), going, pod("a", gpus=1)]}
    assert placed(plan_document.answer(document, inventory=SETTINGS))["a"][2] == "after-release"
    document["options"] = {"now": "2099-01-01T00:00:00+02:00"}
    assert not placed(plan_document.answer(document, inventory=SETTINGS))


def test_actions_that_are_to_come_are_accepted_and_said_to_do_nothing_yet() -> None:
    answer = plan(node("n1", 1), pod("a"), actions=["allocate", "consolidate", "reclaim", "preempt", "stale"])
    assert list(placed(answer)) == ["a"]
    assert [warning.split('"')[1] for warning in answer["warnings"]] == ["consolidate", "reclaim", "preempt"]


def test_without_the_action_allocate_nothing_is_placed() -> None:
    answer = plan(node("n1", 1), pod("fits"), pod("too-large", gpus=4), actions=["preempt"])
    assert answer["placements"] == []
    assert waits(answer) == {"too-large": "INSUFFICIENT_WHOLE_GPUS"}
    assert any("nothing is placed" in warning for warning in answer["warnings"])


def test_null_is_absent() -> None:
    document = {"objects": [node("n1", 1), pod("a")], "options": None}
    assert list(placed(plan_document.answer(document, inventory=SETTINGS))) == ["a"]
    nulls = {"actions": None, "now": None, "placement": None}
    assert list(placed(plan_document.answer({**document, "options": nulls}, inventory=SETTINGS))) == ["a"]


# -- kinds ---------------------------------------------------------------------------------------------------------


def test_a_kind_of_the_contract_is_accepted_and_said_to_do_nothing_yet() -> None:
    other = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"}}
    (warning,) = plan(node("n1", 1), pod("a"), other)["warnings"]
    assert warning.startswith("PodDisruptionBudget.policy objects are not heeded yet")


def test_other_kinds_are_reported_and_stop_nothing() -> None:
    """So that the whole of `kubectl get` or of an application's manifests can be given."""
    others = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d"}},
        {"kind": "Service", "metadata": {"name": "d"}},
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "d"}},
        {"apiVersion": "example.com/v1", "kind": "Pod", "metadata": {"name": "no-pod-of-ours"}},
    ]
    answer = plan(node("n1", 1), pod("a"), *others)
    assert list(placed(answer)) == ["a"]
    assert answer["warnings"] == [
        "Job.batch.volcano.sh objects play no part in a plan",
        "Pod.example.com objects play no part in a plan",
        "Service objects play no part in a plan",
    ]


def test_lists_stand_for_their_items() -> None:
    nodes: Object = {"apiVersion": "v1", "kind": "NodeList", "items": [node("n1", 1)]}
    for item in nodes["items"]:
        del item["kind"], item["apiVersion"]
    both = {"apiVersion": "v1", "kind": "List", "items": [nodes, {"kind": "PodList", "items": [pod("a", gpus=1)]}]}
    assert placed(plan(both)) == {"a": ("n1", [(0, 40_000, 1000)], "now")}
    assert plan({"kind": "PodList", "items": None})["placements"] == []


def test_an_object_without_apiversion_is_taken_by_its_kind() -> None:
    bare = [node("n1", 1), pod("a", gpus=1)]
    for item in bare:
        del item["apiVersion"]
    assert list(placed(plan(*bare))) == ["a"]


def test_pods_without_uid_and_without_namespace() -> None:
    first, second = pod("same", gpus=1), pod("same", gpus=1)
    second["metadata"]["namespace"] = "other"
    third = pod("same", gpus=1)
    del third["metadata"]["namespace"]
    answer = plan(node("n1", 8), first, second, third)
    assert sorted(item["namespace"] for item in answer["placements"]) == ["default", "other", "team"]


def test_a_node_without_allocatable_has_its_capacity() -> None:
    item = node("n1", 2)
    item["status"] = {"capacity": item["status"]["allocatable"]}
    assert placed(plan(item, pod("a", gpus=2)))["a"][0] == "n1"


def test_a_node_on_which_no_pod_fits_is_reported() -> None:
    item = node("n1", 2)
    del item["status"]["allocatable"]["pods"]
    answer = plan(item, pod("a", gpus=2))
    assert waits(answer) == {"a": "TOO_MANY_PODS"}
    assert answer["warnings"] == ["node n1 takes no pods: its status.allocatable says nothing about pods"]


def test_namespace_labels_count_for_pod_affinity() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"kind": "database"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    held = pod("held", on="n1", metadata={"name": "held", "namespace": "db"})
    objects = [node("n1", labels={"kubernetes.io/hostname": "n1"}), held, pod("a", spec={"affinity": affinity})]
    assert list(placed(plan(*objects))) == ["a"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "db", "labels": {"kind": "database"}}}
    assert waits(plan(*objects, namespace)) == {"a": "POD_ANTI_AFFINITY"}


def test_rules_about_nodes_hold() -> None:
    taint = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    not_ready = {"conditions": [{"type": "Ready", "status": "False"}]}
    answer = plan(
        node("n1", 1, spec=taint),
        node("n2", 1, status=not_ready),
        node("n3", 1, spec={"unschedulable": True}),
        pod("a"),
    )
    (waiting,) = answer["pending"]
    assert waiting["reason"]["details"]["nodes"] == {
        "UNTOLERATED_TAINT": 1, "NODE_NOT_READY": 1, "NODE_UNSCHEDULABLE": 1,
    }  # fmt: skip


def test_real_nodes_first_then_virtual_ones_and_never_a_share() -> None:
    virtual = node("a-virtual", 8, labels={"liqo.io/type": "virtual-node"})
    answer = plan(virtual, node("z-real", 1), pod("p1", gpus=1), pod("p2", gpus=1), pod("share", fraction="0.5"))
    assert {name: where for name, (where, _, _) in placed(answer).items()} == {"p1": "z-real", "p2": "a-virtual"}
    assert placed(answer)["p2"][1] == []
    assert list(waits(answer)) == ["share"]


# -- priority classes ----------------------------------------------------------------------------------------------


def named(name: str, of_class: str | None, **spec: Any) -> Object:
    return pod(name, gpus=1, spec=({"priorityClassName": of_class} if of_class else {}) | spec)


def priority_class(name: str, value: int, **other: Any) -> Object:
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value} | other


def winner(*objects: Object) -> str:
    """Who gets the only device."""
    (name,) = placed(plan(node("n1", 1), *objects))
    return name


def test_a_priority_class_among_the_objects() -> None:
    assert winner(named("a", None), named("b", "high"), priority_class("high", 7)) == "b"


def test_a_priority_number_wins_over_the_class() -> None:
    assert winner(named("a", None, priority=8), named("b", "high"), priority_class("high", 7)) == "a"
    assert winner(named("a", "high", priority=1), named("b", None, priority=3), priority_class("high", 7)) == "b"


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("tangram-train", "tangram-build-preemptible"),
        ("tangram-build-preemptible", "tangram-build"),
        ("tangram-build", "tangram-inference"),
        ("train", "build-preemptible"),
        ("build", "inference"),
        ("tangram-inference", "system-cluster-critical"),
        ("system-cluster-critical", "system-node-critical"),
    ],
)
def test_preset_classes_need_not_be_given(lower: str, higher: str) -> None:
    assert winner(named("a", lower), named("b", higher)) == "b"


def test_a_class_that_is_given_wins_over_a_preset() -> None:
    assert winner(named("a", "train"), named("b", "inference"), priority_class("train", 1000)) == "a"


def test_the_default_class_is_for_pods_that_name_none() -> None:
    objects = [named("a", "zero"), named("b", None), priority_class("zero", 0)]
    assert winner(*objects, priority_class("usual", 9, globalDefault=True)) == "b"
    # of several defaults the lowest counts, as in the API server
    several = [priority_class("usual", 9, globalDefault=True), priority_class("low", -5, globalDefault=True)]
    assert winner(*objects, *several) == "a"
