"""Shares of whole trees: top-down as the naive reference does it, and only where something changed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues import division
from queues.amounts import NOTHING, RESOURCES, UNITS, UNLIMITED, Amounts
from queues.books import Books, Charge
from queues.spec import QueueSpec, Terms
from queues.tree import Tree
from tests.queues import naive
from tests.queues.claims import Claim

AMOUNTS = st.builds(Amounts, st.integers(0, 30), st.integers(0, 9_000_000), st.integers(0, 30_000))
FRACTIONS = st.integers(0, division.PPM)
USAGES = st.builds(Amounts, FRACTIONS, FRACTIONS, FRACTIONS)


def terms(unit: int) -> st.SearchStrategy[Terms]:
    bounds = st.one_of(st.just(UNLIMITED), st.just(0), st.integers(0, 12 * unit))
    return st.builds(Terms, bounds, bounds, st.sampled_from([0, 500, 1000, 3000]))


@st.composite
def specs(draw: st.DrawFn) -> list[QueueSpec]:
    """Up to four levels."""
    found: list[QueueSpec] = []
    for number in range(draw(st.integers(1, 8))):
        parent = draw(st.sampled_from([None, *(spec.name for spec in found)]))
        cpu, memory, gpu = (draw(terms(unit)) for unit in UNITS)
        models = draw(st.dictionaries(st.sampled_from(["A", "B"]), terms(UNITS.gpu_milli)))
        age, priority = draw(st.integers(0, 2)), draw(st.integers(1, 2))
        name = f"q{number}"
        found.append(
            QueueSpec(
                name, parent, uid=name, created_ms=age, priority=priority, cpu=cpu, memory=memory, gpu=gpu,
                models=models,
            )
        )  # fmt: skip
    return found


def plainly(
    books: Books, total: Amounts, k_milli: int = 0, usage: Mapping[str, Amounts] | None = None
) -> dict[str, Amounts]:
    """The shares of all queues, each level by the naive reference."""
    found: dict[str, list[int]] = {name: [] for name in books}

    def level(names: Sequence[str], amount: int, index: int) -> None:
        claims = [
            Claim(
                (spec := books.tree.queues[name].spec).terms[index],
                spec.priority,
                books[name].requested[index],
                spec.age_order,
                (usage or {}).get(name, NOTHING)[index],
            )
            for name in names
        ]
        for name, share in zip(names, naive.divide_level(amount, claims, UNITS[index], k_milli), strict=True):
            found[name].append(share)
            level(books.tree.queues[name].children, share, index)

    for index in range(len(RESOURCES)):
        level(books.tree.roots, total[index], index)
    return {name: Amounts(*shares) for name, shares in found.items()}


def shares(books: Books) -> dict[str, Amounts]:
    return {name: books[name].fair_share for name in books}


@dataclass
class Run:
    """Books that are divided again and again, and what they hold and want."""

    books: Books
    held: list[tuple[str, Charge]] = field(default_factory=list)
    wanted: list[tuple[str, Amounts]] = field(default_factory=list)

    def step(self, data: st.DataObject) -> None:
        draw = data.draw
        leaves = [queue.name for queue in self.books.tree.leaves]
        match draw(st.sampled_from(["hold", "want", "free", "unwant"])):
            case "hold":
                self.held.append((draw(st.sampled_from(leaves)), Charge(draw(AMOUNTS))))
                self.books.hold(*self.held[-1])
            case "want":
                self.wanted.append((draw(st.sampled_from(leaves)), draw(AMOUNTS)))
                self.books.want(*self.wanted[-1])
            case "free" if self.held:
                self.books.free(*self.held.pop(draw(st.integers(0, len(self.held) - 1))))
            case "unwant" if self.wanted:
                self.books.unwant(*self.wanted.pop(draw(st.integers(0, len(self.wanted) - 1))))


@given(specs(), st.data())
@settings(deadline=None)
def test_dividing_again_after_any_change_is_dividing_everything_plainly(
    found: list[QueueSpec], data: st.DataObject
) -> None:
    run = Run(Books(Tree(found)))
    total, k_milli, usage = data.draw(AMOUNTS), 0, None
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(0, 2))):
            run.step(data)
        if data.draw(st.booleans()):
            total = data.draw(AMOUNTS)
        if data.draw(st.booleans()):
            k_milli, usage = (
                data.draw(st.sampled_from([0, 1000, 2500])),
                {name: data.draw(USAGES) for name in run.books},
            )
        division.divide(run.books, total, k_milli=k_milli, usage=usage)
        assert shares(run.books) == plainly(run.books, total, k_milli, usage)


@given(specs(), st.data(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_in_which_queues_are_named_makes_no_difference(
    found: list[QueueSpec], data: st.DataObject, order: random.Random
) -> None:
    wanted = {spec.name: data.draw(AMOUNTS) for spec in found}
    total, both = data.draw(AMOUNTS), []
    for _ in range(2):
        tree = Tree(found)
        books = Books(tree)
        for queue in tree.leaves:
            books.want(queue.name, wanted[queue.name])
        division.divide(books, total)
        both.append(shares(books))
        order.shuffle(found)
    assert both[0] == both[1]


# -- what is not divided anew ----------------------------------------------------------------------------------------

COMPANY = [
    QueueSpec("a", gpu=Terms(quota=4000)), QueueSpec("a1", "a"), QueueSpec("a2", "a"),
    QueueSpec("b", gpu=Terms(quota=4000)), QueueSpec("b1", "b"), QueueSpec("b2", "b"),
]  # fmt: skip


class Levels:
    """Counts divisions of a level in all its resources."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._calls = 0
        real = division.divide_level

        def counted(*arguments: object, **named: object) -> list[int]:
            self._calls += 1
            return real(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(division, "divide_level", counted)

    @property
    def seen(self) -> int:
        """Since the last time."""
        calls, self._calls = self._calls, 0
        assert calls % len(RESOURCES) == 0
        return calls // len(RESOURCES)


def test_levels_without_a_change_are_not_divided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    books, levels = Books(Tree(COMPANY)), Levels(monkeypatch)
    for leaf in ("a1", "b1", "b2"):
        books.want(leaf, Amounts(0, 0, 4000))
    total = Amounts(0, 0, 8000)
    division.divide(books, total)
    assert levels.seen == 3
    division.divide(books, total)
    assert levels.seen == 0, "nothing changed"
    books.want("a2", Amounts(0, 0, 1000))
    division.divide(books, total)
    assert levels.seen == 2, "the top and a: b has the same share as before"
    division.divide(books, Amounts(0, 0, 7000))
    assert levels.seen == 1, "both have their quotas whatever there is"
    division.divide(books, Amounts(0, 0, 12_000))
    assert levels.seen == 3, "there is more for both"


def test_usage_over_time_has_everything_divided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    books, levels = Books(Tree(COMPANY)), Levels(monkeypatch)
    for leaf in ("b1", "b2"):
        books.want(leaf, Amounts(0, 0, 10_000))
    total = Amounts(0, 0, 10_000)
    division.divide(books, total, k_milli=1000, usage={"b1": Amounts(0, 0, 600_000)})
    assert books["b1"].fair_share.gpu_milli == 3000  # (0.5 - 0.1) : (0.5 + 0.5)
    levels.seen  # noqa: B018
    division.divide(books, total, k_milli=1000, usage={"b2": Amounts(0, 0, 600_000)})
    assert levels.seen == 3
    assert books["b1"].fair_share.gpu_milli == 7000


def test_usage_that_does_not_count_has_nothing_divided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    books, levels = Books(Tree(COMPANY)), Levels(monkeypatch)
    division.divide(books, NOTHING, usage={"b1": Amounts(0, 0, 600_000)})
    assert levels.seen
    division.divide(books, NOTHING, usage={"b1": Amounts(0, 0, 700_000)})
    division.divide(books, NOTHING, k_milli=1000)
    assert not levels.seen


def test_a_tree_of_broken_queues_has_nothing_to_divide() -> None:
    books = Books(Tree([QueueSpec("lost", "nowhere")]))
    division.divide(books, Amounts(1, 1, 1))
    assert shares(books) == {}


# -- per GPU model ---------------------------------------------------------------------------------------------------


def test_models_are_divided_each_alone_by_their_own_quotas_and_limits() -> None:
    books = Books(
        Tree(
            [
                QueueSpec("a", created_ms=1, models={"H100": Terms(quota=4000), "A100": Terms(UNLIMITED, limit=2000)}),
                QueueSpec("b", created_ms=2, gpu=Terms(weight_milli=3000)),
                QueueSpec("b1", "b"),
                QueueSpec("b2", "b", models={"H100": Terms(limit=1000)}),
            ]
        )
    )
    books.hold("b1", Charge(Amounts(0, 0, 2000), models=("H100",)))
    wanted = {"a": {"H100": 8000, "A100": 8000}, "b1": {"H100": 8000}, "b2": {"H100": 8000, "A100": 8000}}
    found = division.model_shares(books, {"H100": 8000, "A100": 8000}, wanted)
    assert {name: models["H100"] for name, models in found.items()} == {"a": 5000, "b": 3000, "b1": 2000, "b2": 1000}
    assert {name: models["A100"] for name, models in found.items()} == {"a": 2000, "b": 6000, "b1": 0, "b2": 6000}


@given(specs(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_model_is_divided_as_devices_would_be(found: list[QueueSpec], data: st.DataObject) -> None:
    books, totals = Books(Tree(found)), {"A": data.draw(st.integers(0, 30_000)), "B": 7000}
    wanted = {
        queue.name: {"A": data.draw(st.integers(0, 9000))} for queue in books.tree.leaves if data.draw(st.booleans())
    }
    held = {queue.name: data.draw(st.integers(0, 4000)) for queue in books.tree.leaves}
    for leaf, gpu_milli in held.items():
        books.hold(leaf, Charge(Amounts(0, 0, gpu_milli), models=("A",)))
    shares = division.model_shares(books, totals, wanted)

    def asked(name: str) -> int:
        below = books.tree.queues[name].children
        return sum(asked(child) for child in below) if below else held[name] + wanted.get(name, {}).get("A", 0)

    def level(names: Sequence[str], amount: int) -> None:
        claims = []
        for name in names:
            spec = books.tree.queues[name].spec
            said = spec.models.get("A", Terms())
            own = Terms(max(said.quota, 0), said.limit, spec.gpu.weight_milli)
            claims.append(Claim(own, spec.priority, asked(name), spec.age_order))
        for name, share in zip(names, naive.divide_level(amount, claims, UNITS.gpu_milli), strict=True):
            assert shares[name]["A"] == share
            level(books.tree.queues[name].children, share)

    level(books.tree.roots, totals["A"])
    assert all(models["B"] == 0 for models in shares.values()), "nobody wants it"
