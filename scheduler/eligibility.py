"""Which nodes are open to pods of one kind: masks over node slots, kept up to date node by node."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.constraints import Constraints, refusal
from scheduler.reason import Code
from topology.node import NodeFacts

_OPEN: Final = 0
_EMPTY: Final = 255
_CODES: Final = tuple(Code)
_NUMBER_OF: Final[Mapping[Code | None, int]] = {
    None: _OPEN,
    **{code: number for number, code in enumerate(_CODES, 1)},
}
_FIRST_CAPACITY: Final = 64
_LONGEST_LOG: Final = 1024


@dataclass(slots=True)
class _Verdict:
    """What one kind of pod may do, as of a point in the log of changes."""

    numbers: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    seen: int
    refused: dict[int, Code] | None = None


class Eligibility:
    """Nodes by slot, and for each kind of pod asked for lately the verdict on every slot.

    A repeated question costs as much as nodes have changed since; the arrays that are handed out never change.
    """

    def __init__(self, kinds: int = 256) -> None:
        """`kinds` is how many constraints are remembered; the one asked for longest ago is forgotten first."""
        self._kinds = kinds
        self._nodes: list[NodeFacts | None] = [None] * _FIRST_CAPACITY
        self._verdicts: OrderedDict[Constraints, _Verdict] = OrderedDict()
        self._log: list[int] = []
        self._log_start = 0

    @property
    def capacity(self) -> int:
        """Length of the masks."""
        return len(self._nodes)

    def reserve(self, slots: int) -> None:
        """Makes room for at least so many slots."""
        missing = slots - len(self._nodes)
        if missing > 0:
            self._nodes.extend([None] * missing)

    def set_node(self, slot: int, facts: NodeFacts) -> None:
        """Puts a node, or its new facts, on a slot."""
        if slot >= len(self._nodes):
            self.reserve(max(slot + 1, 2 * len(self._nodes)))
        before = self._nodes[slot]
        self._nodes[slot] = facts
        if before is None or not _same_to_rules(before, facts):
            self._changed(slot)

    def clear_node(self, slot: int) -> None:
        """Empties a slot."""
        if slot < len(self._nodes) and self._nodes[slot] is not None:
            self._nodes[slot] = None
            self._changed(slot)

    def mask(self, constraints: Constraints) -> NDArray[np.bool_]:
        """bool[capacity]: the slots whose node is open to such pods. Read-only; False where there is no node."""
        return self._verdict(constraints).mask

    def refusals(self, constraints: Constraints) -> Mapping[int, Code]:
        """Slot → the rule that closes its node to such pods; open and empty slots are absent."""
        verdict = self._verdict(constraints)
        if verdict.refused is None:
            slots = np.flatnonzero((verdict.numbers != _OPEN) & (verdict.numbers != _EMPTY))
            numbers = verdict.numbers[slots]
            verdict.refused = {
                slot: _CODES[number - 1] for slot, number in zip(slots.tolist(), numbers.tolist(), strict=True)
            }
        return verdict.refused

    def _changed(self, slot: int) -> None:
        self._log.append(slot)
        if len(self._log) > max(_LONGEST_LOG, 2 * len(self._nodes)):
            self._log_start += len(self._log)
            self._log.clear()

    def _verdict(self, constraints: Constraints) -> _Verdict:
        now = self._log_start + len(self._log)
        verdict = self._verdicts.get(constraints)
        if verdict is None or verdict.seen < self._log_start:
            numbers = np.full(len(self._nodes), _EMPTY, dtype=np.uint8)
            verdict = self._judged(constraints, numbers, range(len(self._nodes)), now)
        elif verdict.seen < now or len(verdict.numbers) < len(self._nodes):
            numbers = np.full(len(self._nodes), _EMPTY, dtype=np.uint8)
            numbers[: len(verdict.numbers)] = verdict.numbers
            changed = set(self._log[verdict.seen - self._log_start :])
            verdict = self._judged(constraints, numbers, changed, now)
        else:
            self._verdicts.move_to_end(constraints)
            return verdict
        self._verdicts[constraints] = verdict
        self._verdicts.move_to_end(constraints)
        if len(self._verdicts) > self._kinds:
            self._verdicts.popitem(last=False)
        return verdict

    def _judged(self, constraints: Constraints, numbers: NDArray[np.uint8], slots: Iterable[int], now: int) -> _Verdict:
        """A verdict from `numbers` with the given slots judged anew."""
        nodes = self._nodes
        for slot in slots:
            facts = nodes[slot]
            numbers[slot] = _EMPTY if facts is None else _NUMBER_OF[refusal(constraints, facts)]
        mask = numbers == _OPEN
        numbers.flags.writeable = False
        mask.flags.writeable = False
        return _Verdict(numbers, mask, now)


def _same_to_rules(one: NodeFacts, other: NodeFacts) -> bool:
    """Whether no rule of a pod can tell the two apart."""
    return (
        one.name == other.name
        and one.ready == other.ready
        and one.unschedulable == other.unschedulable
        and one.taints == other.taints
        and one.labels == other.labels
    )
