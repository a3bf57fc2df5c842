"""KAI's Queue as it is: its units (devices, millicores, megabytes of 10^6 bytes), and 0 for what is not said."""

from __future__ import annotations

from typing import Any

import pytest

from extender_api.cluster.fields import DecodeError
from extender_api.queue_objects.read import read_queue
from queues.amounts import UNLIMITED
from queues.spec import Source, Terms


def kai(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


def test_its_numbers() -> None:
    found = read_queue(
        kai(
            parentQueue="default",
            displayName="a queue",
            priority=150,
            resources={
                "gpu": {"quota": 1.5, "limit": -1, "overQuotaWeight": 2},
                "cpu": {"quota": 2, "limit": 3000, "overQuotaWeight": 0.5},
                "memory": {"quota": 1000, "limit": 104.8576, "overQuotaWeight": 1},
            },
            preemptMinRuntime="5m0s",
            reclaimMinRuntime="1h0m0s",
        )
    )
    assert (found.name, found.parent, found.priority, found.source) == ("q", "default", 150, Source.KAI)
    assert found.gpu == Terms(1500, UNLIMITED, 2000)
    assert found.cpu == Terms(2, 3000, 500), "millicores"
    assert found.memory == Terms(10**9, 104_857_600, 1000), "megabytes"
    assert (found.preempt_min_runtime_ms, found.reclaim_min_runtime_ms) == (300_000, 3_600_000)


@pytest.mark.parametrize("spec", [{}, {"resources": {}}, {"resources": {"gpu": {}}}, {"resources": None}])
def test_what_is_not_said_is_0(spec: dict[str, Any]) -> None:
    found = read_queue(kai(**spec))
    assert found.terms == (Terms(0, 0, 0),) * 3
    assert found.priority == 100
    assert found.parent is None


def test_an_empty_parent_is_none() -> None:
    assert read_queue(kai(parentQueue="")).parent is None


@pytest.mark.parametrize(
    ("megabytes", "size"),
    [(0.0000014, 1), (0.0000006, 1), (0.0000004, 0), (1.048576, 1_048_576), (20_000_000_000.0, 2 * 10**16)],
)
def test_memory_is_exact_to_the_byte(megabytes: float, size: int) -> None:
    assert read_queue(kai(resources={"memory": {"quota": megabytes}})).memory.quota == size


def test_weights_below_0_are_none_and_small_ones_are_some() -> None:
    assert read_queue(kai(resources={"gpu": {"overQuotaWeight": -1}})).gpu.weight_milli == 0
    assert read_queue(kai(resources={"gpu": {"overQuotaWeight": 0.0001}})).gpu.weight_milli == 1


def test_the_same_in_a_file_is_still_kais() -> None:
    assert read_queue(kai(), Source.FILE).source is Source.KAI


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"resources": {"gpu": {"quota": -3}}}, "resources.gpu.quota: -3 is negative: write 0 or more, or -1 for"),
        ({"resources": {"cpu": {"limit": "2 cores"}}}, "resources.cpu.limit: '2 cores' is not a number"),
        ({"resources": {"cpu": {"limit": "NaN"}}}, "resources.cpu.limit: 'NaN' is not a number that an amount can be"),
        ({"resources": {"gpu": {"quota": True}}}, "resources.gpu.quota: write a number, -1 for unlimited"),
        ({"preemptMinRuntime": "soon"}, "preemptMinRuntime: 'soon' is not a duration"),
        ({"priority": "high"}, "priority: "),
    ],
)
def test_mistakes_name_the_field(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_queue(kai(**spec))
    assert str(caught.value).startswith(f"Queue q: spec.{said}")
