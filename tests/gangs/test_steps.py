"""What a gang places next: the pods of a step, who is satisfied, who can form, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.gang import Shortage, Step, View, pods_of, smallest
from scheduler.gang_spec import ROOT, Group
from scheduler.record import PodRecord, Stage
from tests.gangs.hall import gang_of, inner, leaf, record


def view(root: Group, pods: str, **ended: int) -> View:
    """`a: 2+1, b: 0+3`: in each leaf, pods with a place and pods without. `ended` were followed by nobody."""
    records = []
    for part in pods.split(","):
        name, _, counts = part.strip().partition(":")
        placed, _, waiting = counts.partition("+")
        total = int(placed) + int(waiting)
        records += [record(f"{name}-{i}", 1, name, placed=i < int(placed)) for i in range(total)]
    gang = gang_of(root, records)
    gang.ended |= ended
    return gang.view()


def counted(step: Step | None) -> dict[str, int]:
    """Leaf → pods of it in the step."""
    return {} if step is None else {portion.leaf: len(portion.records) for portion in step}


def first(root: Group, pods: str, **ended: int) -> dict[str, int]:
    """The best step."""
    return counted(next(view(root, pods, **ended).steps(), None))


# -- by example --------------------------------------------------------------------------------------------------

XYZ = inner(ROOT, leaf("x", 2), leaf("y", 1), leaf("z", 2), needed=2)


@pytest.mark.parametrize(
    ("pods", "step"),
    [
        ("x: 0+3, y: 0+2, z: 0+2", {"x": 2, "y": 1}),
        ("x: 2+1, y: 1+1, z: 0+2", {"z": 2}),
        ("x: 2+1, y: 1+1, z: 2+0", {"x": 1}),
        ("x: 3+0, y: 1+1, z: 2+0", {"y": 1}),
        ("x: 3+0, y: 2+0, z: 2+0", {}),
    ],
)
def test_the_minimum_at_once_then_a_whole_subgroup_then_one_by_one(pods: str, step: dict[str, int]) -> None:
    assert first(XYZ, pods) == step


def test_a_surplus_subgroup_that_finds_no_place_does_not_stop_the_others() -> None:
    steps = [counted(step) for step in view(XYZ, "x: 2+1, y: 1+1, z: 0+2").steps()]
    assert steps == [{"z": 2}, {"x": 1}, {"y": 1}]


def test_t7_a_minimum_in_each_group() -> None:
    """KAI #924. A head and two groups of workers, one of each is needed: no two workers of the first group are it."""
    root = inner(ROOT, leaf("head", 1), leaf("one", 1), leaf("two", 1))
    assert [counted(step) for step in view(root, "head: 0+1, one: 0+3, two: 0+3").steps()] == [
        {"head": 1, "one": 1, "two": 1}
    ]
    assert first(root, "head: 0+1, one: 0+3") == {}


def test_t8_who_has_ended_counts() -> None:
    """KAI #1347. Four of five ran to their end: the fifth starts alone."""
    assert first(leaf(minimum=4), ": 0+1") == {}
    root = inner(ROOT, leaf("job", 4))
    assert first(root, "job: 0+1", job=3) == {"job": 1}
    assert first(root, "job: 0+2", job=3) == {"job": 1}
    assert first(root, "job: 0+1", job=4) == {"job": 1}
    assert first(root, "job: 0+1", job=2) == {}


def test_a_pod_that_follows_one_that_ended_takes_its_place_in_the_count() -> None:
    members = [record(f"job-{i}", 1, "job", placed=True) for i in range(2)]
    gang = gang_of(inner(ROOT, leaf("job", 2)), members)
    gang.remove(members[0].uid, ended=True)
    assert gang.view().satisfied(gang.view().root)
    gang.add(record("job-again", 1, "job"))
    assert not gang.view().satisfied(gang.view().root)
    gang.remove(members[1].uid)
    assert gang.ended == {"job": 0}


def test_t9_who_cannot_form_takes_nobody_elses_turn() -> None:
    """KAI #2096. One of two is needed: a (two pods are, one is there) and b (one is) → b."""
    root = inner(ROOT, leaf("a", 2), leaf("b", 1), needed=1)
    assert first(root, "a: 0+1, b: 0+1") == {"b": 1}


def test_those_that_have_most_of_their_minimum_come_last() -> None:
    root = inner(ROOT, leaf("a", 4), leaf("b", 4), needed=1)
    steps = [counted(step) for step in view(root, "a: 2+2, b: 0+4").steps()]
    assert steps == [{"b": 4}, {"a": 2}]


def test_other_subgroups_are_tried_when_the_first_find_no_place() -> None:
    root = inner(ROOT, leaf("a", 1), leaf("b", 1), leaf("c", 1), needed=2)
    steps = [counted(step) for step in view(root, "a: 0+1, b: 0+1, c: 0+1").steps()]
    assert steps == [{"a": 1, "b": 1}, {"a": 1, "c": 1}, {"b": 1, "c": 1}]


def test_so_many_ways_and_no_more() -> None:
    root = inner(ROOT, *(leaf(str(number), 1) for number in range(10)), needed=5)
    steps = list(view(root, ",".join(f"{number}: 0+1" for number in range(10))).steps())
    assert len(steps) == 8


def test_pods_that_are_released_come_first_then_in_the_order_of_their_indices() -> None:
    waiting = [record("a", index=2), record("b", index=0), record("c", index=1), record("d"), record("e")]
    waiting[4].was_gated = True
    waiting[4].take(record("e", gated=False).facts)
    step = next(gang_of(leaf(minimum=5), waiting).view().steps())
    assert [one.facts.name for one in pods_of(step)] == ["e", "b", "c", "a", "d"]


def test_pods_that_may_get_no_place_are_not_there() -> None:
    held = record("b")
    held.stage = Stage.HELD
    now = gang_of(leaf(minimum=2), [record("a"), held]).view()
    assert next(now.steps(), None) is None
    assert now.shortage() == Shortage(ROOT, 1, 2)


def test_places_that_do_not_count() -> None:
    one, two = record("a", placed=True), record("b", placed=True)
    gang = gang_of(leaf(minimum=2), [one, two])
    assert gang.view().satisfied(gang.view().root)
    some = gang.view(lambda record: record is one)
    assert some.shortage() == Shortage(ROOT, 1, 2)


@pytest.mark.parametrize(
    ("root", "pods", "shortage"),
    [
        (leaf(minimum=3), ": 1+1", Shortage(ROOT, 2, 3)),
        (leaf(minimum=3), ": 1+2", None),
        (inner(ROOT, leaf("a", 1), leaf("b", 2)), "a: 0+1, b: 1+0", Shortage("b", 1, 2)),
        (inner(ROOT, leaf("a", 2), leaf("b", 2), leaf("c"), needed=2), "a: 0+1, b: 0+1, c: 0+1", Shortage(ROOT, 1, 2)),
        (inner(ROOT, leaf("a", 2), needed=1), "a: 0+1", Shortage("a", 1, 2)),
        (inner(ROOT, inner("in", leaf("a", 1), leaf("b", 2))), "a: 0+1, b: 0+1", Shortage("b", 1, 2)),
    ],
)  # fmt: skip
def test_what_is_missing(root: Group, pods: str, shortage: Shortage | None) -> None:
    assert view(root, pods).shortage() == shortage


def test_nothing_is_missing_from_a_gang_that_has_its_minimum() -> None:
    assert view(inner(ROOT, leaf("a", 1), leaf("b", 9), needed=1), "a: 1+0, b: 0+1").shortage() is None


# -- generated ---------------------------------------------------------------------------------------------------

Counts = dict[str, tuple[int, int]]


@st.composite
def trees(draw: st.DrawFn, depth: int = 2, name: str = ROOT) -> Group:
    if depth == 0 or (name and draw(st.booleans())):
        return leaf(name or "only", draw(st.integers(0, 3)))
    children = [draw(trees(depth - 1, f"{name}{letter}")) for letter in "abc"[: draw(st.integers(1, 3))]]
    return inner(name, *children, needed=draw(st.one_of(st.none(), st.integers(0, len(children)))))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Group, Counts, dict[str, int]]:
    """A tree; by leaf pods with and without a place; by leaf those that have ended."""
    root = draw(trees())
    counts = {one.name: (draw(st.integers(0, 3)), draw(st.integers(0, 3))) for one in root.leaves()}
    ended = {one.name: draw(st.integers(0, 1)) for one in root.leaves()}
    return root, counts, ended


def needed(group: Group) -> int:
    return len(group.children) if group.min_children is None else group.min_children


def enough(group: Group, pods: dict[str, int], ended: dict[str, int]) -> bool:
    """Whether that many pods are the group's minimum."""
    if group.is_leaf:
        return pods.get(group.name, 0) + ended.get(group.name, 0) >= group.minimum
    return sum(enough(child, pods, ended) for child in group.children) >= needed(group)


def made(case: tuple[Group, Counts, dict[str, int]]) -> View:
    root, counts, ended = case
    text = ",".join(f"{name}: {placed}+{waiting}" for name, (placed, waiting) in counts.items())
    return view(root, text, **ended)


def additions(counts: Counts) -> Iterator[dict[str, int]]:
    """All ways to add waiting pods, by leaf."""
    found: list[dict[str, int]] = [{}]
    for name, (_, waiting) in counts.items():
        found = [{**some, name: more} for some in found for more in range(waiting + 1)]
    yield from found


def least(root: Group, counts: Counts, ended: dict[str, int]) -> list[dict[str, int]]:
    """The additions that reach the minimum and of which nothing can be left out."""
    placed = {name: has for name, (has, _) in counts.items()}

    def reach(more: dict[str, int]) -> bool:
        return enough(root, {name: has + more.get(name, 0) for name, has in placed.items()}, ended)

    good = [more for more in additions(counts) if reach(more)]
    return [
        {name: n for name, n in more.items() if n}
        for more in good
        if not any(n and reach({**more, name: n - 1}) for name, n in more.items())
    ]


def small(case: tuple[Group, Counts, dict[str, int]]) -> bool:
    """Whether all additions can be gone through."""
    total = 1
    for _, waiting in case[1].values():
        total *= waiting + 1
    return total <= 256


@given(cases().filter(small))
@settings(max_examples=200)
def test_steps_are_what_is_left_to_the_minimum_and_nothing_more(
    case: tuple[Group, Counts, dict[str, int]],
) -> None:
    root, counts, ended = case
    now = made(case)
    placed = {name: has for name, (has, _) in counts.items()}
    assert now.satisfied(root) == enough(root, placed, ended)
    assert now.can_form(root) == enough(root, {name: a + b for name, (a, b) in counts.items()}, ended)
    assert (now.shortage() is None) == now.can_form(root)
    steps = [counted(step) for step in now.steps()]
    if enough(root, placed, ended):
        return
    ways = least(root, counts, ended)
    assert all(step in ways for step in steps)
    assert bool(steps) == bool(ways)
    if len(ways) <= 8:
        assert len(steps) == len(ways), "each way once"


@given(cases())
@settings(max_examples=200)
def test_in_the_end_everybody_who_can_form_has_a_place(case: tuple[Group, Counts, dict[str, int]]) -> None:
    root, counts, ended = case
    placed = {name: has for name, (has, _) in counts.items()}
    waiting = {name: more for name, (_, more) in counts.items()}
    while (step := next(made((root, {n: (placed[n], waiting[n]) for n in placed}, ended)).steps(), None)) is not None:
        grows = enough(root, placed, ended)
        for name, count in counted(step).items():
            assert 0 < count <= waiting[name]
            placed[name] += count
            waiting[name] -= count
        assert enough(root, placed, ended)
        if grows:
            assert sum(counted(step).values()) == 1 or not root.is_leaf
    if not enough(root, placed, ended):
        assert placed == {name: has for name, (has, _) in counts.items()}, "nothing starts in part"
        return
    left = {name for name, more in waiting.items() if more}
    assert all(_stands_in_a_group_that_cannot_form(root, name, placed, waiting, ended) for name in left)


def _stands_in_a_group_that_cannot_form(
    group: Group, name: str, placed: dict[str, int], waiting: dict[str, int], ended: dict[str, int]
) -> bool:
    if name not in {one.name for one in group.leaves()}:
        return False
    everybody = {leaf_: placed[leaf_] + waiting[leaf_] for leaf_ in placed}
    if not enough(group, everybody, ended):
        return True
    return any(_stands_in_a_group_that_cannot_form(one, name, placed, waiting, ended) for one in group.children)


@given(trees())
def test_the_smallest_gang(root: Group) -> None:
    leaves = list(root.leaves())
    every = [
        sum(one.minimum for one in some)
        for size in range(len(leaves) + 1)
        for some in combinations(leaves, size)
        if enough(root, {one.name: one.minimum for one in some}, {})
    ]
    assert smallest(root) == min(every)


def test_members_are_the_same_records() -> None:
    records: list[PodRecord] = [record("a"), record("b")]
    step = next(gang_of(leaf(minimum=2), records).view().steps())
    assert all(one is other for one, other in zip(pods_of(step), records, strict=True))
