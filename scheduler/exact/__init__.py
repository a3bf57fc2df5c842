"""Whether a gang can be placed, answered exactly (CP-SAT). A pure question: the answer is a proposal to be verified.

Nothing is rounded and nothing left out: nodes are merged only where they hold the same mixtures of pods, may take the
same kinds of pods and stand in the same domains. So FOUND is a placement and IMPOSSIBLE a proof, of the problem as it
is stated: what a problem does not say (devices one by one, host ports, affinity between pods) others have to check.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scheduler.exact.model import MOST_VARIABLES, Model, variables
from scheduler.exact.node_groups import alike, sizes_of
from scheduler.exact.problem import Outcome, Problem, Solution, Together, Wanted
from scheduler.exact.room import could_fit, enough, narrowed
from scheduler.exact.twins import Merged, merge

__all__ = ["Outcome", "Problem", "Solution", "Together", "Wanted", "could_fit", "solve"]


def solve(problem: Problem, *, limit: float, few: tuple[Together, ...] = ()) -> Solution:
    """Places all pods, or says that this is impossible or that the limit was reached first.

    `limit` is CP-SAT's deterministic time; a unit is a second to five of one core. `few` are wishes: of all placements
    one is searched that uses the fewest of these domains, all wishes counting alike; a pod on a node without a domain
    counts as one domain. A problem that needs more than MOST_VARIABLES variables is given up at once.
    """
    merged = merge(problem, few)
    room = narrowed(merged.problem)
    if not enough(merged.problem, room):
        return Solution(Outcome.IMPOSSIBLE)
    if not room.any():
        return Solution(Outcome.FOUND, np.zeros((len(problem.wanted), len(problem.free)), np.int64), True)
    found = _solve(merged, room, limit)
    return found if found.counts is None else replace(found, counts=merged.split(found.counts))


def _solve(merged: Merged, room: NDArray[np.int64], limit: float) -> Solution:
    sizes = sizes_of(merged.problem)
    groups = alike(merged.problem, room, sizes, (*merged.problem.together, *merged.few))
    if variables(groups) > MOST_VARIABLES:
        return Solution(Outcome.GAVE_UP)
    model = Model(merged.problem, sizes, groups)
    model.use_few(merged.few)
    return model.solve(limit)
