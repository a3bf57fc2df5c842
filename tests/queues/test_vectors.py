"""KAI's own cases of the fairness rules. `TANGRAM_VECTORS` may name another file of the same form."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from queues import division, gates, order, reclaim
from queues.amounts import RESOURCES, UNITS, UNLIMITED, Amounts
from queues.books import Books, Charge
from queues.spec import QueueSpec, Terms
from queues.tree import Tree, sides
from tests.queues.claims import Claim, divide_level, divide_rest

OURS: Final = Path(__file__).parent / "data" / "vectors.json"
FILE: Final = Path(os.environ.get("TANGRAM_VECTORS") or OURS)
VECTORS: Final = json.loads(FILE.read_text())["vectors"]
NAMES: Final = ("cpu", "memory", "gpu")
"""Their names of resources, in the order of `Amounts`."""
Object = Mapping[str, Any]
Answer = dict[str, Any]


def scaled(value: float | None, unit: int) -> int:
    """A number of theirs in our integers; exact, or the test fails."""
    if value is None or value == UNLIMITED:
        return value if value is None else UNLIMITED  # type: ignore[return-value]
    exact = Fraction(str(value)) * unit
    assert exact.denominator == 1, value
    return int(exact)


def amounts(given: Object | None, *path: str) -> Amounts:
    """`{"cpu": 1, …}`, or with a path `{"cpu": {path: 1}, …}`; null and absent are 0."""
    found = []
    for name, unit in zip(NAMES, UNITS, strict=True):
        value: Any = (given or {}).get(name, 0)
        for step in path:
            value = (value or {}).get(step, 0)
        found.append(scaled(value or 0, unit))
    return Amounts(*found)


def terms(queue: Object, name: str) -> Terms:
    said, unit = queue.get(name, {}), UNITS[NAMES.index(name)]
    weight = scaled(said.get("weight", 0), 1000)
    return Terms(scaled(said.get("deserved", 0), unit), scaled(said.get("limit", 0), unit), max(weight, 0))


def usage_ppm(queue: Object, name: str) -> int:
    """A part of the capacity is measured: the nearest of ours."""
    return round(Fraction(str(queue.get(name, {}).get("usage", 0))) * division.PPM)


def spec(queue: Object) -> QueueSpec:
    return QueueSpec(
        queue["id"] or "q",
        queue.get("parent") or None,
        uid=queue["id"],
        created_ms=int(queue.get("created") or 0),
        priority=queue.get("priority", 0),
        cpu=terms(queue, "cpu"),
        memory=terms(queue, "memory"),
        gpu=terms(queue, "gpu"),
    )


def books_of(*queues: Object) -> Books:
    """The books of these queues with what they hold, want and are entitled to."""
    books = Books(Tree(spec(queue) for queue in queues))
    for queue in queues:
        standing = books[queue["id"] or "q"]
        standing.allocated = amounts(queue, "allocated")
        standing.allocated_non_preemptible = amounts(queue, "allocated_non_preemptible")
        standing.pending = amounts(queue, "request").minus(standing.allocated)
        standing.fair_share = amounts(queue, "fair_share")
    return books


def side(queue: Object, held: Object | None = None) -> reclaim.Side:
    return reclaim.Side(
        spec(queue), amounts(queue, "allocated") if held is None else amounts(held), amounts(queue, "fair_share")
    )


def claims(given: Object) -> tuple[list[str], list[Claim], int]:
    """Ids, claims, and the unit of the resource in question."""
    name = given["resource"]
    unit = UNITS[NAMES.index(name)]
    queues = list(given["queues"].values())
    found = [
        Claim(
            terms(queue, name),
            queue["priority"],
            scaled(queue[name].get("request", 0), unit),
            spec(queue).age_order,
            usage_ppm(queue, name),
        )
        for queue in queues
    ]
    return [queue["id"] for queue in queues], found, unit


def divided(given: Object, before: list[int], shares: list[int]) -> Answer:
    ids, _, unit = claims(given)
    left = scaled(given["total"], unit) - (sum(shares) - sum(before))
    answer: Answer = {
        f"fair_share/{name}/{given['resource']}": Fraction(share, unit) for name, share in zip(ids, shares, strict=True)
    }
    return {**answer, "remaining": Fraction(max(left, 0), unit)}


def divide_one(given: Object) -> Answer:
    _, found, unit = claims(given)
    shares = divide_level(scaled(given["total"], unit), found, unit, scaled(given["k"], 1000))
    return divided(given, [0] * len(shares), shares)


def divide_over_quota(given: Object) -> Answer:
    _, found, unit = claims(given)
    name = given["resource"]
    before = [scaled(queue[name].get("fair_share", 0), unit) for queue in given["queues"].values()]
    after = divide_rest(scaled(given["total"], unit), found, before, unit, scaled(given["k"], 1000))
    return divided(given, before, after)


def divide_all(given: Object) -> Answer:
    books = books_of(*given["queues"].values())
    usage = {
        name: Amounts(*(usage_ppm(queue, resource) for resource in NAMES)) for name, queue in given["queues"].items()
    }
    division.divide(books, amounts(given["total"]), k_milli=scaled(given["k"], 1000), usage=usage)
    return {
        f"fair_share/{queue}/{name}": Fraction(books[queue].fair_share[index], UNITS[index])
        for queue in given["queues"]
        for index, name in enumerate(NAMES)
    }


def queue_order(given: Object) -> Answer:
    books = books_of(given["left"], given["right"])
    keys = [
        order.queue_key(
            books.tree.queues[given[who]["id"]],
            books[given[who]["id"]],
            amounts(given[f"{who}_job"]),
            amounts(given["total"]),
        )
        for who in ("left", "right")
    ]
    return {"result": -1 if keys[0] < keys[1] else 1}


def charge(reclaimer: Object) -> Charge:
    return Charge(amounts(reclaimer["request"]), reclaimer["preemptible"])


def can_reclaim(given: Object) -> Answer:
    books, leaf = books_of(*given["queues"].values()), given["reclaimer"]["queue"]
    result = reclaim.can_reclaim(books.tree.queues[leaf].spec, books[leaf], charge(given["reclaimer"]))
    return {"result": result}


def reclaimable(given: Object) -> Answer:
    books = books_of(*given["queues"].values())
    victims = {name: [amounts(batch) for batch in batches] for name, batches in given["victims"].items()}
    result = reclaim.reclaimable(
        books,
        given["reclaimer"]["queue"],
        charge(given["reclaimer"]),
        victims,
        multiplier_milli=scaled(given["multiplier"], 1000),
    )
    return {"result": result}


def filter_victim(given: Object) -> Answer:
    queues = given["queues"]
    tree = Tree(spec(queue) for queue in queues.values())
    pair = sides(tree.queues[given["reclaimer"]["queue"]], tree.queues[given["victim_queue"]])
    assert pair is not None
    ours, theirs = (side(queues[name]) for name in pair)
    return {"result": reclaim.filter_victim(ours, theirs, amounts(given["reclaimer"]["request"]))}


def maintain_fair_share(given: Object) -> Answer:
    return {"result": reclaim.maintain_fair_share(side(given["reclaimee"], given["reclaimee_remaining"]))}


def guarantee_quota(given: Object) -> Answer:
    victim = side(given["reclaimee"], given["reclaimee_remaining"])
    return {"result": reclaim.guarantee_quota(side(given["reclaimer"]), victim, amounts(given["request"]))}


def over_limit(given: Object) -> Answer:
    books = books_of(given["queue"])
    return blocked(gates.check(books, "q", Charge(amounts(given["request"]), preemptible=True)))


def non_preemptible_over_quota(given: Object) -> Answer:
    unlimited = {name: {**given["queue"].get(name, {}), "limit": -1} for name in NAMES}
    books = books_of({**given["queue"], **unlimited})
    return blocked(gates.check(books, "q", Charge(amounts(given["request"]), preemptible=False)))


def blocked(block: gates.Block | None) -> Answer:
    resource = "" if block is None else NAMES[RESOURCES.index(block.resource)]
    return {"result": block is not None, "resource": resource}


RULES: Final[Mapping[str, Callable[[Object], Answer]]] = {
    rule.__name__: rule
    for rule in (
        divide_one, divide_over_quota, divide_all, queue_order, can_reclaim, reclaimable, filter_victim,
        maintain_fair_share, guarantee_quota, over_limit, non_preemptible_over_quota,
    )
}  # fmt: skip


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_vector(vector: Object) -> None:
    answer = RULES[vector["fn"]](vector["input"])
    for key, expected in vector["expect"].items():
        exact = expected if isinstance(expected, bool | str) else Fraction(str(expected))
        assert answer[key] == exact, key


@pytest.mark.skipif(FILE != OURS, reason="another file is named")
def test_there_are_cases_of_every_rule() -> None:
    assert len(VECTORS) == 86
    assert {vector["fn"] for vector in VECTORS} == set(RULES)
