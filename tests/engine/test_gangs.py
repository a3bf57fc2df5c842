"""Gangs in the live engine: whole or nothing while they come, at bind, when members fail, and after restarts."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import pytest

from scheduler.explanation import explain
from scheduler.instruction import BindOrder, BindRefusal, BindWait
from scheduler.pod import Toleration
from scheduler.reason import Code
from scheduler.record import Stage
from scheduler.remedy import Change
from tests.engine.gang_world import RACK, GangWorld, group, member, members
from tests.engine.world import node, pod, virtual_node
from tests.replay.queued import in_queue, queue, released
from topology import vocabulary


@pytest.fixture
def world() -> GangWorld:
    """Four nodes with two devices, two in each rack."""
    made = GangWorld()
    made.add_nodes(*(node(f"n{at}", gpus=2, labels={RACK: f"r{at // 2}"}) for at in range(4)))
    return made


def waiting_gang(world: GangWorld, count: int = 3, minimum: int | None = None, **spec: Any) -> None:
    """A gang `g` all of whose members but the last are at bind."""
    world.set_group(group("g", count if minimum is None else minimum, **spec))
    world.create(*members("g", count))
    world.plan()
    for at in range(count - 1):
        assert isinstance(world.start_bind(f"uid-g-{at}"), BindWait)


def stage_of(world: GangWorld, name: str) -> Stage:
    return world.engine.roster.records[f"uid-{name}"].stage


# -- coming together -------------------------------------------------------------------------------------------------


def test_a_slow_creator(world: GangWorld) -> None:
    world.set_group(group("g", 3))
    for at in range(2):
        world.create(member("g", at))
        assert released(world.plan()) == []
        reason = world.reason("g-0")
        assert reason.code is Code.GANG_INCOMPLETE
        assert (reason.numbers["present"], reason.numbers["needed"]) == (at + 1, 3)
    world.create(member("g", 2))
    assert sorted(released(world.plan())) == ["g-0", "g-1", "g-2"]
    world.check()


def test_the_group_comes_after_its_pods(world: GangWorld) -> None:
    world.create(*members("g", 3))
    assert released(world.plan()) == []
    assert world.reason("g-1").code is Code.GANG_NOT_FOUND
    world.set_group(group("g", 3))
    assert len(released(world.plan())) == 3


def test_too_large_is_not_placed_in_part(world: GangWorld) -> None:
    world.set_group(group("g", 9))
    world.create(*members("g", 9))
    assert released(world.plan()) == []
    reason = world.reason("g-0")
    assert reason.code is Code.GANG_DOES_NOT_FIT
    assert (reason.numbers["pods"], reason.numbers["fitting"]) == (9, 8)
    assert world.engine.in_flight == 0
    world.add_nodes(node("n9", gpus=1))
    assert len(released(world.plan())) == 9


@pytest.mark.parametrize(("before", "after", "starts"), [(4, 2, True), (2, 4, False)])
def test_a_changed_minimum(world: GangWorld, before: int, after: int, starts: bool) -> None:
    world.set_group(group("g", before))
    world.create(member("g", 0))
    world.plan()
    world.set_group(group("g", after))
    world.create(member("g", 1))
    assert (len(released(world.plan())) == 2) == starts


def test_a_raised_minimum_takes_back_what_is_not_bound(world: GangWorld) -> None:
    waiting_gang(world, 2)
    world.set_group(group("g", 3))
    world.plan()
    world.wake()
    assert world.booked("g") == set()
    assert world.waiting == {}
    world.create(member("g", 2))
    world.now_ms += 2000
    world.run()
    assert len(world.bound("g")) == 3


def test_a_lowered_minimum_needs_no_more_pods(world: GangWorld) -> None:
    waiting_gang(world, 3)
    world.set_group(group("g", 2))
    world.delete("uid-g-2")
    world.run()
    assert world.bound("g") == {"g-0", "g-1"}


def test_a_group_that_goes_takes_its_plan_back(world: GangWorld) -> None:
    waiting_gang(world, 3)
    world.drop_group(group("g", 3))
    world.later(10)
    assert world.booked("g") == set()
    assert world.waiting == {}
    assert world.reason("g-0").code in (Code.GANG_NOT_FOUND, Code.BACKING_OFF)


def test_a_pod_changes_its_gang(world: GangWorld) -> None:
    world.set_group(group("g", 3))
    world.set_group(group("h", 1, topologyConstraint={"requiredTopologyLevel": RACK}))
    world.create(*members("g", 3))
    world.plan()
    world.change("uid-g-2", labels={vocabulary.POD_GROUP.key: "h"})
    world.plan()
    assert world.booked("g") == set(), "two of three have nothing to gain from their places"
    assert world.booked("h") == {"g-2"}
    world.create(member("g", 3))
    world.now_ms += 2000
    world.run()
    assert len(world.bound("g")) == 3
    assert world.bound("h") == {"g-2"}


def test_a_pod_with_a_problem_stops_nobody(world: GangWorld) -> None:
    sub = [{"name": "a", "minMember": 2}]
    world.set_group(group("g", None, subGroups=sub))
    world.create(member("g", 0, subgroup="a"), member("g", 1, subgroup="nowhere"), member("g", 2, subgroup="a"))
    assert released(world.plan()) == ["g-0", "g-2"]
    assert world.reason("g-1").code is Code.GANG_INVALID
    world.run()
    assert world.bound("g") == {"g-0", "g-2"}


def test_subgroups_are_whole_together(world: GangWorld) -> None:
    sub = [{"name": "lead", "minMember": 1}, {"name": "work", "minMember": 2}]
    world.set_group(group("g", None, subGroups=sub))
    world.create(member("g", 0, subgroup="work"), member("g", 1, subgroup="work"))
    assert released(world.plan()) == []
    assert world.reason("g-0").numbers["subgroup"] == "lead"
    world.create(member("g", 2, subgroup="lead"))
    world.run()
    assert len(world.bound("g")) == 3


# -- the barrier -----------------------------------------------------------------------------------------------------


def test_the_first_goes_alone_and_the_others_after_it(world: GangWorld) -> None:
    waiting_gang(world, 4)
    assert world.flying == {}
    order = world.start_bind("uid-g-3")
    assert isinstance(order, BindOrder)
    assert order.opens is not None
    world.wake()
    assert list(world.flying) == ["uid-g-3"]
    world.land("uid-g-3")
    world.wake()
    assert sorted(world.flying) == ["uid-g-0", "uid-g-1", "uid-g-2"]
    ranks = {order.annotations[vocabulary.RANK] for order in world.flying.values()}
    assert len(ranks) == 3


@pytest.mark.parametrize("how", ["gone", "elsewhere"])
@pytest.mark.parametrize("last", range(3))
def test_the_first_fails_for_certain(world: GangWorld, how: str, last: int) -> None:
    world.set_group(group("g", 3))
    world.create(*members("g", 3))
    world.plan()
    order = [at for at in range(3) if at != last] + [last]
    for at in order:
        world.start_bind(f"uid-g-{at}")
    first = f"uid-g-{last}"
    assert list(world.flying) == [first]
    if how == "gone":
        world.pods.pop(first)
    world.land(first, how)
    world.wake()
    assert world.waiting == {}
    assert world.bound("g") == set()
    assert world.booked("g") == set()
    if how == "gone":
        world.show(first)
        world.create(member("g", 7))
    else:
        world.show(first)  # the watch never showed it elsewhere: it is planned again
    world.now_ms += 2000
    world.run()
    assert len(world.bound("g")) == 3


@pytest.mark.parametrize("how", ["unheard", "lost"])
def test_a_first_that_may_be_bound_goes_forward(world: GangWorld, how: str) -> None:
    waiting_gang(world, 3)
    world.start_bind("uid-g-2")
    world.land("uid-g-2", how)
    world.wake()
    assert sorted(world.flying) == ["uid-g-0", "uid-g-1"]
    world.land("uid-g-0")
    world.land("uid-g-1")
    world.now_ms += 30_000
    world.show("uid-g-2")
    world.run()
    assert len(world.bound("g")) == 3


def test_when_nothing_came_of_the_first_the_gang_comes_together_anew(world: GangWorld) -> None:
    """The API server was away: all Bindings are lost, and after a while none can take effect any more."""
    waiting_gang(world, 3)
    world.start_bind("uid-g-2")
    world.land("uid-g-2", "lost")
    world.wake()
    world.land("uid-g-0", "lost")
    world.land("uid-g-1", "lost")
    world.later(25_000)
    assert isinstance(world.start_bind("uid-g-1"), BindWait)
    assert isinstance(world.start_bind("uid-g-0"), BindWait)
    world.check()


@pytest.mark.parametrize("how", ["gone", "elsewhere", "lost", "unheard", "node"])
@pytest.mark.parametrize("position", [1, 2, 3])
def test_after_the_first_only_forward(world: GangWorld, how: str, position: int) -> None:
    waiting_gang(world, 4)
    world.start_bind("uid-g-3")
    world.land("uid-g-3")
    world.wake()
    others = sorted(world.flying)
    failing = others[position - 1]
    before = {uid: order.node for uid, order in world.flying.items()}
    for uid in others:
        if uid != failing:
            world.land(uid)
        elif how == "gone":
            world.pods.pop(uid)
            world.land(uid, how)
            world.show(uid)
            world.create(member("g", 9))
        elif how == "node":
            world.drop_node(world.flying[uid].node)
            world.land(uid, "lost")
        else:
            world.land(uid, how)
            world.show(uid)
    assert {uid: world.pods[uid].node_name for uid in others if uid != failing} == {
        uid: where for uid, where in before.items() if uid != failing
    }
    world.plan()
    stay = {uid: facts.node_name for uid, facts in world.pods.items() if facts.node_name is not None}
    for _ in range(4):
        world.now_ms += 30_000
        world.run(3)
    assert {uid: world.pods[uid].node_name for uid in stay} == stay, "what is bound stays"
    assert len(world.bound("g")) == 4
    assert world.evicted() == []


def test_time_out_at_the_barrier(world: GangWorld) -> None:
    waiting_gang(world, 3)
    world.change("uid-g-2", gates=("example.com/other",))
    world.change("uid-g-2", gates=())  # comes, but kube-scheduler never takes it
    for _ in range(9):
        world.later(10_000)
    world.later(1000)
    assert world.waiting == {}
    assert world.bound("g") == set()
    world.now_ms += 400_000
    world.run()
    assert len(world.bound("g")) == 3


def test_time_out_waits_for_what_becomes_of_the_first(world: GangWorld) -> None:
    """The API server hangs: whether the gang has begun is not known, so nobody may give a place away."""
    waiting_gang(world, 3)
    world.start_bind("uid-g-2")
    world.later(90_000)
    assert world.waiting == {}
    assert world.booked("g") == {"g-0", "g-1", "g-2"}
    world.land("uid-g-2")
    world.run()
    assert len(world.bound("g")) == 3


@pytest.mark.parametrize("terminates", [True, False])
@pytest.mark.parametrize("at", [0, 2])
def test_a_member_deleted_while_others_wait(world: GangWorld, at: int, terminates: bool) -> None:
    waiting_gang(world, 3)
    if terminates:
        world.change(f"uid-g-{at}", deleted_ms=world.now_ms)
    else:
        world.delete(f"uid-g-{at}")
    world.plan()
    world.wake()
    assert world.waiting == {}, "at once"
    assert world.booked("g") == set()
    world.delete(f"uid-g-{at}")
    world.create(member("g", 9))
    world.now_ms += 2000
    world.run()
    assert len(world.bound("g")) == 3


def test_the_first_is_deleted_while_its_binding_is_on_its_way(world: GangWorld) -> None:
    world.set_group(group("g", 2))
    world.create(*members("g", 3))
    world.plan()
    world.start_bind("uid-g-0")
    world.start_bind("uid-g-1")
    assert list(world.flying) == ["uid-g-1"]
    world.delete("uid-g-1")
    world.plan()
    world.wake()
    world.land("uid-g-1", "gone")
    world.at_bind()
    world.now_ms += 2000
    world.run()
    assert world.bound("g") == {"g-0", "g-2"}


def test_asked_again_for_the_first_while_its_binding_flies(world: GangWorld) -> None:
    """kube-scheduler restarted: the same order again, and its place is not free to be given away."""
    waiting_gang(world, 3)
    order = world.start_bind("uid-g-2")
    again = world.start_bind("uid-g-2")
    assert again == order
    world.check()
    world.delete("uid-g-0")
    world.plan()
    assert world.booked("g") == {"g-2"}, "it may be bound any moment"


def test_asked_again_while_it_waits(world: GangWorld) -> None:
    waiting_gang(world, 3)
    again = world.start_bind("uid-g-0")
    assert isinstance(again, BindWait)


def test_the_planned_node_is_not_offered(world: GangWorld) -> None:
    """Planned anew inside the domain of the others."""
    world.add_nodes(node("n4", gpus=2, labels={RACK: "r0"}), node("n5", gpus=2, labels={RACK: "r1"}))
    waiting_gang(world, 3, topologyConstraint={"requiredTopologyLevel": RACK})
    rack_of = {name: facts.labels[RACK] for name, facts in world.nodes.items()}
    planned = world.engine.cluster.ledger.entries["uid-g-2"].node
    home = rack_of[planned]
    offered = [name for name in sorted(world.nodes) if name != planned]
    assert not world.filter("uid-g-2", offered)
    world.plan()
    where = world.engine.cluster.ledger.entries["uid-g-2"].node
    assert where != planned
    assert rack_of[where] == home
    assert len(world.waiting) == 2, "the others keep waiting"
    world.run()
    assert {rack_of[str(world.pods[f"uid-g-{at}"].node_name)] for at in range(3)} == {home}


def test_the_planned_node_is_not_offered_and_no_other_will_do(world: GangWorld) -> None:
    """A gang that fills its rack: all of it moves to the other rack, or waits; nobody waits at bind for nothing."""
    waiting_gang(world, 4, topologyConstraint={"requiredTopologyLevel": RACK})
    planned = world.engine.cluster.ledger.entries["uid-g-3"].node
    home = world.nodes[planned].labels[RACK]
    offered = [name for name, facts in sorted(world.nodes.items()) if facts.labels[RACK] != home]
    assert not world.filter("uid-g-3", offered)
    world.plan()
    world.wake()
    assert world.waiting == {}
    assert {world.engine.cluster.ledger.entries[f"uid-g-{at}"].node for at in range(4)} == set(offered)


@pytest.mark.parametrize("how", ["bound", "elsewhere"])
def test_a_member_is_deleted_while_the_first_binding_flies(world: GangWorld, how: str) -> None:
    """The others give their places back; when the first is bound nevertheless, they follow it."""
    waiting_gang(world, 3)
    first = world.start_bind("uid-g-2")
    world.delete("uid-g-0")
    world.plan()
    world.wake()
    assert world.booked("g") == {"g-2"}
    assert world.start_bind("uid-g-2") == first
    world.land("uid-g-2", how)
    world.show("uid-g-2")
    world.create(member("g", 7))
    world.plan()
    assert (len(world.bound("g")), len(world.booked("g"))) == ((1, 2) if how == "bound" else (0, 3))
    world.now_ms += 2000
    world.run()
    assert len(world.bound("g")) == 3


@pytest.mark.parametrize("lands", [True, False])
def test_another_replica_acts_in_the_middle(world: GangWorld, lands: bool) -> None:
    waiting_gang(world, 3)
    world.start_bind("uid-g-2")
    world.engine.stand_down(world.now_ms)
    world.wake()
    assert world.waiting == {}
    world.land("uid-g-2", "bound" if lands else "elsewhere")
    world.engine.take_over(world.now_ms)
    world.now_ms += 2000
    if not lands:
        world.show("uid-g-2")
    world.run()
    assert len(world.bound("g")) == 3


def test_one_member_never_comes_to_bind(world: GangWorld) -> None:
    """Its booking expires and it is planned anew; the others keep their places meanwhile."""
    waiting_gang(world, 3)
    world.later(61_000)
    assert stage_of(world, "g-2") is Stage.WAITING
    assert len(world.waiting) == 2
    world.later(5_000)
    assert stage_of(world, "g-2") is Stage.RELEASED
    world.run()
    assert len(world.bound("g")) == 3


@pytest.mark.parametrize("how", ["goes", "closes"])
@pytest.mark.parametrize("room", [True, False])
def test_a_node_goes_while_members_wait(world: GangWorld, how: str, room: bool) -> None:
    if not room:
        for name in ("n2", "n3"):
            world.drop_node(name)
    waiting_gang(world, 4 if not room else 3)
    planned = world.engine.cluster.ledger.entries["uid-g-0"].node
    if how == "goes":
        world.drop_node(planned)
    else:
        world.add_nodes(replace(world.nodes[planned], unschedulable=True))
    world.plan()
    world.wake()
    if not room:
        assert world.booked("g") == set()
        assert world.waiting == {}
        world.add_nodes(node(planned, gpus=2, labels={RACK: "r0"}))
    world.now_ms += 2000
    world.run()
    assert len(world.bound("g")) == (4 if not room else 3)
    assert room == (planned not in {facts.node_name for facts in world.pods.values()})


def test_a_gang_larger_than_what_may_be_in_flight_is_completed() -> None:
    """One of six is refused by kube-scheduler; that the others hold more than may be in flight is no reason to wait."""
    world = GangWorld(settings={"max_in_flight": 4})
    world.add_nodes(node("n1", gpus=4), node("n2", gpus=4), node("n3", gpus=4))
    waiting_gang(world, 6)
    planned = world.engine.cluster.ledger.entries["uid-g-5"].node
    assert not world.filter("uid-g-5", [name for name in world.nodes if name != planned])
    world.plan()
    assert stage_of(world, "g-5") is Stage.RELEASED
    world.run()
    assert len(world.bound("g")) == 6


def test_refused_is_told_why(world: GangWorld) -> None:
    waiting_gang(world, 3)
    refusal = world.engine.binding.start("uid-g-2", "default", "g-2", "n9", world.now_ms)
    assert isinstance(refusal, BindRefusal)


# -- after a restart -------------------------------------------------------------------------------------------------

POINTS = ["created", "planned", "some at bind", "all at bind", "first bound", "first unheard", "some bound", "whole"]


def go_to(world: GangWorld, point: str) -> None:
    """Brings a gang of four so far on its way."""
    world.set_group(group("g", 4, topologyConstraint={"requiredTopologyLevel": RACK}))
    world.create(*members("g", 4))
    if point == "created":
        return
    world.plan()
    for at in range({"planned": 0, "some at bind": 3}.get(point, 4)):
        world.start_bind(f"uid-g-{at}")
    if point in ("planned", "some at bind", "all at bind"):
        return
    world.land("uid-g-3", "unheard" if "unheard" in point else "bound")
    world.wake()
    if point in ("some bound", "whole"):
        for uid in sorted(world.flying)[: 1 if point == "some bound" else 4]:
            world.land(uid)


@pytest.mark.parametrize("point", POINTS)
def test_restart_at_each_step(world: GangWorld, point: str) -> None:
    """Others of higher priority want all the room; a gang that has begun is completed before them, in its rack."""
    go_to(world, point)
    begun = len(world.bound("g"))
    world.create(*(pod(f"other-{at}", whole=2, priority=9) for at in range(4)))
    world.restart()
    world.run()
    assert len(world.bound("g")) == (4 if begun else 0)
    if begun:
        racks = {world.nodes[str(world.pods[f"uid-g-{at}"].node_name)].labels[RACK] for at in range(4)}
        assert len(racks) == 1
        numbers = {world.pods[f"uid-g-{at}"].annotations[vocabulary.RANK] for at in range(4)}
        assert len(numbers) == 4, "ranks that were given before the restart are not given again"
        assert len(world.running()) == 4 + 2
    for at in range(4):
        if f"uid-other-{at}" in world.pods:
            world.delete(f"uid-other-{at}")
    world.run()
    assert len(world.bound("g")) == 4


@pytest.mark.parametrize("strict", [True, False])
def test_a_gang_below_its_minimum_comes_before_any_queue(world: GangWorld, strict: bool) -> None:
    world.set_queues(queue("rich", quota=100, strict_fifo=strict), queue("poor", quota=0, strict_fifo=strict))
    world.set_group(group("g", 4, queue="poor"))
    world.create(*members("g", 4))
    world.run()
    world.end_badly("g-0", "g-1")
    world.create(in_queue("poor", pod("ahead", whole=2, priority=50)))
    world.create(*(in_queue("rich", pod(f"rich-{at}", whole=2, priority=9)) for at in range(3)))
    world.create(*members("g", 2, first=4))
    world.restart()
    world.run()
    assert len(world.bound("g")) == 4
    assert len(world.running("rich")) == 2


# -- more than the minimum -------------------------------------------------------------------------------------------


def test_growth_comes_after_first_steps_of_equal_priority(world: GangWorld) -> None:
    world.set_group(group("g", 2))
    world.set_group(group("h", 4))
    world.create(*members("g", 8, created_ms=1))
    world.create(*members("h", 4, created_ms=2))
    world.run()
    assert len(world.bound("h")) == 4
    assert len(world.bound("g")) == 4
    world.end(*sorted(world.bound("h")))
    world.run()
    assert len(world.bound("g")) == 8


def test_growth_of_higher_priority_comes_before_first_steps(world: GangWorld) -> None:
    world.set_group(group("g", 2))
    world.set_group(group("h", 4))
    world.create(*members("g", 8, priority=5))
    world.create(*members("h", 4))
    world.run()
    assert len(world.bound("g")) == 8
    assert world.bound("h") == set()


def test_two_elastic_gangs_grow_fairly(world: GangWorld) -> None:
    world.set_queues(queue("a", quota=0), queue("b", quota=0))
    for name in ("a", "b"):
        world.set_group(group(name, 2, queue=name))
        world.create(*members(name, 8))
    world.run()
    assert (len(world.bound("a")), len(world.bound("b"))) == (4, 4)


@pytest.mark.parametrize("limit", [3, 4, 5])
def test_the_limit_holds_for_the_whole_step(world: GangWorld, limit: int) -> None:
    world.set_queues(queue("a", quota=0, limit=limit))
    world.set_group(group("g", 4, queue="a"))
    world.create(*members("g", 6))
    world.run()
    assert len(world.bound("g")) == (limit if limit >= 4 else 0)
    if limit < 4:
        reason = world.reason("g-0")
        assert reason.code is Code.OVER_LIMIT
        assert (reason.numbers["asked"], reason.numbers["bound"]) == (4000, 3000)


@pytest.mark.parametrize("quota", [3, 4])
def test_what_cannot_give_way_stays_within_quota_as_a_whole(world: GangWorld, quota: int) -> None:
    world.set_queues(queue("a", quota=quota))
    world.set_group(group("g", 4, queue="a", preemptibility=vocabulary.NON_PREEMPTIBLE))
    world.create(*members("g", 6))
    world.run()
    assert len(world.bound("g")) == (4 if quota == 4 else 0)
    assert world.reason("g-5").code is Code.NON_PREEMPTIBLE_OVER_QUOTA


def test_a_strict_queue_with_a_gang_at_its_head(world: GangWorld) -> None:
    world.set_queues(queue("a", strict_fifo=True), queue("b"))
    world.create(in_queue("b", pod("holds", whole=2)))
    world.run()
    world.set_group(group("g", 8, queue="a"))
    world.create(*members("g", 8, created_ms=1))
    world.create(in_queue("a", pod("behind", whole=1, created_ms=2)), in_queue("b", pod("elsewhere", whole=1)))
    world.run()
    assert world.running() == {"holds", "elsewhere"}
    world.end("holds", "elsewhere")
    world.run()
    assert len(world.bound("g")) == 8
    assert world.running("a") == set()


# -- below the minimum -----------------------------------------------------------------------------------------------


def running_gang(world: GangWorld, minimum: int = 3, count: int = 3, **spec: Any) -> None:
    """A gang that runs."""
    world.set_group(group("g", minimum, topologyConstraint={"requiredTopologyLevel": RACK}, **spec))
    world.create(*members("g", count))
    world.run()
    assert len(world.bound("g")) == count


def test_completed_by_a_new_pod_in_the_same_domain(world: GangWorld) -> None:
    running_gang(world)
    home = world.nodes[str(world.pods["uid-g-0"].node_name)].labels[RACK]
    world.end_badly("g-1")
    world.later(59_000)
    assert world.evicted() == []
    world.create(member("g", 8))
    world.run()
    assert world.nodes[str(world.pods["uid-g-8"].node_name)].labels[RACK] == home
    world.later(120_000)
    assert world.evicted() == []


def test_too_long_below_the_minimum(world: GangWorld) -> None:
    running_gang(world)
    world.end_badly("g-1")
    world.plan()
    assert world.engine.next_deadline_ms(world.now_ms) is not None
    world.later(59_999)
    assert world.evicted() == []
    world.later(1)
    assert world.evicted() == ["g-0", "g-2"]
    world.later(59_000)
    assert world.evicted() == ["g-0", "g-2"], "not again before another grace"
    world.change("uid-g-0", deleted_ms=world.now_ms)
    world.later(1_000)
    assert world.evicted() == ["g-0", "g-2", "g-2"], "what is on its way out is not told again"


@pytest.mark.parametrize(("grace", "evicted_after_ms"), [("5s", 5000), ("0s", 0), ("-1s", None)])
def test_the_group_says_how_long(world: GangWorld, grace: str, evicted_after_ms: int | None) -> None:
    running_gang(world, stalenessGracePeriod=grace)
    world.end_badly("g-1")
    world.plan()
    if evicted_after_ms:
        world.later(evicted_after_ms - 1)
        assert world.evicted() == []
        world.later(1)
    elif evicted_after_ms is None:
        world.later(10_000_000)
    assert bool(world.evicted()) == (evicted_after_ms is not None)


def test_nobody_is_evicted_while_the_last_is_on_its_way(world: GangWorld) -> None:
    running_gang(world)
    world.end_badly("g-1")
    world.later(50_000)
    world.create(member("g", 8))
    world.plan()
    world.later(15_000)
    assert world.evicted() == []
    assert isinstance(world.start_bind("uid-g-8"), BindOrder)
    world.land("uid-g-8")
    world.later(120_000)
    assert world.evicted() == []


def test_those_that_ran_to_their_end_are_no_reason(world: GangWorld) -> None:
    running_gang(world)
    world.end("g-0")
    world.later(120_000)
    world.end("g-1")
    world.later(120_000)
    assert world.evicted() == []


def test_news_of_the_group_change_nothing_for_those_that_ended(world: GangWorld) -> None:
    running_gang(world)
    world.end("g-0")
    near = {"requiredTopologyLevel": RACK}
    for count in range(3):
        world.set_group(group("g", 3, topologyConstraint=near, queue=f"another-{count}"))
        world.later(61_000)
    assert world.evicted() == []


def test_news_of_the_group_do_not_prolong_the_grace(world: GangWorld) -> None:
    running_gang(world)
    world.end_badly("g-0", "g-1")
    world.plan()
    world.later(40_000)
    world.set_group(group("g", 3, stalenessGracePeriod="50s"))
    world.later(10_000)
    assert world.evicted() == ["g-2"]


def test_the_owner_deletes_all_one_after_the_other(world: GangWorld) -> None:
    running_gang(world)
    for at in range(3):
        world.change(f"uid-g-{at}", deleted_ms=world.now_ms)
        world.later(10_000)
    world.later(120_000)
    assert world.evicted() == []


def test_an_old_note_that_it_was_stale_is_no_reason_to_end_a_gang_that_comes_anew(world: GangWorld) -> None:
    """KAI's annotation stays on the group when its pods are made anew."""
    note = {vocabulary.STALE_SINCE.key: "1970-01-01T00:00:01Z"}
    world.set_group(replace(group("g", 3), annotations=note))
    world.create(*members("g", 3))
    world.plan()
    for at in range(3):
        world.start_bind(f"uid-g-{at}")
    world.land("uid-g-2")
    world.later(10)
    assert world.evicted() == []


def test_a_note_from_before_a_restart_counts(world: GangWorld) -> None:
    world.now_ms = 10_000_000
    note = {vocabulary.STALE_SINCE.key: "1970-01-01T00:00:01Z"}
    world.set_group(group("g", 3))
    world.create(*members("g", 3))
    world.run()
    world.end_badly("g-1")
    world.set_group(replace(group("g", 3), annotations=note))
    world.restart()
    world.later(10)
    assert world.evicted() == ["g-0", "g-2"]


# -- many ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_fifty_gangs_and_room_for_thirty(seed: int) -> None:
    chance = random.Random(seed)
    world = GangWorld()
    world.add_nodes(*(node(f"n{at:02}", gpus=6, pods=200) for at in range(50)))
    pods = [facts for at in range(50) for facts in members(f"g{at:02}", 10, cpu_milli=100)]
    chance.shuffle(pods)
    for at in range(50):
        world.set_group(group(f"g{at:02}", 10))
    while pods:
        count = chance.randint(1, 120)
        world.create(*(replace(facts, created_ms=500 - len(pods)) for facts in pods[:count]))
        pods = pods[count:]
        world.plan()
        if chance.random() < 0.5:
            world.at_bind()
    world.run(4)
    sizes = sorted(len(world.bound(f"g{at:02}")) for at in range(50))
    assert sizes == [0] * 20 + [10] * 30
    assert world.engine.in_flight == 0


def test_a_single_pod_behind_a_gang_that_does_not_fit() -> None:
    """500 nodes, all but one full: the single pod is placed in the round in which the gang is tried in vain."""
    world = GangWorld()
    world.add_nodes(*(node(f"n{at:03}", gpus=1) for at in range(500)))
    world.create(*(pod(f"runs-{at:03}", whole=1, node_name=f"n{at:03}") for at in range(499)))
    world.set_group(group("g", 16))
    world.create(*members("g", 16, created_ms=1, priority=5))
    world.create(pod("single", whole=1, created_ms=2))
    world.engine.plan(world.now_ms)
    assert world.engine.roster.records["uid-single"].stage is Stage.PLANNED
    assert world.reason("g-0").numbers["fitting"] in (0, 1)
    started = time.perf_counter()
    for _ in range(20):
        world.now_ms += 50
        world.engine.plan(world.now_ms)
    assert time.perf_counter() - started < 1, "what has been found out is not searched for again"


def test_a_gang_is_in_one_queue_that_of_its_oldest_member_where_nothing_else_says_so(world: GangWorld) -> None:
    world.set_queues(queue("a", limit=1), queue("b", limit=8))
    world.set_group(group("g", 2))
    label = vocabulary.QUEUE.key
    world.create(member("g", 0, labels={label: "a"}, created_ms=1), member("g", 1, labels={label: "b"}, created_ms=2))
    world.plan()
    assert world.booked("g") == set(), "two devices are more than queue a may have, whatever the second says"
    records = world.engine.roster.records
    assert {record.queue for record in records.values()} == {"a"}
    world.change("uid-g-0", labels={vocabulary.POD_GROUP.key: "g", label: "b"})
    assert {record.queue for record in records.values()} == {"b"}
    world.plan()
    assert world.booked("g") == {"g-0", "g-1"}
    world.engine.validate()


def test_what_would_make_a_gang_start(world: GangWorld) -> None:
    def needs(name: str) -> list[tuple[Change, dict[str, int | str]]]:
        world.now_ms += 1000
        world.plan()
        found = explain(world.engine, world.engine.roster.records[f"uid-{name}"], world.now_ms)
        assert found is not None
        return [(remedy.change, dict(remedy.numbers)) for remedy in found.remedies]

    world.set_group(group("g", 5))
    world.create(*members("g", 3))
    assert needs("g-0") == [(Change.MORE_PODS, {"missing": 2})]
    free = int(world.engine.cluster.state.arrays.idle.sum())
    world.set_group(group("h", free + 3))
    world.create(*members("h", free + 3))
    assert needs("h-1") == [(Change.ROOM_FOR_PODS, {"missing": 3})]
    world.set_group(group("h", free, topologyConstraint={"requiredTopologyLevel": "kubernetes.io/hostname"}))
    assert needs("h-1") == [(Change.ROOM_NEAR_ONE_ANOTHER, {"pods": free, "level": "kubernetes.io/hostname"})]


def test_the_policy_may_be_to_leave_what_is_left() -> None:
    world = GangWorld(settings={"restart_stale": False})
    world.add_nodes(*(node(f"n{at}", gpus=2, labels={RACK: "r0"}) for at in range(3)))
    running_gang(world)
    world.end_badly("g-1")
    world.later(3_600_000)
    assert world.evicted() == []
    assert len(world.bound("g")) == 2


def test_a_launcher_without_devices_and_workers_with_eight() -> None:
    world = GangWorld()
    world.add_nodes(node("cpu", gpus=0), node("n0", gpus=8), node("n1", gpus=8))
    world.set_group(group("g", subGroups=[{"name": "launcher", "minMember": 1}, {"name": "worker", "minMember": 3}]))
    world.create(member("g", 0, subgroup="launcher", whole=0))
    world.create(*(member("g", at, subgroup="worker", whole=8) for at in (1, 2, 3)))
    world.plan()
    assert world.booked("g") == set(), "the launcher alone is no gang"
    world.add_nodes(node("n2", gpus=8))
    world.run()
    where = {pod.name: pod.node_name for pod in world.pods.values()}
    assert where.pop("g-0") == "cpu"
    assert sorted(map(str, where.values())) == ["n0", "n1", "n2"]


def test_a_gang_stays_among_real_nodes_or_in_one_virtual_cluster() -> None:
    world = GangWorld()
    world.add_nodes(node("real", gpus=2), virtual_node("v-small", gpus=3), virtual_node("v-large", gpus=4))
    tolerates = (Toleration("virtual-node.liqo.io/not-allowed", "Exists"),)
    world.set_group(group("g", 4))
    world.create(*members("g", 4, tolerations=tolerates))
    world.run()
    assert {pod.node_name for pod in world.pods.values()} == {"v-large"}
    world.set_group(group("h", 4))
    world.create(*members("h", 4, tolerations=tolerates))
    world.run()
    assert world.bound("h") == set(), "two real devices and three virtual ones are no place for four"
    world.set_group(group("h", 2))
    world.run()
    real = {pod.node_name for pod in world.pods.values() if world.gang_of(pod) == "h" and pod.node_name is not None}
    assert real == {"real"}, "real nodes first"
