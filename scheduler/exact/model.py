"""The CP-SAT model of a problem, over groups of nodes that are alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import gcd
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.exact.node_groups import Alike, Sizes
from scheduler.exact.problem import Outcome, Problem, Solution, Together

MOST_VARIABLES: Final = 60_000
SEED: Final = 1


class Model:
    """`pods[kind, group]` says how many pods of a kind the nodes of a group get, `nodes[group][m]` on how many of them
    mixture `m` is. A group with one mixture needs no such choice: each of its nodes has it.
    """

    def __init__(self, problem: Problem, sizes: Sizes, groups: Sequence[Alike]) -> None:
        from ortools.sat.python import cp_model  # the command line starts without it

        self._cp: Any = cp_model
        self._model: Any = cp_model.CpModel()
        self._problem, self._sizes, self._groups = problem, sizes, groups
        self._nothing: Any = self._model.new_constant(0)
        self._pods: dict[tuple[int, int], Any] = {}
        self._nodes: dict[int, list[Any]] = {}
        for i in range(len(groups)):
            self._add_group(i)
        for kind, wanted in enumerate(problem.wanted):
            self._model.add(self._sum(self._pods_of(kind, range(len(groups)))) == wanted.count)
        for together in problem.together:
            if any(problem.wanted[kind].count for kind in together.wanted):
                self._keep_together(together)

    def _add_group(self, i: int) -> None:
        group, wanted = self._groups[i], self._problem.wanted
        for kind in group.kinds.tolist():
            self._pods[kind, i] = self._model.new_int_var(0, wanted[kind].count, "")
        if group.mixtures is None:
            self._add_resources(i)
        elif len(group.mixtures) == 1:
            for size, pods in self._by_size(i).items():
                self._model.add(self._sum(pods) <= len(group.nodes) * int(group.mixtures[0, size]))
        else:
            self._add_choice(i, group.mixtures)

    def _add_choice(self, i: int, mixtures: NDArray[np.int64]) -> None:
        count = len(self._groups[i].nodes)
        chosen = self._nodes[i] = [self._model.new_int_var(0, count, "") for _ in mixtures]
        self._model.add(self._sum(chosen) <= count)
        for size, pods in self._by_size(i).items():
            self._model.add(self._sum(pods) <= self._weighted(chosen, mixtures[:, size].tolist()))

    def _add_resources(self, i: int) -> None:
        kinds, free = self._groups[i].kinds.tolist(), self._problem.free[self._groups[i].nodes[0]]
        for resource in range(len(free)):
            amounts = [int(self._problem.wanted[kind].amounts[resource]) for kind in kinds]
            unit = gcd(*amounts)
            if unit:
                used = self._weighted([self._pods[kind, i] for kind in kinds], [amount // unit for amount in amounts])
                self._model.add(used <= int(free[resource]) // unit)

    def _keep_together(self, together: Together) -> None:
        domains = self._by_domain(together)
        domains.pop(-1, None)
        chosen = {domain: self._model.new_int_var(0, together.times, "") for domain in domains}
        self._model.add(self._sum(list(chosen.values())) == together.times)
        for kind in together.wanted:
            for domain, groups in domains.items():
                inside = self._sum(self._pods_of(kind, groups))
                self._model.add(inside == self._problem.wanted[kind].count // together.times * chosen[domain])
            for i in set(range(len(self._groups))).difference(*domains.values()):
                if (kind, i) in self._pods:
                    self._model.add(self._pods[kind, i] == 0)

    def use_few(self, wishes: Iterable[Together]) -> None:
        """Minimises the number of domains that get pods. A pod on a node without a domain counts as one more."""
        cost: list[Any] = []
        for wish in wishes:
            domains = self._by_domain(wish)
            for kind in wish.wanted:
                cost += self._pods_of(kind, domains.get(-1, []))
            domains.pop(-1, None)
            cost += [self._used(wish, groups) for groups in domains.values()]
        if cost:
            self._model.minimize(self._sum(cost))

    def _used(self, wish: Together, groups: Sequence[int]) -> Any:
        """Whether pods of the wish are in a domain. Told in more ways than needed: each makes the bound tighter."""
        used = self._model.new_bool_var("")
        for kind in wish.wanted:
            pods = self._pods_of(kind, groups)
            if pods:
                most = sum(self._most(kind, i) for i in groups)
                self._model.add(self._sum(pods) <= min(self._problem.wanted[kind].count, most) * used)
        for i in groups:
            if i in self._nodes and set(self._groups[i].kinds.tolist()) <= set(wish.wanted):
                self._model.add(self._sum(self._nodes[i]) <= len(self._groups[i].nodes) * used)
        return used

    def _most(self, kind: int, i: int) -> int:
        """How many pods of a kind a group holds at most."""
        group = self._groups[i]
        if (kind, i) not in self._pods:
            return 0
        if group.mixtures is None:
            return self._problem.wanted[kind].count
        return len(group.nodes) * int(group.mixtures[:, self._sizes.of[kind]].max())

    def solve(self, limit: float) -> Solution:
        """Searches with one worker for so much deterministic time: the same question has the same answer everywhere.

        Holds no GIL meanwhile.
        """
        solver: Any = self._cp.CpSolver()
        solver.parameters.max_deterministic_time = limit
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = SEED
        status = solver.solve(self._model)
        if status == self._cp.INFEASIBLE:
            return Solution(Outcome.IMPOSSIBLE)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return Solution(Outcome.GAVE_UP)
        return Solution(Outcome.FOUND, self._counts(solver), bool(status == self._cp.OPTIMAL))

    def _counts(self, solver: Any) -> NDArray[np.int64]:
        counts = np.zeros((len(self._problem.wanted), len(self._problem.free)), np.int64)
        for i, group in enumerate(self._groups):
            left = {kind: int(solver.value(self._pods[kind, i])) for kind in group.kinds.tolist()}
            if any(left.values()):
                chosen = [int(solver.value(number)) for number in self._nodes.get(i, [])]
                _spread_out(counts, group, self._sizes, left, chosen)
        return counts

    def _by_size(self, i: int) -> dict[int, list[Any]]:
        found = defaultdict(list)
        for kind in self._groups[i].kinds.tolist():
            found[int(self._sizes.of[kind])].append(self._pods[kind, i])
        return found

    def _by_domain(self, together: Together) -> dict[int, list[int]]:
        """Domain → groups in which some of these pods may be."""
        found = defaultdict(list)
        for i, group in enumerate(self._groups):
            if any((kind, i) in self._pods for kind in together.wanted):
                found[int(together.domains[group.nodes[0]])].append(i)
        return found

    def _pods_of(self, kind: int, groups: Iterable[int]) -> list[Any]:
        return [self._pods[kind, i] for i in groups if (kind, i) in self._pods]

    def _sum(self, variables: Sequence[Any]) -> Any:
        return self._cp.LinearExpr.sum(variables) if variables else self._nothing

    def _weighted(self, variables: Sequence[Any], weights: Sequence[int]) -> Any:
        return self._cp.LinearExpr.weighted_sum(variables, weights)


def variables(groups: Sequence[Alike]) -> int:
    """How many variables the groups need, those of domains not counted."""
    return sum(
        len(group.kinds) + (len(group.mixtures) if group.mixtures is not None and len(group.mixtures) > 1 else 0)
        for group in groups
    )


def _spread_out(
    counts: NDArray[np.int64], group: Alike, sizes: Sizes, left: dict[int, int], chosen: Sequence[int]
) -> None:
    """Gives the pods that are `left` (by kind) to the group's nodes; `chosen` says how many get each mixture."""
    if group.mixtures is None:
        for kind, number in left.items():
            counts[kind, group.nodes[0]] = number
        return
    each = np.repeat(group.mixtures, chosen or [len(group.nodes)], axis=0)
    for node, mixture in zip(group.nodes, each, strict=False):
        space = mixture.tolist()
        for kind in left:
            size = int(sizes.of[kind])
            number = min(left[kind], space[size])
            counts[kind, node] = number
            left[kind] -= number
            space[size] -= number
