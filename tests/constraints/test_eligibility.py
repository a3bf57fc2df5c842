"""Masks over nodes: always what a fresh look at every node would say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import eligibility
from scheduler.constraints import NAME_FIELD, Constraints, refusal
from scheduler.eligibility import Eligibility
from scheduler.pod import NodeSelectorTerm, Toleration
from scheduler.reason import Code
from topology.node import NodeFacts, Taint
from topology.selector import Requirement

GPU = Constraints(node_selector=(("gpu", "a100"),))
BOTH = Constraints(node_affinity=(NodeSelectorTerm((Requirement("gpu", "Exists"),)),))
TOLERANT = Constraints(tolerations=(Toleration(operator="Exists"),))
NAMED = Constraints(node_affinity=(NodeSelectorTerm(fields=(Requirement(NAME_FIELD, "In", ("n1",)),)),))
KINDS = (Constraints(), GPU, BOTH, TOLERANT, NAMED)


def node(name: str = "n", gpu: str | None = None, **facts: Any) -> NodeFacts:
    return NodeFacts(name, labels={} if gpu is None else {"gpu": gpu}, **facts)


def test_open_closed_and_empty_slots() -> None:
    known = Eligibility()
    known.set_node(0, node(gpu="a100"))
    known.set_node(2, node(gpu="h100"))
    known.set_node(3, node(gpu="a100", unschedulable=True))
    mask = known.mask(GPU)
    assert np.flatnonzero(mask).tolist() == [0]
    assert known.refusals(GPU) == {2: Code.NODE_SELECTOR, 3: Code.NODE_UNSCHEDULABLE}
    assert len(mask) == known.capacity


def test_masks_grow_with_the_slots() -> None:
    known = Eligibility()
    known.set_node(0, node(gpu="a100"))
    before = known.mask(GPU)
    known.set_node(1000, node(gpu="a100"))
    after = known.mask(GPU)
    assert len(after) == known.capacity > 1000
    assert np.flatnonzero(after).tolist() == [0, 1000]
    assert len(before) < 1000
    known.reserve(5000)
    assert len(known.mask(GPU)) == known.capacity == 5000


def test_what_was_handed_out_never_changes() -> None:
    known = Eligibility()
    known.set_node(0, node(gpu="a100"))
    before = known.mask(GPU)
    refused = known.refusals(GPU)
    known.clear_node(0)
    known.set_node(1, node(gpu="h100"))
    assert not known.mask(GPU).any()
    assert np.flatnonzero(before).tolist() == [0]
    assert refused == {}
    with pytest.raises(ValueError, match="read-only"):
        before[1] = True


def test_a_repeated_question_gives_the_same_array() -> None:
    known = Eligibility()
    known.set_node(0, node(gpu="a100", allocatable={"cpu": 1}))
    before = known.mask(GPU)
    known.set_node(0, node(gpu="a100", allocatable={"cpu": 2}))
    assert known.mask(GPU) is before


def test_only_changed_nodes_are_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def counting(constraints: Constraints, facts: NodeFacts) -> Code | None:
        judged.append(facts.name)
        return refusal(constraints, facts)

    monkeypatch.setattr(eligibility, "refusal", counting)
    known = Eligibility()
    for slot in range(50):
        known.set_node(slot, node(f"n{slot}", gpu="a100"))
    known.mask(GPU)
    judged.clear()
    known.set_node(7, node("n7", gpu="h100"))
    known.set_node(9, node("n9", gpu="a100", taints=(Taint("k", "", "NoSchedule"),)))
    known.set_node(7, node("n7", gpu="a100", ready=False))
    known.mask(GPU)
    assert sorted(judged) == ["n7", "n9"]


def test_another_node_on_the_slot_is_judged_by_its_own_name() -> None:
    known = Eligibility()
    known.set_node(0, node("n1"))
    assert known.mask(NAMED)[0]
    known.set_node(0, node("n2"))
    assert known.refusals(NAMED) == {0: Code.NODE_AFFINITY}


def test_the_kind_unasked_for_longest_is_forgotten() -> None:
    known = Eligibility(kinds=2)
    known.set_node(0, node(gpu="a100"))
    kept, lost = known.mask(GPU), known.mask(BOTH)
    assert known.mask(GPU) is kept
    known.mask(TOLERANT)
    assert known.mask(GPU) is kept
    assert known.mask(BOTH) is not lost


NODES = st.builds(
    NodeFacts,
    name=st.sampled_from(["n1", "n2"]),
    labels=st.sampled_from([{}, {"gpu": "a100"}, {"gpu": "h100"}]),
    taints=st.sampled_from([(), (Taint("k", "", "NoSchedule"),)]),
    unschedulable=st.booleans(),
    ready=st.booleans(),
)
SLOTS = st.integers(0, 5)
STEPS = st.one_of(st.tuples(SLOTS, NODES), st.tuples(SLOTS, st.none()), st.sampled_from(KINDS), st.sampled_from(KINDS))


@given(
    steps=st.lists(STEPS, min_size=10, max_size=60),
    remembered=st.integers(1, 4),
    longest_log=st.sampled_from([0, 5, 1024]),
)
def test_equals_a_fresh_look_after_any_changes(
    steps: list[tuple[int, NodeFacts | None] | Constraints], remembered: int, longest_log: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eligibility, "_LONGEST_LOG", longest_log)
        patch.setattr(eligibility, "_FIRST_CAPACITY", 2)
        known = Eligibility(remembered)
        nodes: dict[int, NodeFacts] = {}
        for step in steps:
            if isinstance(step, Constraints):
                check(known, step, nodes)
                continue
            slot, facts = step
            if facts is None:
                known.clear_node(slot)
                nodes.pop(slot, None)
            else:
                known.set_node(slot, facts)
                nodes[slot] = facts
        for constraints in KINDS:
            check(known, constraints, nodes)


def check(known: Eligibility, constraints: Constraints, nodes: dict[int, NodeFacts]) -> None:
    verdicts = {slot: refusal(constraints, facts) for slot, facts in nodes.items()}
    assert set(np.flatnonzero(known.mask(constraints)).tolist()) == {
        slot for slot, code in verdicts.items() if code is None
    }
    assert known.refusals(constraints) == {slot: code for slot, code in verdicts.items() if code is not None}
