"""The live engine: the way of a pod, one sentence of the design at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from scheduler.instruction import BindOrder, BindRefusal, Nominate, Release, Tell, Warn
from scheduler.pod import HostPort, PodAffinityTerm, PodFacts, Toleration
from scheduler.policy import PlacementPolicy
from scheduler.reason import Code
from scheduler.record import Stage
from tests.engine.world import LIQO_TAINT, World, engine, node, pod, share, virtual_node
from topology import vocabulary
from topology.selector import Requirement


@pytest.fixture
def world() -> World:
    return World(engine())


def test_a_pod_from_gate_to_node(world: World) -> None:
    world.add_nodes(node("n1"), node("n2"))
    world.create(pod("a", whole=2))
    (release,) = world.plan()
    assert isinstance(release, Release)
    assert release.node == "n1"
    assert world.schedule("uid-a") == "n1"
    allocation = json.loads(world.pods["uid-a"].annotations[vocabulary.ALLOCATION])
    assert [device["index"] for device in allocation["devices"]] == [0, 1]
    assert {device["milli"] for device in allocation["devices"]} == {1000}
    assert world.engine.roster.records["uid-a"].stage is Stage.BOUND
    world.engine.validate()


def test_a_share_gets_its_device_in_the_binding(world: World) -> None:
    world.add_nodes(node("n1", mib=40_000))
    world.create(share("a", "0.29"))
    world.schedule_all()
    annotations = world.pods["uid-a"].annotations
    (device,) = json.loads(annotations[vocabulary.ALLOCATION])["devices"]
    assert (device["milli"], device["memoryMiB"]) == (290, 11_600)
    assert annotations[vocabulary.GPU_UUIDS] == str(device["index"])


def test_two_halves_on_two_devices(world: World) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.create(share("a", "0.5", devices=2), share("b", "0.5", devices=2), share("c", "0.1"))
    placed = world.schedule_all()
    assert set(placed) == {"a", "b"}
    assert set(world.devices_in_use().values()) == {(1000, 40_000)}


def test_twenty_times_three_tenths_on_four_devices(world: World) -> None:
    world.add_nodes(node("n1", gpus=4))
    world.create(*(share(f"p{i:02}", "0.3", created_ms=i) for i in range(20)))
    assert len(world.schedule_all()) == 12
    world.now_ms += 2000
    tells = [said for said in world.plan() if isinstance(said, Tell)]
    assert {said.reason.code for said in tells} == {Code.INSUFFICIENT_GPU_SHARE}
    assert len(tells) == 8
    assert all(said.gated for said in tells)
    world.delete("uid-p03")
    assert world.schedule_all() == {"p12": "n1"}
    world.engine.validate()


def test_a_contradiction_is_told_once_and_disturbs_nobody(world: World) -> None:
    world.add_nodes(node("n1"))
    world.create(pod("bad", whole=1, annotations={"gpu-fraction": "0.5"}), pod("good", whole=1))
    said = world.plan()
    (tell,) = [item for item in said if isinstance(item, Tell)]
    assert (tell.uid, tell.reason.code) == ("uid-bad", Code.INVALID_REQUEST)
    assert "nvidia.com/gpu" in str(tell.reason.numbers["text"])
    assert [item.uid for item in said if isinstance(item, Release)] == ["uid-good"]
    world.show("uid-bad")
    assert world.plan() == []


def test_a_deprecated_key_works_with_one_warning(world: World) -> None:
    world.add_nodes(node("n1"))
    world.create(pod("a", annotations={"kai.scheduler/gpu-fraction": "0.1"}))
    said = world.plan()
    world.show("uid-a")
    said += world.plan()
    assert len([item for item in said if isinstance(item, Warn)]) == 1
    assert world.schedule("uid-a") == "n1"
    assert world.devices_in_use() == {("n1", 0): (100, 4000)}


def test_a_share_that_would_never_learn_its_device_waits_for_its_author() -> None:
    world = World(engine(require_device_variable=True))
    world.add_nodes(node("n1"))
    lacking = share("a", "0.5")
    (main,) = lacking.containers
    world.create(lacking, replace(share("b", "0.5"), containers=(replace(main, gets_devices=True),)), pod("c", whole=1))
    assert set(world.schedule_all()) == {"b", "c"}
    reason = world.engine.roster.records["uid-a"].reason
    assert reason is not None
    assert reason.numbers["problem"] == "NO_DEVICE_VARIABLE"


def test_priority_then_age(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(
        pod("young", whole=1, created_ms=2),
        pod("old", whole=1, created_ms=1),
        pod("high", whole=1, priority=5, created_ms=3),
    )
    assert list(world.schedule_all()) == ["high"]
    world.delete("uid-high")
    assert list(world.schedule_all()) == ["old"]


def test_a_pod_that_cannot_fit_does_not_block_a_smaller_one(world: World) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.create(pod("big", whole=8, created_ms=1), pod("small", whole=1, created_ms=2))
    assert world.schedule_all() == {"small": "n1"}


def test_held_by_another_gate(world: World) -> None:
    world.add_nodes(node("n1"))
    held = pod("a", whole=1)
    world.create(replace(held, gates=(*held.gates, "example.com/quota")))
    assert world.plan() == []
    assert world.engine.roster.records["uid-a"].stage is Stage.HELD
    world.create(held)
    assert world.schedule_all() == {"a": "n1"}


def test_never_gated_pods_are_planned_in_filter(world: World) -> None:
    world.add_nodes(node("n1"), node("n2"))
    facts = pod("a", whole=1, gated=False)
    world.pods[facts.uid] = facts  # kube-scheduler is quicker than our watch
    assert world.filter("uid-a") == ["n1"]
    world.show("uid-a")
    assert world.filter("uid-a") == ["n1"], "asked again it answers the same"
    assert world.bind("uid-a", "n1")
    world.engine.validate()


def test_filter_replaces_a_plan_whose_node_is_not_offered(world: World) -> None:
    world.add_nodes(node("n1"), node("n2"), node("n3"))
    world.create(pod("a", whole=1))
    world.plan()
    assert world.filter("uid-a", ["n2", "n3"]) == ["n2"]
    assert world.filter("uid-a") == ["n2"], "the new plan holds"
    assert len(world.engine.cluster.ledger.entries) == 1


def test_a_nominated_offer_of_another_node_is_no_fact(world: World) -> None:
    world.add_nodes(node("n1"), node("n2"))
    world.create(pod("a", whole=1))
    world.plan()
    verdict = world.engine.filter(world.pods["uid-a"], ["n2"], world.now_ms, "n2")
    assert verdict.refused == {"n2": Code.PLANNED_ELSEWHERE}
    assert world.filter("uid-a") == ["n1"]


def test_a_list_of_one_that_nobody_nominated_is_the_whole_truth(world: World) -> None:
    """A volume lets the pod go to one node only, which we cannot know."""
    world.add_nodes(node("n1"), node("n2"))
    world.create(pod("a", whole=1))
    world.plan()
    assert world.schedule("uid-a", ["n2"]) == "n2"


def test_an_offered_list_expires(world: World) -> None:
    world.add_nodes(node("n1"), node("n2", gpus=0), node("n3", gpus=0))
    world.create(pod("a", whole=1))
    world.plan()
    assert not world.filter("uid-a", ["n2", "n3"])
    assert world.plan() == []
    world.now_ms += 60_000
    (nominate,) = [item for item in world.plan() if isinstance(item, Nominate)]
    assert nominate.node == "n1", "a released pod's new plan is announced by nomination"


def test_nomination_from_the_set_number_of_nodes_on() -> None:
    world = World(engine(nominate_from_nodes=2))
    world.add_nodes(node("n1"))
    world.create(pod("a", whole=1))
    (first,) = world.plan()
    world.add_nodes(node("n2"))
    world.create(pod("b", whole=1))
    (second,) = world.plan()
    assert isinstance(first, Release)
    assert isinstance(second, Release)
    assert (first.nominate, second.nominate) == (False, True)


def test_a_booking_that_expires_is_planned_again_after_a_wait_and_announced(world: World) -> None:
    world.add_nodes(node("n1"))
    world.create(pod("a", whole=1))
    world.plan()
    world.now_ms += world.engine.settings.booking_deadline_ms
    assert world.plan() == []
    world.now_ms += 2 * world.engine.settings.release_backoff_ms
    (again,) = world.plan()
    assert isinstance(again, Nominate)
    assert world.schedule("uid-a") == "n1"


def test_pods_that_never_come_to_bind_do_not_hold_up_the_rest() -> None:
    """Something that only kube-scheduler checks, a missing volume say, keeps them from filter for ever."""
    world = World(engine(max_in_flight=3))
    world.add_nodes(node("n1"))
    world.create(*(pod(f"bad{i}", whole=1) for i in range(3)))
    world.plan()
    world.create(pod("good", whole=1))
    for _ in range(20):
        world.now_ms += 30_000
        world.plan()
        if "uid-good" in world.engine.cluster.ledger.entries:
            break
    assert world.schedule("uid-good") == "n1"


def test_a_place_is_kept_while_a_binding_is_on_its_way(world: World) -> None:
    world.add_nodes(node("n1", gpus=1), node("n2", gpus=1))
    world.create(pod("a", whole=1))
    world.plan()
    world.filter("uid-a")
    order = world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms)
    assert isinstance(order, BindOrder)
    verdict = world.engine.filter(world.pods["uid-a"], ["n2"], world.now_ms)
    assert verdict.error
    world.create(pod("b", whole=1))
    world.plan()
    assert world.schedule("uid-b") == "n2"
    world.write_binding(order)
    world.engine.binding.finish("uid-a", True, world.now_ms)
    assert set(world.devices_in_use().values()) == {(1000, 40_000)}
    world.engine.validate()


def test_a_place_is_kept_while_a_binding_may_still_take_effect(world: World) -> None:
    world.add_nodes(node("n1", gpus=1), node("n2", gpus=1))
    world.create(pod("a", whole=1))
    world.plan()
    world.filter("uid-a")
    world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms)
    world.engine.binding.finish("uid-a", False, world.now_ms)
    assert world.engine.filter(world.pods["uid-a"], ["n2"], world.now_ms).error
    world.create(replace(world.pods["uid-a"], deleted_ms=world.now_ms))
    assert "uid-a" in world.engine.cluster.ledger.entries
    world.now_ms += world.engine.settings.booking_deadline_ms
    world.plan()
    assert world.engine.cluster.ledger.entries == {}
    world.engine.validate()


def test_binds_that_keep_failing_wait_and_give_their_place_up() -> None:
    world = World(engine())
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("a", whole=1))
    world.plan()
    for _ in range(5):
        assert world.filter("uid-a") == ["n1"]
        world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms)
        world.engine.binding.finish("uid-a", False, world.now_ms)
    assert world.engine.filter(world.pods["uid-a"], ["n1"], world.now_ms).error
    world.create(pod("b", whole=1))
    world.now_ms += world.engine.settings.unsure_ms
    assert world.schedule_all() == {"b": "n1"}


def test_a_late_question_does_not_make_a_bound_pod_of_others_forgotten(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    stranger = pod("other", whole=1, scheduler="default-scheduler", node_name="n1")
    world.create(stranger)
    world.engine.meet(replace(stranger, node_name=None), world.now_ms)
    world.now_ms += 600_000
    world.plan()
    world.create(share("a", "0.5"))
    assert world.schedule_all() == {}
    assert world.engine.is_bound_to("uid-other", "n1")


def test_a_nomination_is_taken_back_when_the_plan_is() -> None:
    world = World(engine(nominate_from_nodes=1))
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("a", whole=1))
    world.plan()
    assert world.pods["uid-a"].nominated_node == "n1"
    world.engine.cluster.remove_node("n1")
    world.plan()
    assert world.pods["uid-a"].nominated_node is None


def test_a_pod_is_woken_though_the_same_node_is_nominated_already(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(replace(pod("a", whole=1, gated=False), nominated_node="n1"))
    world.create(pod("other", whole=1, scheduler="default-scheduler", node_name="n1"))
    assert not world.filter("uid-a")
    world.delete("uid-other")
    instructions, _ = world.engine.plan(world.now_ms)
    assert [(item.node, item.again) for item in instructions if isinstance(item, Nominate)] == [("n1", True)]


def test_a_young_pod_that_was_never_gated_costs_no_nomination(world: World) -> None:
    world.add_nodes(node("n1"))
    world.create(pod("a", whole=1, gated=False))
    assert world.plan() == []
    assert world.schedule("uid-a") == "n1"


def test_booked_on_a_node_that_closes(world: World) -> None:
    world.add_nodes(node("n1"), node("n2"))
    world.create(pod("a", whole=1))
    world.plan()
    world.add_nodes(replace(world.nodes["n1"], unschedulable=True))
    world.plan()
    assert world.engine.cluster.ledger.entries["uid-a"].node == "n2"


def test_one_pod_that_breaks_the_search_does_not_stop_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = world.engine.cluster.place

    def broken(facts: PodFacts, *rest: Any) -> Any:
        if facts.name == "bad":
            raise RuntimeError("boom")
        return place(facts, *rest)

    monkeypatch.setattr(world.engine.cluster, "place", broken)
    world.add_nodes(node("n1"))
    world.create(pod("bad", cpu_milli=1, created_ms=1), pod("good", cpu_milli=2, created_ms=2))
    assert world.schedule_all() == {"good": "n1"}
    assert "default/bad" in caplog.text
    world.engine.validate()


def test_an_annotation_stripped_before_the_answer_to_our_bind(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(share("a", "0.6"))
    world.plan()
    world.filter("uid-a")
    order = world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms)
    assert isinstance(order, BindOrder)
    world.create(replace(world.pods["uid-a"], node_name="n1"))
    assert "uid-a" in world.engine.adoption.differences
    world.engine.binding.finish("uid-a", True, world.now_ms)
    world.create(share("b", "0.6"))
    assert world.schedule_all() == {}


def test_labels_of_a_bound_pod_change(world: World) -> None:
    beside = PodAffinityTerm("kubernetes.io/hostname", (Requirement("app", "In", ("db",)),), ("default",))
    world.add_nodes(node("n1"), node("n2"))
    world.create(pod("db", node_name="n2", scheduler="other"))
    world.create(pod("a", pod_affinity=(beside,)))
    assert world.schedule_all() == {}
    world.create(replace(world.pods["uid-db"], labels={"app": "db"}))
    assert world.schedule_all() == {"a": "n2"}


def test_bind_to_another_node_than_planned_is_refused(world: World) -> None:
    world.add_nodes(node("n1"), node("n2"))
    world.create(pod("a", whole=1))
    world.plan()
    refusal = world.engine.binding.start("uid-a", "default", "a", "n2", world.now_ms)
    assert isinstance(refusal, BindRefusal)
    assert "n1" in refusal.error


def test_a_failed_bind_keeps_the_place_for_the_retry(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("a", whole=1))
    world.plan()
    world.filter("uid-a")
    world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms)
    world.engine.binding.finish("uid-a", False, world.now_ms)
    world.create(pod("b", whole=1, priority=10))
    assert [item for item in world.plan() if isinstance(item, Release)] == []
    assert world.schedule("uid-a") == "n1"


def test_deleted_while_at_bind(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("a", whole=1))
    world.plan()
    world.filter("uid-a")
    world.engine.binding.start("uid-a", "default", "a", "n1", world.now_ms)
    world.create(replace(world.pods["uid-a"], deleted_ms=world.now_ms))
    assert "uid-a" in world.engine.cluster.ledger.entries
    world.engine.binding.finish("uid-a", False, world.now_ms, keep_booking=False)
    assert world.engine.cluster.ledger.entries == {}
    world.engine.validate()


def test_a_terminating_pod_counts_until_it_is_gone(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("a", whole=1))
    world.schedule_all()
    world.create(replace(world.pods["uid-a"], deleted_ms=world.now_ms), pod("b", whole=1))
    assert world.schedule_all() == {}
    world.delete("uid-a")
    assert world.schedule_all() == {"b": "n1"}


def test_restart_reads_allocations_back(world: World) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.create(share("a", "0.6"), share("b", "0.3"))
    world.schedule_all()
    again = World(engine(), pods=world.pods)
    again.add_nodes(*world.nodes.values())
    for uid in world.pods:
        again.show(uid)
    again.create(share("c", "0.2"), share("d", "0.1"))
    again.schedule_all()
    used = again.devices_in_use()
    assert used[("n1", 0)] == (1000, 40_000)
    assert used[("n1", 1)] == (200, 8000)
    again.engine.validate()


def test_a_restart_between_filter_and_bind(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(share("a", "0.6"))
    world.plan()
    world.filter("uid-a")
    again = World(engine(), pods=world.pods)
    again.add_nodes(*world.nodes.values())
    again.show("uid-a")
    assert again.bind("uid-a", "n1")
    again.engine.validate()


def test_forged_annotations(world: World) -> None:
    forged = {vocabulary.ALLOCATION: '{"v":1,"node":"n1","devices":[{"index":0,"memoryMiB":1,"milli":1000}]}'}
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("a", annotations=forged, scheduler="other", gated=False))
    world.create(pod("b", annotations=forged))
    assert world.engine.cluster.ledger.entries == {}
    world.create(share("c", "0.5"))
    assert world.schedule_all() == {"b": "n1", "c": "n1"}


def test_a_changed_annotation_is_reported_and_not_followed(world: World) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.create(share("a", "0.5"))
    world.schedule_all()
    bound = world.pods["uid-a"]
    text = bound.annotations[vocabulary.ALLOCATION].replace('"index":0', '"index":1')
    world.create(replace(bound, annotations={**bound.annotations, vocabulary.ALLOCATION: text}))
    assert world.engine.cluster.ledger.entries["uid-a"].allocation.devices[0].index == 0
    assert "uid-a" in world.engine.adoption.differences
    world.create(bound)
    assert world.engine.adoption.differences == {}


def test_whole_pods_of_other_schedulers_count(world: World) -> None:
    world.add_nodes(node("n1", gpus=2))
    world.create(pod("other", whole=1, scheduler="default-scheduler", node_name="n1"))
    world.create(pod("a", whole=1), pod("b", whole=1))
    assert world.schedule_all() == {"a": "n1"}


def test_a_stranger_that_takes_the_planned_place(world: World) -> None:
    world.add_nodes(node("n1", gpus=1), node("n2", gpus=1))
    world.create(pod("a", whole=1))
    world.plan()
    world.create(pod("other", whole=1, scheduler="default-scheduler", node_name="n1"))
    assert world.schedule("uid-a") == "n2"


def test_real_nodes_first_then_virtual_and_never_a_share() -> None:
    world = World(engine())
    world.add_nodes(virtual_node("a-virtual"), node("real", gpus=1))
    tolerates = (Toleration(key=LIQO_TAINT.key, operator="Exists", effect="NoExecute"),)
    world.create(*(pod(f"w{i}", whole=1, tolerations=tolerates, created_ms=i) for i in range(3)))
    world.create(share("s", "0.5", tolerations=tolerates, created_ms=9))
    assert world.schedule_all() == {"w0": "real", "w1": "a-virtual", "w2": "a-virtual"}
    assert vocabulary.ALLOCATION not in world.pods["uid-w1"].annotations
    world.create(pod("intolerant", whole=1))
    assert world.schedule_all() == {}


def test_foreign_pods_are_not_ours(world: World) -> None:
    world.add_nodes(node("n1"))
    world.create(pod("f", whole=1, scheduler="default-scheduler", gated=False))
    assert world.plan() == []
    assert world.engine.foreign == {"uid-f"}
    world.delete("uid-f")
    assert world.engine.foreign == set()


def test_preempt_drops_nodes_where_no_single_device_frees_up(world: World) -> None:
    """The count says that a device is free, but a share sits on each."""
    world.add_nodes(node("n1", gpus=2))
    world.create(share("s1", "0.6"), share("s2", "0.6"))
    world.schedule_all()
    world.add_nodes(node("n2", gpus=1))
    world.create(pod("w", whole=1))
    assert world.schedule_all() == {"w": "n2"}
    wanted = pod("high", whole=2, priority=100, gated=False)
    victims = {"n1": ["uid-s1"], "n2": ["uid-w"]}
    assert world.engine.preempt(wanted, victims) == {}
    assert world.engine.preempt(wanted, {"n1": ["uid-s1", "uid-s2"]}) == {"n1": ["uid-s1", "uid-s2"]}
    one = pod("one", whole=1, priority=100, gated=False)
    assert world.engine.preempt(one, victims) == {"n1": ["uid-s1"], "n2": ["uid-w"]}
    assert world.engine.preempt(one, {"n2": []}) == {}, "never an empty victim list"
    world.engine.validate()


def test_advise_refuses_shares_and_orders_nodes(world: World) -> None:
    world.add_nodes(node("n1", gpus=4), node("n2", gpus=4), node("n3", gpus=0))
    world.create(pod("w", whole=1))
    world.schedule_all()
    offered = ["n1", "n2", "n3"]
    asked = pod("x", whole=1, scheduler="advised", gated=False)
    assert world.engine.advise_filter(asked, offered).nodes == ["n1", "n2"]
    scores = world.engine.advise_prioritize(asked, ["n2", "n1"])
    assert [name for name, _ in scores] == ["n1", "n2"]
    assert scores[0][1] > scores[1][1]
    refused = world.engine.advise_filter(share("s", "0.5", scheduler="advised", gated=False), offered).refused
    assert set(refused.values()) == {Code.SHARES_NEED_PLAN_MODE}
    assert world.engine.cluster.ledger.bookings == {}


def test_rules_remember_pods_of_a_node_that_went_and_came_back(world: World) -> None:
    web = {"app": "web"}
    apart = PodAffinityTerm("kubernetes.io/hostname", (Requirement("app", "In", ("web",)),), ("default",))
    world.add_nodes(node("n1"))
    world.create(pod("a", labels=web, node_name="n1", scheduler="other"))
    world.engine.cluster.remove_node("n1")
    world.create(pod("late", labels=web, node_name="n2", scheduler="other"))
    world.add_nodes(node("n1"), node("n2"))
    world.create(pod("b", labels=web, pod_anti_affinity=(apart,)))
    assert world.schedule_all() == {}
    world.delete("uid-late")
    assert world.schedule_all() == {"b": "n2"}


def test_the_same_facts_twice_are_no_change(world: World) -> None:
    fake = replace(node("n1"), labels={"vcluster.loft.sh/fake-node": "true"})
    assert world.engine.cluster.set_node(fake)
    growth = world.engine.cluster.growth
    assert not world.engine.cluster.set_node(fake)
    assert world.engine.cluster.growth == growth


def test_many_odd_pods_do_not_keep_others_from_their_turn(world: World) -> None:
    """Pods with host ports are like no other; each needs a search of its own whenever something grows."""
    world.add_nodes(node("n1"))
    port = (HostPort("TCP", "", 80),)
    taken = pod("taken", node_name="n1", scheduler="other")
    world.create(replace(taken, containers=(replace(taken.containers[0], host_ports=port),)))
    for i in range(100):
        odd = pod(f"odd{i}", created_ms=i)
        world.create(replace(odd, containers=(replace(odd.containers[0], host_ports=port),)))
    world.create(pod("plain", created_ms=1000))
    for _ in range(10):
        world.create(pod("flutters", node_name="n1", scheduler="other"))
        world.delete("uid-flutters")
        world.engine.plan(world.now_ms)
        world.now_ms += 10
    assert "uid-plain" in world.engine.cluster.ledger.entries
    world.delete("uid-taken")
    world.now_ms += 1000
    assert world.plan()


def test_spread_policy() -> None:
    world = World(engine(PlacementPolicy.from_names(cpu="spread", gpu="spread", device="spread")))
    world.add_nodes(node("n1", gpus=2), node("n2", gpus=2))
    world.create(*(share(f"s{i}", "0.2", created_ms=i) for i in range(4)))
    world.schedule_all()
    assert {milli for milli, _ in world.devices_in_use().values()} == {200}


def test_a_failed_release_backs_off_and_starves_nobody(world: World) -> None:
    world.add_nodes(node("n1", gpus=1))
    world.create(pod("a", whole=1, created_ms=1), pod("b", whole=1, created_ms=2))
    instructions, _ = world.engine.plan(world.now_ms)
    assert [item.uid for item in instructions] == ["uid-a"]
    world.engine.released("uid-a", False, world.now_ms)
    assert world.schedule_all() == {"b": "n1"}
    world.delete("uid-b")
    world.now_ms += 120_000
    assert world.schedule_all() == {"a": "n1"}


def test_in_flight_is_bounded() -> None:
    world = World(engine(max_in_flight=3, round_limit=2))
    world.add_nodes(node("n1", gpus=4), node("n2", gpus=4))
    world.create(*(pod(f"p{i}", whole=1, created_ms=i) for i in range(8)))
    assert len(world.plan()) == 3
    for uid in ("uid-p0", "uid-p1", "uid-p2"):
        world.schedule(uid)
    assert len(world.plan()) == 3


def test_standby_gives_its_plans_back(world: World) -> None:
    world.add_nodes(node("n1"))
    world.create(pod("a", whole=1))
    world.plan()
    world.engine.stand_down(world.now_ms)
    assert world.engine.in_flight == 0
    world.engine.validate()


def test_a_pod_that_changes_its_mind(world: World) -> None:
    world.add_nodes(node("n1"), node("n2", labels={"zone": "b"}))
    world.create(pod("a", whole=1))
    world.engine.plan(world.now_ms)
    world.create(replace(world.pods["uid-a"], node_selector={"zone": "b"}))
    assert world.schedule_all() == {"a": "n2"}
