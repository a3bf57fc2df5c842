"""Whose turn it is: a total and stable order, and walking the tree with heaps is walking it plainly."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.amounts import UNLIMITED, Amounts
from queues.books import Books, Charge
from queues.order import Turns, queue_key, rank
from queues.spec import QueueSpec, Terms
from queues.tree import Tree

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
    turns, heads, leaves = Turns(books, TOTAL), {}, [queue.name for queue in tree.leaves]
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


@given(tree=trees(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_order_of_siblings_is_total(tree: Tree, data: st.DataObject) -> None:
    books = Books(tree)
    for name in books:
        books[name].allocated = data.draw(ASKS)
        books[name].fair_share = data.draw(ASKS)
    keys = [queue_key(queue, books[name], data.draw(ASKS), TOTAL) for name, queue in tree.queues.items()]
    assert len(set(keys)) == len(keys), "no two are equal"
    assert sorted(keys) == sorted(reversed(keys))


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
