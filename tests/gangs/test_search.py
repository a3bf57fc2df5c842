"""The search for places, and the exact search behind it, against all placements that there are."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import exact
from scheduler.gang import Gang, pods_of
from scheduler.gang_exact import problem_of, propose
from scheduler.gang_parts import Part, Parts, number_members
from scheduler.gang_placing import Failure, placed_of
from scheduler.gang_spec import ROOT, Group
from scheduler.ground import LiveGround
from tests.gangs.hall import BLOCK, HOST, RACK, Hall, Place, gang_of, halls, inner, leaf, places, record, shared

LEVELS = [BLOCK, RACK, HOST]
EXACT = 20


# -- generated ---------------------------------------------------------------------------------------------------


ragged = partial(halls, blocks=["a", "a", "b", ""], racks=["1", "1", "2", ""])
"""Halls in which some nodes say nothing about where they are."""


def _level(draw: st.DrawFn, above: str) -> str:
    """A level or none. What is asked for inside something wider may also be the wider level itself."""
    return draw(st.sampled_from(["", "", *LEVELS[LEVELS.index(above) if above else 0 :]]))


@st.composite
def leaves(draw: st.DrawFn, name: str, count: int, above: str) -> Group:
    required = _level(draw, above)
    preferred = draw(st.sampled_from(["", *LEVELS[LEVELS.index(required) if required else 0 :]]))
    slices = []
    if draw(st.booleans()):
        outer = draw(st.integers(2, 4))
        slices.append((outer, draw(st.sampled_from(LEVELS))))
        if outer == 4 and draw(st.booleans()):
            slices.append((2, draw(st.sampled_from(LEVELS[LEVELS.index(slices[0][1]) :]))))
    return leaf(name, count, required=required, preferred=preferred, slices=slices)


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    """Up to 6 pods of up to two sizes in up to three leaves, and a group between those and the root."""
    left, records, groups = 6, [], []
    root = _level(draw, "")
    middle = _level(draw, root)
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=2))
    for number in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, max(1, min(left, 4))))
        if left < count:
            break
        left -= count
        name = f"leaf-{number}"
        groups.append(draw(leaves(name, count, middle if number else root)))
        numbered = draw(st.booleans())
        records += [
            record(f"{name}-{i}", draw(st.sampled_from(sizes)), name, index=i if numbered else None)
            for i in range(count)
        ]
    inside = [inner("middle", *groups[1:], required=middle)] if len(groups) > 1 else []
    return gang_of(inner(ROOT, groups[0], *inside, required=root), records)


def _pin(data: st.DataObject, hall: Hall, gang: Gang) -> None:
    """Some members run already, where they may be."""
    assert gang.spec is not None
    for group in gang.spec.root.leaves():
        if group.slices:
            number_members(group, [one for one in gang.members.values() if one.membership.leaf == group.name])
    pinned = data.draw(st.lists(st.sampled_from(sorted(gang.members)), max_size=2, unique=True))
    for uid in pinned:
        node = data.draw(st.sampled_from(sorted(hall.by_name)))
        one = gang.members[uid]
        assert one.request is not None
        if hall.free()[node] >= one.request.device_count and hall.fault(gang, {one.facts.name: node}) is None:
            hall.put(one, node)


@st.composite
def tight(draw: st.DrawFn) -> tuple[list[Place], Gang]:
    """Exactly as many devices as pods want, on two racks, and pods of two sizes that compete for them."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=4, max_size=6))
    nodes = draw(st.lists(st.integers(1, 3), min_size=len(sizes), max_size=len(sizes)))
    gpus: dict[int, int] = {}
    for size, node in zip(sizes, nodes, strict=True):
        gpus[node] = gpus.get(node, 0) + size
    hall = [Place(f"n{node}", free, "a", draw(st.sampled_from("12"))) for node, free in sorted(gpus.items())]
    parts = draw(st.lists(st.sampled_from("xy"), min_size=len(sizes), max_size=len(sizes)))
    groups = [draw(leaves(name, parts.count(name), "")) for name in sorted(set(parts))]
    records = [record(f"p{i}", size, part) for i, (size, part) in enumerate(zip(sizes, parts, strict=True))]
    return hall, gang_of(inner(ROOT, *groups), records)


@given(st.one_of(st.tuples(ragged(8), gangs()), tight()), st.data())
@settings(max_examples=200)
def test_search_else_exact_finds_a_place_if_and_only_if_there_is_one(
    case: tuple[list[Place], Gang], data: st.DataObject
) -> None:
    nodes, gang = case
    hall = Hall(nodes, exact_limit=EXACT)
    _pin(data, hall, gang)
    step = next(gang.view().steps(), None)
    if step is None:
        return
    found = hall.place(gang, step)
    possible = next(hall.assignments(gang, step), None)
    if isinstance(found, Failure):
        assert possible is None, "there is a place"
    else:
        assert hall.fault(gang, found) is None
        assert set(found) == {one.facts.name for one in pods_of(step)}
        assert possible is not None


# -- where the search alone is at its end --------------------------------------------------------------------------


def _competing() -> Gang:
    """The two small ones seem to fit best on the node with three devices, which the tall one needs."""
    records = [record("small-0", 2), record("small-1", 2), record("tall", 3)]
    return gang_of(leaf(minimum=3), records)


def test_pods_of_two_sizes_that_compete() -> None:
    nodes = places("a/1: 4 3")
    without = Hall(nodes).place(_competing())
    assert isinstance(without, Failure)
    assert without.reason.numbers["fitting"] == 2
    assert Hall(nodes, exact_limit=1).place(_competing()) == {"small-0": "n0", "small-1": "n0", "tall": "n1"}


def _question(hall: Hall, gang: Gang) -> tuple[Part, LiveGround]:
    assert gang.spec is not None
    part = Parts(hall.cluster.landscape, None, set()).of(
        gang.spec, next(gang.view().steps()), placed_of(hall.cluster, gang)
    )
    return part, LiveGround(hall.cluster, None, 0)


def test_members_that_run_say_in_which_domain_the_exact_answer_has_to_be() -> None:
    hall = Hall(places("a/1: 4 3, b/1: 4 3 1"), exact_limit=5)
    records = [record("small-0", 2), record("small-1", 2), record("tall", 3), record("runs", 1)]
    gang = gang_of(leaf(minimum=4, required=BLOCK), records)
    hall.put(records[3], "n4")
    part, ground = _question(hall, gang)
    problem = problem_of(part, ground, hall.cluster.landscape, hall.slots())
    ground.close()
    assert problem is not None
    assert [wanted.allowed.tolist() for wanted in problem.wanted] == [[False, False, True, True, True]] * 2
    assert hall.place(gang) == {"small-0": "n2", "small-1": "n2", "tall": "n3"}


def test_devices_under_shares_are_not_free_for_the_exact_answer() -> None:
    hall = Hall(places("a/1: 4 3, a/2: 4"), exact_limit=5)
    hall.put(shared("s"), "n1")
    part, ground = _question(hall, _competing())
    problem = problem_of(part, ground, hall.cluster.landscape, hall.slots())
    ground.close()
    assert problem is not None
    column = hall.cluster.state.columns["nvidia.com/gpu"]
    assert problem.free[:, column].tolist() == [4, 2, 4]


def test_who_runs_in_a_slice_draws_that_slice_alone() -> None:
    hall = Hall(places("a/1: 2, a/2: 2"))
    records = [record(f"p{i}", index=i) for i in range(4)]
    gang = gang_of(leaf(minimum=4, slices=[(2, RACK)]), records)
    hall.put(records[0], "n0")
    assert hall.place(gang) == {"p1": "n0", "p2": "n1", "p3": "n1"}


def test_a_domain_that_is_left_again_is_left_whole() -> None:
    """The first group would take the rack that the second one needs; what it tried there leaves nothing behind."""
    hall = Hall(places("a/1: 3, a/2: 4"))
    records = [*(record(f"x{i}", 1, "x") for i in range(3)), *(record(f"y{i}", 3, "y") for i in range(1))]
    records += [record("z", 1, "z")]
    inside = inner("in", leaf("y", 1, required=RACK), leaf("z", 1, required=HOST), required=RACK)
    gang = gang_of(inner(ROOT, leaf("x", 3, required=RACK), inside, preferred=RACK), records)
    found = hall.place(gang)
    assert not isinstance(found, Failure)
    assert {hall.by_name[found[name]].rack for name in ("y0", "z")} == {"2"}


def test_what_was_packed_is_unpacked_with_its_choice() -> None:
    """Few racks are wished for. A first choice that fails had taken one, which nobody needs any more."""
    hall = Hall(places("b/0: 3 1, b/1: 1, b/2: 2 2, b/3: 1 2, a/4: 1"))
    wishes = {"x": (1, RACK), "y": (1, BLOCK), "z": (2, RACK)}
    records = [record(f"{name}{i}", size, name) for name, (size, _) in wishes.items() for i in range(2)]
    groups = [leaf(name, 2, required=level) for name, (_, level) in wishes.items()]
    gang = gang_of(inner(ROOT, *groups, preferred=RACK), records)
    found = hall.place(gang)
    assert not isinstance(found, Failure)
    assert len({hall.by_name[node].domain(RACK) for node in found.values()}) == 2


class TestInThreeMoments:
    """Asked now, answered in between, tried later."""

    def test_the_cluster_is_as_it_was(self) -> None:
        hall = Hall(places("a/1: 4 3"))
        part, ground = _question(hall, _competing())
        problem = problem_of(part, ground, hall.cluster.landscape, hall.slots())
        ground.close()
        assert problem is not None
        assert exact.could_fit(problem)
        solution = exact.solve(problem, limit=1)
        later = LiveGround(hall.cluster, None, 0)
        assert propose(part, later, hall.cluster.landscape, hall.slots(), solution) == {}
        assert len(later.close()) == 3

    def test_somebody_else_was_there_first(self) -> None:
        hall = Hall(places("a/1: 4 3"))
        part, ground = _question(hall, _competing())
        problem = problem_of(part, ground, hall.cluster.landscape, hall.slots())
        ground.close()
        assert problem is not None
        solution = exact.solve(problem, limit=1)
        hall.put(record("other"), "n1")
        later = LiveGround(hall.cluster, None, 0)
        assert propose(part, later, hall.cluster.landscape, hall.slots(), solution) is None
        assert later.close() == []

    def test_a_node_moved_to_another_rack(self) -> None:
        hall = Hall(places("a/1: 4 3"))
        gang = gang_of(leaf(minimum=3, required=RACK), [record("a", 4), record("b", 3)])
        gang = gang_of(leaf(minimum=2, required=RACK), list(gang.members.values()))
        part, ground = _question(hall, gang)
        problem = problem_of(part, ground, hall.cluster.landscape, hall.slots())
        ground.close()
        assert problem is not None
        solution = exact.solve(problem, limit=1)
        assert solution.counts is not None
        hall.cluster.landscape.set_node(1, "n1", {BLOCK: "a", RACK: "2"})
        later = LiveGround(hall.cluster, None, 0)
        assert propose(part, later, hall.cluster.landscape, hall.slots(), solution) is None
        assert later.close() == []

    def test_what_a_problem_cannot_say_is_not_asked(self) -> None:
        hall = Hall(places("a/1: 4 3"))
        for change in ("alone", "exclusive", "share"):
            part, ground = _question(hall, _competing())
            if change == "alone":
                part.buckets[0].alone = True
            elif change == "exclusive":
                part.exclusive = RACK
            else:
                part, _ = _question(hall, gang_of(leaf(minimum=1), [shared("s")]))
            asked = problem_of(part, ground, hall.cluster.landscape, hall.slots())
            ground.close()
            assert asked is None, change


def test_the_exact_answer_also_takes_few_racks() -> None:
    """Three pods of two sizes, racks preferred: the search is at its end, and one rack would do."""
    records = [record("small-0", 2), record("small-1", 2), record("tall", 3)]
    gang = gang_of(leaf(minimum=3, required=BLOCK, preferred=RACK), records)
    hall = Hall(places("a/1: 2, a/2: 4 3, a/3: 2"), exact_limit=5)
    found = hall.place(gang)
    assert not isinstance(found, Failure)
    assert {hall.by_name[node].rack for node in found.values()} == {"2"}
    assert {one.domain for one in records} == {"a/2"}
