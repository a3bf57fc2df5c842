"""Whose turn it is: a total and stable order, and walking the tree with heaps is walking it plainly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from operator import itemgetter

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.amounts import UNLIMITED, Amounts
from queues.books import Books, Charge, Standing
from queues.order import PARTS, Turns, queue_key, rank
from queues.spec import QueueSpec, Terms
from queues.tree import Queue, Tree
from tests.queues import naive

TOTAL = Amounts(10_000, 10_000, 10_000)
SMALL = st.integers(0, 4).map(lambda gpus: gpus * 1000)
TERMS = st.builds(Terms, quota=st.one_of(st.just(UNLIMITED), SMALL), limit=st.one_of(st.just(UNLIMITED), SMALL))
ASKS = st.builds(Amounts, st.just(100), st.just(100), SMALL)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Up to three levels; some queues of one age and priority."""
    specs = []
    names: list[str | None] = [None]
    for number in range(draw(st.integers(1, 9))):
        name = f"q{number}"
        parent = draw(st.sampled_from(names))
        specs.append(
            QueueSpec(
                name,
                parent,
                uid=name,
                created_ms=draw(st.integers(0, 1)),
                priority=draw(st.integers(99, 101)),
                gpu=draw(TERMS),
            )
        )
        names.append(name)
    return Tree(specs)


def plain_next(books: Books, heads: Mapping[str, Amounts]) -> str | None:
    """The leaf whose turn it is: at each level all siblings are compared, each with its best leaf's next workload."""

    def best(name: str) -> str | None:
        children = books.tree.queues[name].children
        if not children:
            return name if name in heads else None
        return first(children)

    def first(names: tuple[str, ...]) -> str | None:
        found = [(name, leaf) for name in names if (leaf := best(name)) is not None]
        if not found:
            return None
        tree = books.tree
        keyed = [(queue_key(tree.queues[name], books[name], heads[leaf], TOTAL), leaf) for name, leaf in found]
        return min(keyed)[1]

    return first(books.tree.roots)


@given(tree=trees(), data=st.data())
@settings(max_examples=200, deadline=None)
def test_turns_are_those_of_a_plain_walk(tree: Tree, data: st.DataObject) -> None:
    books = Books(tree)
    for name in books:
        books[name].fair_share = Amounts(0, 0, data.draw(SMALL))
    leaves = [queue.name for queue in tree.leaves]
    heads = {leaf: data.draw(ASKS) for leaf in leaves if data.draw(st.booleans())}
    turns = Turns(books, TOTAL, heads)
    assert turns.next() == plain_next(books, heads)
    for _ in range(data.draw(st.integers(1, 12))):
        leaf = data.draw(st.sampled_from(leaves))
        match data.draw(st.sampled_from(["head", "none", "hold"])):
            case "head":
                heads[leaf] = data.draw(ASKS)
                turns.set_head(leaf, heads[leaf])
            case "none":
                heads.pop(leaf, None)
                turns.set_head(leaf, None)
            case _:
                books.hold(leaf, Charge(data.draw(ASKS)))
                turns.refresh(leaf)
        assert turns.next() == plain_next(books, heads)
        assert turns.next() == turns.next(), "asking changes nothing"


MANY = st.builds(Amounts, st.integers(0, 6), st.sampled_from([0, 1, 10**6, 10**15, 10**15 + 1]), st.integers(0, 4))
BOUNDS = st.one_of(st.just(UNLIMITED), st.integers(0, 4))


@st.composite
def sides(draw: st.DrawFn) -> tuple[Queue, Standing, Amounts]:
    """A queue among siblings, with little between one and the other."""
    name = f"q{draw(st.integers(0, 10**6))}"
    cpu, memory, gpu = (Terms(draw(BOUNDS), draw(BOUNDS)) for _ in range(3))
    spec = QueueSpec(
        name,
        created_ms=draw(st.integers(0, 1)),
        priority=draw(st.integers(99, 100)),
        cpu=cpu,
        memory=replace(memory, quota=draw(MANY).memory_bytes),
        gpu=gpu,
    )
    return Queue(spec, (name,), ()), Standing(draw(MANY), fair_share=draw(MANY)), draw(MANY)


@given(st.lists(sides(), min_size=2, max_size=6, unique_by=lambda side: side[0].name))
@settings(deadline=None)
def test_keys_say_what_the_rules_say_and_their_order_is_total(found: list[tuple[Queue, Standing, Amounts]]) -> None:
    total = Amounts(7, 10**15 + 1, 5)
    keyed = [(queue_key(queue, standing, ask, total), (queue, standing, ask)) for queue, standing, ask in found]
    assert len({key for key, _ in keyed}) == len(keyed), "no two are equal"
    for (left, ours), (right, theirs) in combinations(keyed, 2):
        expected = naive.goes_first(ours, theirs, total)
        assert expected is None or (left < right) == expected
    assert sorted(keyed, key=itemgetter(0)) == sorted(reversed(keyed), key=itemgetter(0))


def test_shares_that_differ_by_less_than_any_float_can_tell_are_told_apart() -> None:
    """And equal fractions are equal however they are written."""

    def key(held: int, quota: int) -> tuple[object, ...]:
        spec = QueueSpec("q", memory=Terms(quota))
        standing = Standing(Amounts(memory_bytes=held), fair_share=Amounts(memory_bytes=quota))
        return queue_key(Queue(spec, ("q",), ()), standing, None, Amounts())[:6]

    petabytes = 10**16
    assert key(petabytes - 1, petabytes) < key(petabytes, petabytes + 1)
    assert key(petabytes // 3 * 1, petabytes // 3 * 7) == key(1, 7)


def test_what_a_queue_has_no_claim_on_counts_by_the_unit() -> None:
    """A device weighs as a thousand full shares do, and so does a megabyte."""
    left, right = (QueueSpec(name, cpu=Terms(), memory=Terms(), gpu=Terms()) for name in ("left", "right"))
    keys = [
        queue_key(Queue(spec, (spec.name,), ()), Standing(held), None, Amounts())
        for spec, held in ((left, Amounts(gpu_milli=2000)), (right, Amounts(memory_bytes=1_999_999)))
    ]
    assert keys[0].share == 2000 << PARTS
    assert keys[1].share == (1_999_999 * 1000 << PARTS) // 1_000_000


def test_of_two_that_hold_nothing_the_one_that_may_hold_less_goes_first() -> None:
    tree = Tree([QueueSpec("old", created_ms=1, gpu=Terms(3000)), QueueSpec("young", created_ms=2, gpu=Terms(2000))])
    turns = Turns(Books(tree), TOTAL, {"old": Amounts(), "young": Amounts()})
    assert turns.next() == "young"


def test_the_rules_in_their_order() -> None:
    """Within the quota before beyond it, priority only then, then the smaller share, then age."""
    tree = Tree(
        [
            QueueSpec("beyond", priority=200, gpu=Terms(quota=1000)),
            QueueSpec("within", priority=100, gpu=Terms(quota=2000)),
            QueueSpec("more", priority=150, created_ms=1),
            QueueSpec("less", priority=150, created_ms=2),
            QueueSpec("same", priority=150, created_ms=3),
        ]
    )
    books = Books(tree)
    for name, held in (("beyond", 1000), ("within", 1000), ("more", 3000), ("less", 1000), ("same", 1000)):
        books.hold(name, Charge(Amounts(0, 0, held)))
        books[name].fair_share = Amounts(0, 0, 4000)
    turns = Turns(books, TOTAL)
    for name in tree.queues:
        turns.set_head(name, Amounts(0, 0, 1000))
    seen = []
    while (leaf := turns.next()) is not None:
        seen.append(leaf)
        turns.set_head(leaf, None)
    assert seen == ["within", "beyond", "less", "same", "more"]


def test_equals_take_turns() -> None:
    """Two queues with nothing but their weight get every second place."""
    tree = Tree([QueueSpec("a", created_ms=1), QueueSpec("b", created_ms=2)])
    books = Books(tree)
    for name in ("a", "b"):
        books[name].fair_share = Amounts(0, 0, 5000)
    turns, one = Turns(books, TOTAL), Amounts(0, 0, 1000)
    turns.set_head("a", one)
    turns.set_head("b", one)
    seen = ""
    for _ in range(6):
        leaf = turns.next()
        assert leaf is not None
        seen += leaf
        books.hold(leaf, Charge(one))
        turns.refresh(leaf)
    assert seen == "ababab"


def test_ranks_within_a_queue() -> None:
    """Released work, then priority, then age, then uid."""
    ranks = {
        name: rank(uid=name, priority=priority, created_ms=created, released=released)
        for name, priority, created, released in (
            ("young", 5, 9, False),
            ("old", 5, 1, False),
            ("old-too", 5, 1, False),
            ("high", 9, 9, False),
            ("released", 1, 9, True),
        )
    }
    assert sorted(ranks, key=ranks.__getitem__) == ["released", "high", "old", "old-too", "young"]
