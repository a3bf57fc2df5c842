"""The hands of the service: what carries out instructions in the outside world. Deciding is done elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from scheduler.instruction import BindOrder, Instruction


class BindOutcome(StrEnum):
    """What became of a Binding."""

    BOUND = "bound"
    ALREADY_THERE = "already-there"
    """An earlier Binding, ours or another's, put this very pod on this very node."""
    ELSEWHERE = "elsewhere"
    """The pod is on another node."""
    GONE = "gone"
    """The pod is deleted or being deleted, or another one has its name."""
    RETRY = "retry"
    """Not bound as far as anybody can tell, and it may go well another time. A Binding that was sent may still take
    effect: the place must be kept until the watch or the deadline decides."""


@dataclass(frozen=True, slots=True)
class BindResult:
    """The outcome, and for people what the API server said."""

    outcome: BindOutcome
    text: str = ""


class Actuator(Protocol):
    """Carries out instructions. What became of releases and nominations comes back through a callback."""

    def submit(self, instruction: Instruction) -> None:
        """Takes an instruction; never blocks and never fails."""
        ...

    async def bind(self, order: BindOrder) -> BindResult:
        """Posts the Binding and finds out what became of it."""
        ...
