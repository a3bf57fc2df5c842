"""Gangs in the live engine: whole or nothing while they come, at bind, when members fail, and after restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.instruction import BindOrder, BindRefusal, BindWait
from scheduler.reason import Code
from scheduler.record import Stage
from tests.engine.gang_world import RACK, GangWorld, group, member, members
from tests.engine.world import node, pod
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


# -- coming together ---------------------------------------------------------------------------------------------------


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


# -- the barrier -------------------------------------------------------------------------------------------------------


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


__all__ = ["in_queue", "pod", "queue"]
