"""Gangs for which the search finds no place although there is one: asked about beside the loop, the answer is tried."""

from __future__ import annotations

from typing import Any

from scheduler.exact import Outcome, Solution
from scheduler.pod import PodFacts
from scheduler.reason import Code
from tests.engine import world
from tests.engine.world import World, node


def member(name: str, gpus: int) -> PodFacts:
    """One of three pods of the gang g. By name the small ones come first, and fill the small node."""
    return world.pod(
        name,
        whole=gpus,
        labels={"kueue.x-k8s.io/pod-group-name": "g"},
        annotations={"kueue.x-k8s.io/pod-group-total-count": "3"},
    )


def stuck(**settings: Any) -> World:
    """Nodes of 4 and 3 devices and a gang of 2 + 2 + 3, of which the search puts a 2 on the node of 3."""
    here = World(world.engine(**settings))
    here.add_nodes(node("n4", 4), node("n3", 3))
    here.create(member("a", 2), member("b", 2), member("c", 3))
    here.plan()
    return here


def places(here: World) -> dict[str, str]:
    return {entry.uid: entry.node for entry in here.engine.cluster.ledger.entries.values()}


def test_what_the_search_does_not_find_is_found_exactly() -> None:
    here = stuck()
    assert places(here) == {}
    question = here.engine.question()
    assert question is not None
    assert here.engine.question() is None, "each is given once"
    here.engine.answered(question, question.answer(1.0))
    here.plan()
    assert places(here) == {"uid-a": "n4", "uid-b": "n4", "uid-c": "n3"}
    here.engine.validate()


def test_an_answer_that_does_not_fit_any_more_is_dropped() -> None:
    here = stuck()
    question = here.engine.question()
    assert question is not None
    solution = question.answer(1.0)
    here.create(world.pod("other", whole=1, node_name="n4"))
    here.engine.answered(question, solution)
    here.plan()
    assert places(here) == {"uid-other": "n4"}
    record = here.engine.roster.records["uid-c"]
    reason = here.engine.why(record, here.now_ms)
    assert reason is not None
    assert reason.code is Code.GANG_DOES_NOT_FIT
    here.engine.validate()


def test_a_changed_node_makes_an_answer_void() -> None:
    here = stuck()
    question = here.engine.question()
    assert question is not None
    solution = question.answer(1.0)
    here.add_nodes(node("n4", 5))
    here.engine.answered(question, solution)
    here.plan()
    assert places(here) in ({}, {"uid-a": "n3", "uid-b": "n4", "uid-c": "n4"})
    here.engine.validate()


def test_nothing_is_asked_where_it_cannot_help() -> None:
    here = World(world.engine())
    here.add_nodes(node("n4", 4))
    here.create(member("a", 2), member("b", 2), member("c", 3))
    here.plan()
    assert here.engine.question() is None


def test_trouble_and_a_no_end_the_question() -> None:
    here = stuck()
    question = here.engine.question()
    assert question is not None
    here.engine.answered(question, None)
    here.now_ms += 60_000
    here.engine.cluster.growth.anywhere()
    here.plan()
    again = here.engine.question()
    assert again is not None
    here.engine.answered(again, Solution(Outcome.IMPOSSIBLE))
    here.plan()
    assert places(here) == {}
    assert here.engine.question() is None


def test_the_limit_0_asks_nothing() -> None:
    assert stuck(exact_limit=0).engine.question() is None


def test_the_answer_about_a_gang_that_went_is_not_kept() -> None:
    here = stuck()
    question = here.engine.question()
    assert question is not None
    for name in ("a", "b", "c"):
        here.delete(f"uid-{name}")
    here.plan()
    here.engine.answered(question, question.answer(1.0))
    assert here.engine._planning.second_look.untried == 0
