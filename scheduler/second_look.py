"""A second look at gangs for which the search finds no place although there may be one: exact, beside the loop.

A question is made on the state as it is; whoever answers touches no state. The answer is a proposal: it is tried on the
state as it is then, and what does not fit any more is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.exact import Outcome, Problem, Solution, Together, could_fit, solve
from scheduler.gang_exact import problem_of, propose, wishes_of
from scheduler.gang_parts import Part
from scheduler.gang_spec import GangKey
from scheduler.ground import Ground, Slots
from scheduler.landscape import Landscape

ASK_AGAIN_MS: Final = 10_000
"""The same gang is asked about no more often."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Whether a gang's step has room on some slots, as of so many changes of nodes."""

    gang: GangKey
    slots: Slots
    problem: Problem
    wishes: tuple[Together, ...]
    node_changes: int

    def answer(self, limit: float) -> Solution:
        """Solves it within so much deterministic time. May run in a thread."""
        return solve(self.problem, limit=limit, few=self.wishes)


class SecondLook:
    """Questions, one at a time, and answers that were not tried yet."""

    def __init__(self, limit: float) -> None:
        """`limit` is for each question, see `exact.solve`; 0: none is asked."""
        self.limit: Final = limit
        self.asked: Question | None = None
        """What is to be answered; whoever takes it to do so leaves it here."""
        self._not_before_ms: dict[GangKey, int] = {}
        self._answers: dict[GangKey, tuple[Question, Solution]] = {}

    def ask(self, gang: GangKey, part: Part, ground: Ground, landscape: Landscape, slots: Slots, now_ms: int) -> None:
        """Asks about the part, if that may help and nothing else is asked."""
        if self.limit <= 0 or self.asked is not None or self._not_before_ms.get(gang, 0) > now_ms:
            return
        self._not_before_ms = {key: at for key, at in self._not_before_ms.items() if at > now_ms}
        self._not_before_ms[gang] = now_ms + ASK_AGAIN_MS
        problem = problem_of(part, ground, landscape, slots)
        if problem is None or not could_fit(problem):
            return
        wishes = wishes_of(part, landscape, slots)
        self.asked = Question(gang, slots, problem, wishes, ground.cluster.node_changes)

    def answered(self, question: Question, solution: Solution | None) -> bool:
        """Takes an answer (None: there was trouble). Whether there is something to try."""
        if self.asked is question:
            self.asked = None
        if solution is None or solution.outcome is not Outcome.FOUND:
            return False
        # those that nodes have outdated are of no use any more, nor may their gangs be there to ask for them
        still = {gang: kept for gang, kept in self._answers.items() if kept[0].node_changes == question.node_changes}
        self._answers = {**still, question.gang: (question, solution)}
        return True

    @property
    def untried(self) -> int:
        """How many answers are kept to be tried."""
        return len(self._answers)

    def propose(self, gang: GangKey, part: Part, ground: Ground, landscape: Landscape) -> Mapping[str, int] | None:
        """Tries the answer that there may be about a gang; see `gang_exact.propose`."""
        question, solution = self._answers.pop(gang, (None, None))
        if question is None or solution is None or question.node_changes != ground.cluster.node_changes:
            return None
        return propose(part, ground, landscape, question.slots, solution)
