"""The mix that is learnt, and when tables are made of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.packing.hardware import Hardware, Model
from scheduler.packing.learner import FADES_EVERY, PRIOR_PODS, WEIGHT, Learner, pod_class
from scheduler.packing.mix import PodClass
from scheduler.packing.named import policy_named
from scheduler.packing.refresh import ARRIVALS, EVERY_MS
from scheduler.pod import NodeSelectorTerm
from scheduler.request import Request
from scheduler.room import Form
from tests.engine.world import World, engine, node, pod, share
from tests.strategies import fraction, memory, whole
from topology.selector import Requirement

HARDWARE = Hardware((Model("NVIDIA-TEST", 40_000, 2, 8, 128_000, 4),))
ANYWHERE = pod("any")


def form(request: Request) -> Form:
    from scheduler.constraints import constraints_of

    return Form(request, constraints_of(ANYWHERE))


def known(learner: Learner) -> dict[PodClass, tuple[int, int]]:
    """Demand and pods by class, without the prior."""
    mix = learner.mix(HARDWARE, lambda constraints: None)
    assert mix.pods is not None
    rows = zip(mix.classes, mix.demand, mix.pods, strict=True)
    return {one: (demand, pods) for one, demand, pods in rows if one.cpu_milli == 100}


def test_a_pod_counts_while_it_is_there_and_as_an_arrival_afterwards() -> None:
    learner = Learner()
    learner.came("a", form(fraction(500)))
    learner.came("b", form(fraction(500)))
    learner.came("b", form(fraction(500)))
    half = pod_class(fraction(500), None)
    assert known(learner) == {half: (4 * WEIGHT, 2)}
    learner.gone("a")
    learner.gone("a")
    assert known(learner) == {half: (3 * WEIGHT, 1)}
    learner.came("b", form(whole(1)))
    assert known(learner) == {half: (2 * WEIGHT, 0), pod_class(whole(1), None): (2 * WEIGHT, 1)}
    assert (learner.arrivals, learner.departures, learner.pods) == (3, 1, 1)


def test_arrivals_fade_and_classes_that_are_gone_are_forgotten() -> None:
    learner = Learner()
    learner.came("first", form(memory(100)))
    learner.gone("first")
    for number in range(200 * FADES_EVERY):
        learner.came(f"{number}", form(whole(1)))
        learner.gone(f"{number}")
    (left,) = known(learner)
    assert left == pod_class(whole(1), None)
    assert known(learner)[left][0] < 10 * FADES_EVERY * WEIGHT


def test_the_prior_is_of_the_size_of_the_nodes_and_matters_less_and_less() -> None:
    mix = Learner().mix(HARDWARE, lambda constraints: None)
    assert {one.devices for one in mix.classes} == {1, 2, 4}
    assert PodClass(8000, 0, 1, 500 * 2) in mix.classes
    assert sum(mix.demand) == (PRIOR_PODS - 2) * WEIGHT
    assert Learner().mix(Hardware(()), lambda constraints: None).classes == ()


def test_demand_is_steady_when_pods_leave_as_they_come_and_there_is_room() -> None:
    learner = Learner()
    for number in range(6):
        learner.came(f"{number}", form(whole(1)))
    assert not learner.is_steady(HARDWARE)
    for number in range(3):
        learner.gone(f"{number}", ran=number > 0)
    assert not learner.is_steady(HARDWARE)
    learner.gone("3")
    assert learner.is_steady(HARDWARE)
    for number in range(2):
        learner.came(f"more {number}", form(whole(4)))
    assert not learner.is_steady(HARDWARE)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (whole(2), PodClass(100, 0, 2, 1000)),
        (fraction(300, devices=2), PodClass(100, 0, 2, 300)),
        (memory(4000), PodClass(100, 0, 1, 0, 4000)),
        (Request(100, 7, 0, (("nvidia.com/mig-1g.10gb", 1),)), PodClass(100, 7, 0, 0)),
    ],
)
def test_classes_of_requests(request_: Request, expected: PodClass) -> None:
    assert pod_class(request_, None) == expected


def test_the_engine_learns_from_its_pods_and_asks_for_tables_when_they_are_due() -> None:
    world = World(engine(policy_named("rsv")))  # type: ignore[arg-type]
    packing = world.engine.packing
    world.add_nodes(node("a"), node("b", labels={"nvidia.com/gpu.product": "OTHER"}))
    world.create(share("s", "0.5"))
    question = packing.question(world.now_ms)
    assert question is not None
    assert packing.question(world.now_ms) is None, "one at a time"
    assert [model.devices for model in question.hardware.models] == [0, 4, 4]
    packing.answered(question, question.answer())
    assert (packing.epoch, world.engine.cluster.state.policy.epoch) == (1, 1)
    assert packing.question(world.now_ms) is None, "nothing changed"
    world.create(share("t", "0.5"))
    assert packing.question(world.now_ms + EVERY_MS - 1) is None
    late = packing.question(world.now_ms + EVERY_MS)
    assert late is not None
    packing.answered(late, None)
    assert packing.epoch == 1, "what went wrong leaves the old tables"
    for number in range(ARRIVALS):
        world.create(share(f"more-{number}", "0.5"))
    assert packing.question(world.now_ms + EVERY_MS + 1) is not None


def test_rules_about_nodes_say_which_models_a_class_may_use() -> None:
    world = World(engine(policy_named("rsv")))  # type: ignore[arg-type]
    world.add_nodes(node("a"), node("b", labels={"nvidia.com/gpu.product": "OTHER"}))
    only = (NodeSelectorTerm(labels=(Requirement("nvidia.com/gpu.product", "In", ("OTHER",)),)),)
    world.create(replace(share("s", "0.4"), node_affinity=only))
    world.create(share("t", "0.25"))
    question = world.engine.packing.question(world.now_ms)
    assert question is not None
    by_milli = {one.milli: one.models for one in question.mix.classes}
    assert by_milli[400] == frozenset({"OTHER"})
    assert by_milli[250] is None


def test_a_policy_that_does_not_learn_asks_nothing() -> None:
    world = World(engine(policy_named("bestfit")))  # type: ignore[arg-type]
    world.add_nodes(node("a"))
    world.create(share("s", "0.5"))
    assert world.engine.packing.question(world.now_ms) is None
