"""What classes ask of models."""

from __future__ import annotations

import pytest

from scheduler.packing.figures import figures
from scheduler.packing.hardware import Hardware, Model
from scheduler.packing.mix import Mix, PodClass
from tests.packing import traces

SMALL = Model("small", 16_000, 1, 4, 64_000, 4)
LARGE = Model("large", 80_000, 3, 12, 64_000, 4)
UNKNOWN = Model("unknown", 0, 1, 8, 64_000, 8)
CLOSED = Model("small", 16_000, 1, 8, 64_000, 8, takes_shares=False)
HARDWARE = Hardware((SMALL, LARGE, UNKNOWN, CLOSED))


def test_a_share_by_memory_is_another_part_of_each_card() -> None:
    """8,001 MiB: 500.06 and 100.01 milli, rounded up; the mean is over 4 and 12 devices."""
    of = figures(Mix((PodClass(1, 1, 1, 0, share_mib=8_001),), (1,)), HARDWARE)
    assert of.milli_on.tolist() == [[501, 101, 0, 0]]
    assert of.allowed.tolist() == [[True, True, False, False]]
    assert of.milli.tolist() == [201]
    assert of.shares.tolist() == [True]


def test_a_share_larger_than_the_card_has_no_place_there() -> None:
    of = figures(
        Mix((PodClass(1, 1, 1, 0, share_mib=16_001), PodClass(1, 1, 1, 0, share_mib=80_001)), (1, 1)), HARDWARE
    )
    assert of.milli_on.tolist() == [[0, 201, 0, 0], [0, 0, 0, 0]]
    assert of.milli.tolist() == [201, 0]


def test_a_share_that_fills_a_card_is_none_of_whole_devices() -> None:
    of = figures(Mix((PodClass(1, 1, 1, 0, share_mib=80_000), PodClass(1, 1, 1, 1000)), (1, 1)), HARDWARE)
    assert of.milli.tolist() == [1000, 1000]
    assert of.whole.tolist() == [False, True]


def test_rules_about_models_bind_pods_with_devices_alone() -> None:
    rule = frozenset({"small"})
    mix = Mix(
        (PodClass(1, 1, 2, 1000, models=rule), PodClass(1, 1, 1, 500, models=rule), PodClass(1, 1, 0, 0)), (1,) * 3
    )
    of = figures(mix, HARDWARE)
    assert of.allowed.tolist() == [[True, False, False, True], [True, False, False, False], [True] * 4]
    assert of.milli_on.tolist() == [[1000, 0, 0, 1000], [500, 0, 0, 0], [0] * 4]


@pytest.mark.parametrize(
    ("trace", "classes", "gpus"),
    [("default", 151, 6086.8), ("cpu200", 149, 6086.8), ("gpushare100", 78, 3952.67), ("gpuspec33", 457, 6086.8)],
)
def test_the_demand_of_the_traces(trace: str, classes: int, gpus: float) -> None:
    of = figures(traces.mix(trace), traces.hardware())
    assert len(of.cpu) == classes
    assert sum(of.asked) == gpus * 1000
