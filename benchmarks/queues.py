"""Fair shares and turns of 50, 500 and 5,000 queues in three levels, all of them with work that waits.

Whose turn it is stands beside the plain way of the same search, comparing all siblings, in the same run.
Run: `python -m benchmarks.queues`.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks import report
from benchmarks.measure import Times, times
from queues.amounts import Amounts
from queues.books import Books, Charge
from queues.division import divide
from queues.order import QueueKey, Turns, queue_key
from queues.spec import QueueSpec, Terms
from queues.tree import Tree

SIZES: Final = (50, 500, 5000)
WARM_UP: Final = 3
PLAIN_SAMPLES: Final = 10
COLUMNS: Final = ("operation", "queues", "min µs", "p50 µs", "p99 µs", "plain p50", "plain / p50")
ONE: Final = Charge(Amounts(8000, 64 << 30, 1000))


@dataclass(frozen=True, slots=True)
class Row:
    """One operation; `plain` is the plain way, where there is one to compare with."""

    operation: str
    queues: int
    tangram: Times
    plain: Times | None = None


@dataclass(frozen=True, slots=True)
class Company:
    """Queues of which every leaf holds and wants something, and what there is for half of it."""

    books: Books
    total: Amounts

    @property
    def leaves(self) -> list[str]:
        return [queue.name for queue in self.books.tree.leaves]


def company(queues: int, seed: int = 1) -> Company:
    """About as many children everywhere: departments, teams, projects."""
    rng = random.Random(seed)
    width = max(round(queues ** (1 / 3)), 2)
    departments = [_spec(f"department-{at}", None, 40, rng) for at in range(width)]
    teams = [_spec(f"team-{at}", departments[at % width].name, 8, rng) for at in range(width**2)]
    projects = [_spec(f"project-{at}", teams[at % width**2].name, 1, rng) for at in range(queues - width - width**2)]
    books = Books(Tree([*departments, *teams, *projects]))
    asked = 0
    for queue in books.tree.leaves:
        held, wanted = rng.randint(0, 4), rng.randint(1, 8)
        asked += held + wanted
        books.hold(queue.name, Charge(_times(held)))
        books.want(queue.name, _times(wanted))
    return Company(books, _times(asked // 2))


def _spec(name: str, parent: str | None, devices: int, rng: random.Random) -> QueueSpec:
    """A queue with a quota of up to so many devices."""
    gpu = Terms(rng.randint(0, devices) * 1000, weight_milli=rng.randint(1, 4) * 1000)
    return QueueSpec(name, parent, uid=name, priority=rng.choice([100, 100, 110]), gpu=gpu)


def _times(devices: int) -> Amounts:
    return Amounts(*(devices * amount for amount in ONE.amounts))


def samples(run: Callable[[], object], count: int, before: Callable[[], object] = lambda: None) -> Times:
    """Times of `run`, each after an untimed `before`."""
    found = []
    for turn in range(WARM_UP + count):
        before()
        began = time.perf_counter()
        run()
        if turn >= WARM_UP:
            found.append(time.perf_counter() - began)
    return times(found)


def divisions(made: Company, count: int) -> Iterator[Row]:
    """Everything anew, and after a change in one leaf."""
    books, size = made.books, len(made.books.tree.queues)
    leaves = itertools.cycle(made.leaves)

    def run() -> None:
        divide(books, made.total)

    yield Row("divide everything", size, samples(run, count, lambda: books.undivided.update([None, *books])))
    yield Row("divide after one change", size, samples(run, count, lambda: books.want(next(leaves), ONE.amounts)))


def turns(made: Company, count: int) -> Iterator[Row]:
    """Making the turns of all leaves, and steps: whose turn it is, it gets what it asks for, and asks again."""
    divide(made.books, made.total)
    books, total, size = made.books, made.total, len(made.books.tree.queues)
    heads = {leaf: ONE.amounts for leaf in made.leaves}
    yield Row("make turns", size, samples(lambda: Turns(books, total, heads), min(count, PLAIN_SAMPLES)))
    found = Turns(books, total, heads)

    def step() -> None:
        leaf = found.next()
        if leaf is not None:
            books.hold(leaf, ONE)
            found.set_head(leaf, ONE.amounts)

    tangram = samples(step, count * 10)
    plain = samples(lambda: first(books, total, heads, books.tree.roots), min(count, PLAIN_SAMPLES))
    yield Row("one turn", size, tangram, plain)


def first(books: Books, total: Amounts, heads: Mapping[str, Amounts], names: Sequence[str]) -> tuple[QueueKey, str]:
    """The plain way: of siblings the key of the first and the leaf below it whose turn it is."""
    found = []
    for name in names:
        queue = books.tree.queues[name]
        leaf = first(books, total, heads, queue.children)[1] if queue.children else name
        found.append((queue_key(queue, books[name], heads[leaf], total), leaf))
    return min(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queues", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of queues, from 10")
    parser.add_argument("--samples", type=int, default=100, help="samples of each operation")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for size in options.sizes:
        for part in (divisions, turns):
            rows += part(company(size), options.samples)
    report.table("Queues in three levels, half of what is asked for there", COLUMNS, [_cells(row) for row in rows])
    report.write("queues", {"rows": [asdict(row) for row in rows]})
    return 0


def _cells(row: Row) -> list[object]:
    ours, plain = row.tangram, row.plain
    ratio = None if plain is None else plain.p50_us / ours.p50_us
    other = None if plain is None else plain.p50_us
    return [row.operation, row.queues, ours.min_us, ours.p50_us, ours.p99_us, other, ratio]


if __name__ == "__main__":
    raise SystemExit(main())
