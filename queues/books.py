"""How much each queue holds and wants, apart from the hierarchy. All sums include everything below a queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from queues.amounts import NOTHING, Amounts
from queues.tree import Queue, Tree


class Charge(NamedTuple):
    """What one workload (or step of it) counts for in its queue.

    `models` are the keys of GPU models that are charged with its devices too, once it is known where it lands.
    """

    amounts: Amounts
    preemptible: bool = True
    models: tuple[str, ...] = ()


@dataclass(slots=True)
class Standing:
    """One queue in numbers. `fair_share` is written by a division and is NOTHING before the first.

    `model_gpu_milli` and `model_fixed_gpu_milli` are what is held per GPU model, and the non-preemptible part of it.
    `freed` counts how often the queue came to hold less, `waiting` the workloads that want a place.
    """

    allocated: Amounts = NOTHING
    allocated_non_preemptible: Amounts = NOTHING
    pending: Amounts = NOTHING
    fair_share: Amounts = NOTHING
    waiting: int = 0
    freed: int = 0
    model_gpu_milli: dict[str, int] = field(default_factory=dict)
    model_fixed_gpu_milli: dict[str, int] = field(default_factory=dict)

    @property
    def requested(self) -> Amounts:
        """What is held and what is wanted."""
        return self.allocated.plus(self.pending)


class Books:
    """The standings of all queues of one tree. A new tree gets new books."""

    def __init__(self, tree: Tree) -> None:
        self.tree: Final = tree
        self._standings: Final = {name: Standing() for name in tree.queues}
        self.version = 0
        """Grows with every change that may change a share or a turn."""
        self.divided_by: tuple[Amounts, int, Mapping[str, Amounts] | None] | None = None
        """What the shares follow from beside the books: what there is, and the usage over time with its weight."""
        self.undivided: set[str | None] = {None, *tree.queues}
        """Parents (None: of the top queues) below which something changed since shares were divided."""

    def __getitem__(self, queue: str) -> Standing:
        return self._standings[queue]

    def __iter__(self) -> Iterator[str]:
        return iter(self._standings)

    @property
    def standings(self) -> Mapping[str, Standing]:
        """By name of the queue."""
        return self._standings

    def path(self, leaf: str) -> Iterator[tuple[Queue, Standing]]:
        """The queue and its ancestors with their standings, from below."""
        return ((self.tree.queues[name], self._standings[name]) for name in self.tree.queues[leaf].path)

    def hold(self, leaf: str, charge: Charge) -> None:
        """A workload of the leaf holds capacity from now on."""
        self._change(leaf, charge, 1)

    def free(self, leaf: str, charge: Charge) -> None:
        """What `hold` was told holds nothing any more."""
        self._change(leaf, charge, -1)
        for name in self.tree.queues[leaf].path:
            self._standings[name].freed += 1

    def want(self, leaf: str, amounts: Amounts) -> None:
        """A workload of the leaf waits for a place."""
        self._demand(leaf, amounts, 1)

    def unwant(self, leaf: str, amounts: Amounts) -> None:
        """What `want` was told waits no longer."""
        self._demand(leaf, amounts, -1)

    def _touched(self, leaf: str) -> tuple[str, ...]:
        """The path of a leaf whose amounts change."""
        path = self.tree.queues[leaf].path
        self.undivided.update(path)
        self.undivided.add(None)
        return path

    def _demand(self, leaf: str, amounts: Amounts, sign: int) -> None:
        self.version += 1
        for name in self._touched(leaf):
            standing = self._standings[name]
            standing.pending = _moved(standing.pending, amounts, sign)
            standing.waiting += sign

    def _change(self, leaf: str, charge: Charge, sign: int) -> None:
        self.version += 1
        gpu_milli = sign * charge.amounts.gpu_milli
        for name in self._touched(leaf):
            standing = self._standings[name]
            standing.allocated = _moved(standing.allocated, charge.amounts, sign)
            if not charge.preemptible:
                standing.allocated_non_preemptible = _moved(standing.allocated_non_preemptible, charge.amounts, sign)
            for model in charge.models:
                _add(standing.model_gpu_milli, model, gpu_milli)
                if not charge.preemptible:
                    _add(standing.model_fixed_gpu_milli, model, gpu_milli)


def _moved(amounts: Amounts, by: Amounts, sign: int) -> Amounts:
    return amounts.plus(by) if sign > 0 else amounts.minus(by)


def _add(sums: dict[str, int], key: str, amount: int) -> None:
    total = sums.get(key, 0) + amount
    if total:
        sums[key] = total
    else:
        sums.pop(key, None)
