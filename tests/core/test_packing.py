"""How many devices fractions open, against the least that could be."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from scheduler import placement
from scheduler.ledger import Ledger
from scheduler.request import Request
from scheduler.state import ClusterState
from tests.strategies import fraction, inventory, whole

NODES, DEVICES = 50, 8


def least_devices(fractions: list[int]) -> int:
    """A lower bound: all of it filled up, and no two that exceed a device together on one."""
    counts = Counter(fractions)
    large = sum(count for milli, count in counts.items() if milli > 500)
    halves = -(-counts[500] // 2)
    return max(-(-sum(fractions) // 1000), large + halves)


@pytest.mark.parametrize("seed", range(4))
def test_fractions_in_random_order_open_few_devices_too_many(seed: int) -> None:
    """Arriving one by one, among pods with whole devices, never moved: within 5 % of the optimum."""
    state = ClusterState()
    ledger = Ledger(state)
    for i in range(NODES):
        state.set_node(inventory(f"n{i:02}", devices=[40960] * DEVICES, pods=110, cpu_milli=1_000_000))
        ledger.set_node(f"n{i:02}")
    rng = random.Random(seed)
    fractions: list[int] = []
    for i in range(500):
        request = _next(rng)
        if request.share_milli:
            fractions += [request.share_milli] * request.device_count
        found = placement.place(state, request, np.ones(NODES, np.bool_))
        assert found is not None
        ledger.book(f"pod-{i}", request, found, None)
    ledger.validate()
    touched = int((state.arrays.device_sharers > 0).sum())
    assert touched == int(state.arrays.shared.sum())
    assert least_devices(fractions) <= touched <= 1.05 * least_devices(fractions)


def _next(rng: random.Random) -> Request:
    match rng.randrange(10):
        case 0:
            return whole(rng.choice([1, 2]))
        case 1:
            return fraction(500, devices=2)
        case _:
            return fraction(rng.randint(1, 9) * 100)
