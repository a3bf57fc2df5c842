"""A status is what the model says, and nothing is lost in writing it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_api.queue_objects import status
from queues.amounts import UNLIMITED, Amounts
from topology import quantity


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        (Amounts(0, 0, 0), {"gpu": "0", "cpu": "0", "memory": "0"}),
        (Amounts(1500, 1000, 4000), {"gpu": "4", "cpu": "1500m", "memory": "1000"}),
        (Amounts(2000, 3 << 30, 500), {"gpu": "500m", "cpu": "2", "memory": "3Gi"}),
        (Amounts(1, (1 << 40) + (1 << 20), 1), {"gpu": "1m", "cpu": "1m", "memory": "1048577Mi"}),
        (Amounts(UNLIMITED, UNLIMITED, UNLIMITED), {"gpu": "-1", "cpu": "-1", "memory": "-1"}),
    ],
)
def test_amounts_are_written_as_quantities(amounts: Amounts, expected: dict[str, str]) -> None:
    assert status.amounts(amounts) == expected


SIZES = st.integers(0, 1 << 50)


@given(SIZES, SIZES, SIZES)
def test_nothing_is_lost_in_writing(cpu_milli: int, memory_bytes: int, gpu_milli: int) -> None:
    written = status.amounts(Amounts(cpu_milli, memory_bytes, gpu_milli), {"H100": gpu_milli})
    assert quantity.parse(written["cpu"]) * 1000 == cpu_milli
    assert quantity.parse(written["memory"]) == memory_bytes
    assert quantity.parse(written["gpu"]) * 1000 == gpu_milli
    assert written["gpuModels"] == {"H100": written["gpu"]}
    assert status.AmountsStatus.model_validate(written)


def test_a_condition() -> None:
    found = status.condition("Ready", False, "ParentMissing", "its parent does not exist")
    assert found == {
        "type": "Ready",
        "status": "False",
        "reason": "ParentMissing",
        "message": "its parent does not exist",
    }
