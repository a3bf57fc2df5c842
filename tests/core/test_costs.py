"""Costs that are remembered equal those that are calculated anew, after whatever happened."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import placement
from scheduler.allocation import DeviceShare
from scheduler.change_log import ChangeLog
from scheduler.costs import Costs
from scheduler.kernels.score import DOES_NOT_FIT
from scheduler.packing.named import NAMES, policy_named
from scheduler.packing.refresh import teach
from scheduler.request import Request
from scheduler.state import ClusterState
from tests import naive, strategies
from tests.core.demand import MIX, OTHER_MIX
from tests.core.states import everywhere, state_of
from tests.strategies import fraction, inventory, whole

NODES = ("node-a", "node-b", "node-c")


class _Life:
    """A cluster to which things happen."""

    def __init__(self, data: st.DataObject, name: str) -> None:
        self.data = data
        self.state = ClusterState(policy_named(name))
        self.held: list[tuple[int, Request, tuple[DeviceShare, ...]]] = []
        self.requests = data.draw(st.lists(strategies.requests(), min_size=1, max_size=4))
        for node in NODES[:2]:
            self.set_node(node)

    def set_node(self, name: str | None = None) -> None:
        name = name or self.data.draw(st.sampled_from(NODES))
        slot = self.state.set_node(self.data.draw(strategies.inventories(name)))
        self.held = [one for one in self.held if one[0] != slot]

    def remove_node(self) -> None:
        name = self.data.draw(st.sampled_from(NODES))
        slot = self.state.slot_of.get(name)
        self.held = [one for one in self.held if one[0] != slot]
        self.state.remove_node(name)

    def take(self) -> None:
        request = self.data.draw(st.sampled_from(self.requests))
        for slot in range(len(self.state.inventories)):
            devices = placement.place_on(self.state, request, slot)
            if devices is not None:
                self.state.take(slot, request, devices)
                self.held.append((slot, request, devices))
                return

    def give(self) -> None:
        if self.held:
            self.state.give(*self.held.pop(self.data.draw(st.integers(0, len(self.held) - 1))))

    def try_and_undo(self) -> None:
        mark, held = self.state.checkpoint(), list(self.held)
        for _ in range(self.data.draw(st.integers(1, 3))):
            self.take()
            self.check()
        self.state.rollback(mark)
        self.held = held

    def learn(self) -> None:
        teach(self.state, self.data.draw(st.sampled_from([MIX, OTHER_MIX])))

    def another_resource(self) -> None:
        self.state.column(f"example.com/{len(self.state.columns)}")

    def check(self) -> None:
        for request in self.requests:
            known = self.state.costs(request)
            fresh = Costs().of(request, self.state.ask(request), self.state.sight())
            assert known.tolist() == fresh.tolist()


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=40)
def test_remembered_costs_are_those_calculated_anew(name: str, data: st.DataObject) -> None:
    life = _Life(data, name)
    steps = [life.set_node, life.remove_node, life.take, life.take, life.give, life.try_and_undo, life.learn]
    for step in data.draw(st.lists(st.sampled_from([*steps, life.another_resource]), max_size=8)):
        step()
        life.check()


@pytest.mark.parametrize("name", NAMES)
@given(strategies.nodes(), strategies.requests())
@settings(max_examples=40)
def test_no_policy_refuses_what_fits(name: str, nodes: list[naive.Node], request_: Request) -> None:
    """Which nodes hold a request is the same under every policy, and each says which devices."""
    state, packed = state_of(nodes, policy_named(name)), state_of(nodes)
    teach(state, MIX)
    fits = placement.fits(state, request_, everywhere(state))
    assert fits.tolist() == placement.fits(packed, request_, everywhere(packed)).tolist()
    assert (placement.place(state, request_, everywhere(state)) is not None) == fits.any()
    scores = placement.scores(state, request_, range(len(nodes)))
    found = placement.place(state, request_, everywhere(state))
    assert found is None or scores[state.slot_of[found.node]] == scores.max() == 100, (
        "prioritize ranks as the planner does"
    )
    for slot in np.flatnonzero(fits).tolist():
        devices = placement.place_on(state, request_, slot)
        assert devices is not None
        assert len({one.index for one in devices}) == len(devices)
        state.take(slot, request_, devices)
        state.validate()
        state.give(slot, request_, devices)


def test_only_changed_nodes_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ClusterState()
    for name in "abc":
        state.set_node(inventory(name, devices=[100, 100]))
    state.costs(whole(1))
    looked_at: list[list[int]] = []
    price = state.policy.price

    class Watched:
        epoch = 0

        def price(self, nodes, ask, slots, buffers) -> None:  # type: ignore[no-untyped-def]
            looked_at.append(slots.tolist())
            price(nodes, ask, slots, buffers)

    monkeypatch.setattr(state, "policy", Watched())
    state.costs(whole(1))
    state.take(1, fraction(500), (DeviceShare(0, 50, 500),))
    state.costs(whole(1))
    state.costs(whole(2))
    assert looked_at == [[1], [0, 1, 2]]


def test_requests_asked_for_longest_ago_are_forgotten() -> None:
    state = ClusterState()
    state.set_node(inventory("a"))
    costs = Costs(remembered_bytes=0)
    first = costs.of(whole(1), state.ask(whole(1)), state.sight())
    for count in range(2, 17):
        costs.of(whole(count), state.ask(whole(count)), state.sight())
    assert costs.of(whole(1), state.ask(whole(1)), state.sight()) is first
    costs.of(whole(17), state.ask(whole(17)), state.sight())
    assert costs.of(whole(1), state.ask(whole(1)), state.sight()) is first
    for count in range(18, 35):
        costs.of(whole(count), state.ask(whole(count)), state.sight())
    assert costs.of(whole(1), state.ask(whole(1)), state.sight()) is not first
    assert first[0] == DOES_NOT_FIT


def test_the_log_knows_what_it_remembers() -> None:
    log = ChangeLog(remembered=3)
    assert log.since(0) is not None
    for slot in (5, 6, 7):
        log.note(slot)
    assert log.since(0).tolist() == [5, 6, 7]  # type: ignore[union-attr]
    log.note(8)
    assert log.since(0) is None
    assert log.since(1).tolist() == [6, 7, 8]  # type: ignore[union-attr]
    assert log.since(3).tolist() == [8]  # type: ignore[union-attr]
    assert log.since(4).tolist() == []  # type: ignore[union-attr]
