"""A change of an object that many pods look at is not read once for each of them."""

from __future__ import annotations

from scheduler.gangs import Gangs
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts, Objects
from scheduler.object_index import ObjectIndex
from scheduler.pod import PodFacts
from scheduler.recognition import recognise
from tests.engine.gang_world import KINDS, GangWorld, group, member, members
from tests.engine.world import node


class Counting:
    """`recognise`, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, pod: PodFacts, objects: Objects) -> Membership:
        self.asked += 1
        return recognise(pod, objects)


def of_fifty(facts: ObjectFacts) -> tuple[Gangs, ObjectIndex, Counting, list[PodFacts]]:
    objects, count = ObjectIndex(KINDS), Counting()
    objects.add(facts)
    gangs, pods = Gangs(objects, count), members("g", 50)
    world = GangWorld()  # joins need records
    for facts_ in pods:
        gangs.look(facts_)
        gangs.join(world.engine.roster.enter(facts_, 0))
    count.asked = 0
    return gangs, objects, count, pods


def change(gangs: Gangs, objects: ObjectIndex, old: ObjectFacts, new: ObjectFacts, pods: list[PodFacts]) -> None:
    objects.add(new)
    assert len(gangs.concerned(old, new)) == 50
    for pod in pods:
        gangs.look(pod)


def test_a_changed_minimum_is_read_once() -> None:
    old, new = group("g", 50), group("g", 40)
    gangs, objects, count, pods = of_fifty(old)
    change(gangs, objects, old, new, pods)
    assert count.asked == 1
    found = [gangs.membership(pod.uid) for pod in pods]
    assert {one.spec.root.minimum for one in found if one.spec is not None} == {40}
    assert found == [recognise(pod, objects) for pod in pods]


def test_what_may_say_something_else_of_each_is_read_for_each() -> None:
    old = group("g", 50)
    gangs, objects, count, pods = of_fifty(old)
    change(gangs, objects, old, group("g", subGroups=[{"name": "x", "minMember": 1}]), pods)
    assert count.asked == 50, "other leaves"
    assert all(gangs.membership(pod.uid).problem for pod in pods)


def test_a_pod_that_changed_itself_is_read() -> None:
    old = group("g", 50)
    gangs, objects, count, pods = of_fifty(old)
    moved = member("h", 0)
    objects.add(group("g", 40))
    gangs.concerned(old, group("g", 40))
    gangs.look(pods[1])
    gangs.look(PodFacts(pods[0].uid, pods[0].namespace, pods[0].name, labels=moved.labels))
    assert count.asked == 2
    assert gangs.membership(pods[0].uid).missing


def test_the_engine_takes_the_new_minimum_for_all() -> None:
    world = GangWorld()
    world.add_nodes(node("n1", gpus=4))
    world.set_group(group("g", 6))
    world.create(*members("g", 6))
    world.plan()
    assert world.booked("g") == set()
    world.set_group(group("g", 4))
    world.plan()
    assert len(world.booked("g")) == 4
    world.engine.validate()
