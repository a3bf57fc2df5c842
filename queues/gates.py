"""Whether a queue and all above it bear one more workload: limits, and quotas for work that cannot give way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from queues.amounts import RESOURCES, UNLIMITED, Amounts
from queues.books import Books, Charge, Standing
from queues.spec import QueueSpec


class Gate(StrEnum):
    """What a queue refuses by. The names are part of the API."""

    OVER_LIMIT = "OVER_LIMIT"
    NON_PREEMPTIBLE_OVER_QUOTA = "NON_PREEMPTIBLE_OVER_QUOTA"


@dataclass(frozen=True, slots=True)
class Block:
    """The queue that refuses, and the numbers: what is asked, what is held already, and the limit or quota.

    Amounts are in the unit of `resource`, a name of `Amounts`. `model` is set where it is about a GPU model.
    """

    code: Gate
    queue: str
    resource: str
    model: str | None
    asked: int
    allocated: int
    bound: int


def check(books: Books, leaf: str, charge: Charge) -> Block | None:
    """Why the leaf or one of its ancestors does not bear the charge: the lowest, the limit before the quota, resources
    in the order of `Amounts`, then models. None when all do. What is not asked for is not looked at.
    """
    for queue, standing in books.path(leaf):
        block = next(_blocks(queue.spec, standing, charge), None)
        if block is not None:
            return block
    return None


def headroom(books: Books, leaf: str, *, preemptible: bool) -> Amounts:
    """The most of each resource that `check` would let pass, UNLIMITED where nothing bounds it. Never below 0."""
    room = [UNLIMITED] * len(RESOURCES)
    for queue, standing in books.path(leaf):
        bounds = [(queue.spec.limit, standing.allocated)]
        if not preemptible:
            bounds.append((queue.spec.quota, standing.allocated_non_preemptible))
        for bound, held in bounds:
            for index in range(len(RESOURCES)):
                if bound[index] != UNLIMITED:
                    left = max(bound[index] - held[index], 0)
                    room[index] = left if room[index] == UNLIMITED else min(room[index], left)
    return Amounts(*room)


def _blocks(spec: QueueSpec, standing: Standing, charge: Charge) -> Iterator[Block]:
    yield from _beyond(Gate.OVER_LIMIT, spec.name, charge.amounts, standing.allocated, spec.limit)
    if not charge.preemptible:
        held = standing.allocated_non_preemptible
        yield from _beyond(Gate.NON_PREEMPTIBLE_OVER_QUOTA, spec.name, charge.amounts, held, spec.quota)
    asked = charge.amounts.gpu_milli
    for model in charge.models:
        terms = spec.models.get(model)
        if terms is None or not asked:
            continue
        held_milli = standing.model_gpu_milli.get(model, 0)
        if terms.limit != UNLIMITED and held_milli + asked > terms.limit:
            yield Block(Gate.OVER_LIMIT, spec.name, "gpu_milli", model, asked, held_milli, terms.limit)
        fixed_milli = standing.model_fixed_gpu_milli.get(model, 0)
        if not charge.preemptible and terms.quota != UNLIMITED and fixed_milli + asked > terms.quota:
            yield Block(Gate.NON_PREEMPTIBLE_OVER_QUOTA, spec.name, "gpu_milli", model, asked, fixed_milli, terms.quota)


def _beyond(code: Gate, queue: str, asked: Amounts, held: Amounts, bound: Amounts) -> Iterator[Block]:
    for index, resource in enumerate(RESOURCES):
        if asked[index] and bound[index] != UNLIMITED and held[index] + asked[index] > bound[index]:
            yield Block(code, queue, resource, None, asked[index], held[index], bound[index])
