"""The hierarchy: what is wrong is found, and the rest works; books and access over it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues import access, gates
from queues.access import Refusal
from queues.amounts import NOTHING, UNLIMITED, Amounts
from queues.books import Books, Charge
from queues.spec import Access, QueueSpec, Source, Terms
from queues.tree import Defect, Tree, sides
from topology.selector import Requirement


def defects(tree: Tree) -> set[tuple[str, Defect]]:
    return {(found.queue, found.defect) for found in tree.findings}


# -- the tree --------------------------------------------------------------------------------------------------------


def test_without_any_queue_there_is_one_unlimited_in_everything() -> None:
    tree = Tree()
    (name,) = tree.roots
    assert tree.implicit
    assert tree.queues[name].is_leaf
    assert set(tree.queues[name].spec.quota) == {UNLIMITED}
    assert set(tree.queues[name].spec.limit) == {UNLIMITED}


def test_a_missing_parent_keeps_out_what_is_below_it_and_nothing_else() -> None:
    tree = Tree([QueueSpec("a", "gone"), QueueSpec("a1", "a"), QueueSpec("b"), QueueSpec("b1", "b")])
    assert list(tree.queues) == ["b", "b1"]
    assert set(tree.broken) == {"a", "a1"}
    assert defects(tree) == {("a", Defect.PARENT_MISSING), ("a1", Defect.PARENT_MISSING)}
    (first, _) = tree.findings
    assert first.numbers == {"parent": "gone", "of": "a"}


def test_circles_are_found_and_the_rest_works() -> None:
    tree = Tree(
        [QueueSpec("a", "b"), QueueSpec("b", "a"), QueueSpec("c", "c"), QueueSpec("under", "a"), QueueSpec("well")]
    )
    assert list(tree.queues) == ["well"]
    assert {name for name, defect in defects(tree) if defect is Defect.CYCLE} == {"a", "b", "c", "under"}


def test_of_two_definitions_ours_wins_then_the_file_then_kais() -> None:
    tree = Tree(
        [
            QueueSpec("a", priority=1, source=Source.KAI),
            QueueSpec("a", priority=2, source=Source.FILE),
            QueueSpec("a", priority=3, source=Source.TANGRAM),
        ]
    )
    assert tree.queues["a"].spec.priority == 3
    assert [found.numbers["ignored"] for found in tree.findings] == ["file", "kai"]


def test_what_works_and_is_hardly_meant_is_reported() -> None:
    gpus = 1000
    tree = Tree(
        [
            QueueSpec("parent", gpu=Terms(4 * gpus, 8 * gpus, 0)),
            QueueSpec("left", "parent", gpu=Terms(3 * gpus, 9 * gpus)),
            QueueSpec("right", "parent", gpu=Terms(2 * gpus, UNLIMITED)),
            QueueSpec("shut", "parent", gpu=Terms(0, 0)),
        ]
    )
    assert len(tree.queues) == 4
    assert defects(tree) == {
        ("parent", Defect.CHILDREN_EXCEED_QUOTA),
        ("parent", Defect.STARVED_CHILDREN),
        ("left", Defect.CHILD_EXCEEDS_LIMIT),
        ("shut", Defect.LIMIT_ZERO),
    }


@given(parents=st.lists(st.integers(-1, 9), min_size=1, max_size=10), order=st.randoms(use_true_random=False))
def test_every_queue_is_in_the_tree_or_known_to_be_broken(parents: list[int], order: st.DataObject) -> None:
    specs = [QueueSpec(f"q{at}", None if parent < 0 else f"q{parent}") for at, parent in enumerate(parents)]
    order.shuffle(specs)  # type: ignore[attr-defined]
    tree = Tree(specs)
    assert set(tree.queues) | set(tree.broken) == {spec.name for spec in specs} or tree.implicit
    assert not set(tree.queues) & set(tree.broken)
    seen: set[str] = set()
    for name, queue in tree.queues.items():
        assert queue.path[0] == name
        assert tree.queues[queue.path[-1]].spec.parent is None
        assert queue.spec.parent is None or queue.spec.parent in seen, "parents come first"
        seen.add(name)
    for name in tree.broken:
        assert any(found.queue == name for found in tree.findings)


def test_sides_are_the_ancestors_that_are_siblings() -> None:
    tree = Tree([QueueSpec("a"), QueueSpec("a1", "a"), QueueSpec("a11", "a1"), QueueSpec("a2", "a"), QueueSpec("b")])
    queues = tree.queues
    assert sides(queues["a11"], queues["a2"]) == ("a1", "a2")
    assert sides(queues["a11"], queues["b"]) == ("a", "b")
    assert sides(queues["a11"], queues["a1"]) is None


# -- books -----------------------------------------------------------------------------------------------------------

DEEP = Tree([QueueSpec("top"), QueueSpec("mid", "top"), QueueSpec("x", "mid"), QueueSpec("y", "mid")])
CHARGES = st.builds(
    Charge,
    st.builds(Amounts, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    st.booleans(),
    st.lists(st.sampled_from(["A", "B"]), max_size=1).map(tuple),
)


@given(held=st.lists(st.tuples(st.sampled_from(["x", "y"]), CHARGES)))
def test_books_are_the_sums_of_what_is_held_and_giving_back_undoes_it(held: list[tuple[str, Charge]]) -> None:
    books = Books(DEEP)
    for leaf, charge in held:
        books.hold(leaf, charge)
        books.want(leaf, charge.amounts)
    for name in ("top", "mid"):
        assert books[name].allocated == books["x"].allocated.plus(books["y"].allocated)
        assert books[name].waiting == len(held)
        assert books[name].requested == books[name].allocated.plus(books[name].pending)
    assert books["top"].allocated.gpu_milli == sum(charge.amounts.gpu_milli for _, charge in held)
    fixed = sum(charge.amounts.gpu_milli for _, charge in held if not charge.preemptible)
    assert books["top"].allocated_non_preemptible.gpu_milli == fixed
    assert books["mid"].model_gpu_milli.get("A", 0) == sum(
        charge.amounts.gpu_milli for _, charge in held if "A" in charge.models
    )
    for leaf, charge in held:
        books.free(leaf, charge)
        books.unwant(leaf, charge.amounts)
    for name in books:
        assert books[name].requested == NOTHING
        assert (books[name].waiting, books[name].model_gpu_milli) == (0, {})
        assert books[name].allocated_non_preemptible == NOTHING


# -- gates -----------------------------------------------------------------------------------------------------------


def gated() -> Books:
    return Books(
        Tree(
            [
                QueueSpec("top", gpu=Terms(4000, 10_000)),
                QueueSpec("x", "top", gpu=Terms(2000, 8000), models={"H100": Terms(1000, 2000)}),
                QueueSpec("y", "top", gpu=Terms(2000, 8000)),
            ]
        )
    )


def gpu(milli: int, *, preemptible: bool = True, models: tuple[str, ...] = ()) -> Charge:
    return Charge(Amounts(0, 0, milli), preemptible, models)


def test_limits_hold_at_every_level_and_the_lowest_is_named() -> None:
    books = gated()
    books.hold("x", gpu(8000))
    block = gates.check(books, "x", gpu(1000))
    assert block is not None
    assert (block.code, block.queue, block.asked, block.allocated, block.bound) == (
        gates.Gate.OVER_LIMIT, "x", 1000, 8000, 8000,
    )  # fmt: skip
    assert gates.check(books, "y", gpu(2000)) is None
    block = gates.check(books, "y", gpu(3000))
    assert block is not None
    assert block.queue == "top"
    assert gates.check(books, "y", Charge(Amounts(cpu_milli=1000))) is None, "what is not asked for is not looked at"


def test_what_cannot_give_way_stays_within_quota_at_every_level() -> None:
    books = gated()
    assert gates.check(books, "x", gpu(2000, preemptible=False)) is None
    books.hold("x", gpu(2000, preemptible=False))
    block = gates.check(books, "x", gpu(1, preemptible=False))
    assert block is not None
    assert (block.code, block.queue) == (gates.Gate.NON_PREEMPTIBLE_OVER_QUOTA, "x")
    assert gates.check(books, "x", gpu(1)) is None, "what can give way may borrow"
    books.hold("y", gpu(1000, preemptible=False))
    assert gates.check(books, "y", gpu(1000, preemptible=False)) is None


def test_gpu_models_have_limits_and_quotas_of_their_own() -> None:
    books = gated()
    assert gates.check(books, "x", gpu(3000, models=("H100",))) is not None
    assert gates.check(books, "x", gpu(3000, models=("A100",))) is None
    books.hold("x", gpu(1000, models=("H100",), preemptible=False))
    block = gates.check(books, "x", gpu(1000, models=("H100",), preemptible=False))
    assert block is not None
    assert (block.code, block.model, block.allocated, block.bound) == (
        gates.Gate.NON_PREEMPTIBLE_OVER_QUOTA, "H100", 1000, 1000,
    )  # fmt: skip


def test_only_what_cannot_give_way_counts_towards_the_quota_of_a_model() -> None:
    books = gated()
    books.hold("x", gpu(1000, models=("H100",)))
    assert gates.check(books, "x", gpu(1000, models=("H100",), preemptible=False)) is None


def test_what_is_beyond_a_bound_already_stops_only_what_asks_for_more_of_it() -> None:
    """As when a limit is lowered below what is held."""
    books = gated()
    books.hold("x", gpu(9000, models=("H100",)))
    assert gates.check(books, "x", gpu(1)) is not None
    assert gates.check(books, "x", Charge(Amounts(cpu_milli=1), models=("H100",))) is None
    assert gates.headroom(books, "x", preemptible=True) == Amounts(UNLIMITED, UNLIMITED, 0)


@given(
    held=st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 3000), st.booleans()), max_size=6),
    fixed=st.booleans(),
)
def test_headroom_is_the_most_that_passes(held: list[tuple[str, int, bool]], fixed: bool) -> None:
    books = gated()
    for leaf, milli, preemptible in held:
        books.hold(leaf, gpu(milli, preemptible=preemptible))
    room = gates.headroom(books, "x", preemptible=not fixed).gpu_milli
    assert room != UNLIMITED
    assert room == 0 or gates.check(books, "x", gpu(room, preemptible=not fixed)) is None
    assert gates.check(books, "x", gpu(room + 1, preemptible=not fixed)) is not None


# -- access ----------------------------------------------------------------------------------------------------------

TEAMS = Tree(
    [
        QueueSpec("all"),
        QueueSpec("closed", access=Access(frozenset({"red"}))),
        QueueSpec("inherits", "closed"),
        QueueSpec("opened", "closed", access=Access(frozenset(), (Requirement("team", "In", ("blue",)),))),
        QueueSpec("lost", "nowhere"),
    ]
)


@pytest.mark.parametrize(
    ("named", "namespace", "expected"),
    [
        ("all", "anybody", "all"),
        ("inherits", "red", "inherits"),
        ("inherits", "green", Refusal.QUEUE_NOT_ALLOWED),
        ("opened", "sky", "opened"),
        ("opened", "red", Refusal.QUEUE_NOT_ALLOWED),
        ("closed", "red", Refusal.QUEUE_NOT_A_LEAF),
        ("unheard-of", "red", Refusal.QUEUE_DOES_NOT_EXIST),
        ("lost", "red", Refusal.QUEUE_BROKEN),
        (None, "red", Refusal.NO_QUEUE),
    ],
)
def test_who_may_use_which_queue(named: str | None, namespace: str, expected: str) -> None:
    labels = {"team": "blue"} if namespace == "sky" else {}
    choice = access.choose(TEAMS, named, namespace, labels, default=None)
    assert expected in (choice.queue, choice.refusal)


def test_a_default_is_for_those_that_name_none() -> None:
    assert access.choose(TEAMS, None, "red", {}, default="all").queue == "all"
    assert access.choose(TEAMS, "inherits", "red", {}, default="all").queue == "inherits"
    assert access.choose(TEAMS, None, "green", {}, default="inherits").refusal is Refusal.QUEUE_NOT_ALLOWED


def test_without_queues_every_name_is_taken() -> None:
    assert access.choose(Tree(), "anything", "red", {}, default=None).queue == "default"
