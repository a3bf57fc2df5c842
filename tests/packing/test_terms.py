"""The other terms of RSV: whole blocks, the price of CPU, the price of scarce models."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scheduler.kernels.rest_tables import UNIT
from scheduler.packing.blocks import blocks
from scheduler.packing.cpu_price import cpu_is_scarce
from scheduler.packing.figures import figures
from scheduler.packing.hardware import Hardware, Model
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.scarcity import scarcity
from tests.packing import traces

FIRST_BLOCKS = {(37.8524, 8, 64_200, 263_168), (37.8524, 8, 88_000, 327_680), (4.7316, 4, 32_200, 132_096)}


def test_the_blocks_of_the_default_trace() -> None:
    of = blocks(figures(traces.mix("default"), traces.hardware()), 0.2, 24)
    columns = ((of.q[:3] / UNIT).round(4), of.devices[:3], of.cpu[:3], of.memory[:3] >> 20)
    assert set(zip(*(column.tolist() for column in columns), strict=True)) == FIRST_BLOCKS
    assert len(of.q) == 13
    assert int(of.q.sum()) / UNIT == pytest.approx(102.51692, abs=1e-5)
    assert of.allowed.shape == (7, 13)
    assert of.allowed.all()


def test_of_blocks_with_equal_demand_those_that_came_first_in_the_mix_are_kept() -> None:
    mix, hardware = traces.mix("gpuspec33"), traces.hardware()
    asked = [count * one.devices * one.milli for one, count in zip(mix.classes, mix.demand, strict=True)]
    several = [j for j, one in enumerate(mix.classes) if one.whole and one.devices > 1]
    assert len(several) == 31
    of = blocks(figures(mix, hardware), 0.2, 24)
    kept = sorted(several, key=lambda j: (-asked[j], j))[:24]
    assert of.cpu.tolist() == [mix.classes[j].cpu_milli for j in kept]
    assert of.memory.tolist() == [mix.classes[j].memory_bytes for j in kept]


def test_what_is_no_block() -> None:
    """Shares of several devices, single devices, and what nobody asks for."""
    classes = (PodClass(1, 1, 2, 500), PodClass(1, 1, 1, 1000), PodClass(1, 1, 4, 1000), PodClass(1, 1, 2, 1000))
    of = blocks(figures(Mix(classes, (1, 1, 0, 1)), traces.hardware()), 0.2, 24)
    assert of.devices.tolist() == [2]
    assert (of.q / UNIT).tolist() == [0.2 * 2 * 1000 * 2000 / 4000]
    assert blocks(figures(Mix(classes, (1, 1, 0, 1)), traces.hardware()), 0.0, 24).q.tolist() == []


@pytest.mark.parametrize("trace", traces.TRACES)
def test_cpu_is_scarce_on_one_trace(trace: str) -> None:
    assert cpu_is_scarce(figures(traces.mix(trace), traces.hardware()), traces.hardware()) == (trace == "cpu250")


def test_pods_without_devices_fill_nodes_without_devices_first() -> None:
    """Demand for 8 devices comes with 48,000 milli-CPU of its own, and 40,000 of others: 88% of the nodes, then 95."""
    of = figures(Mix((PodClass(6_000, 1, 1, 1000), PodClass(4_000, 1, 0, 0)), (2, 3)), Hardware(()))
    model = Model("a", 0, 1, 8, 100_000, 8)
    assert not cpu_is_scarce(of, Hardware((model._replace(cpu_milli=101_053),)))
    assert cpu_is_scarce(of, Hardware((model._replace(cpu_milli=101_052),)))
    assert cpu_is_scarce(of, Hardware((model._replace(cpu_milli=90_526),), 9_999))
    assert not cpu_is_scarce(of, Hardware((model._replace(cpu_milli=90_527),), 10_000))
    assert not cpu_is_scarce(of, Hardware((model._replace(cpu_milli=50_527),), 1 << 40))


@pytest.mark.parametrize("trace", traces.TRACES)
def test_models_are_scarce_on_one_trace(trace: str) -> None:
    prices = scarcity(figures(traces.mix(trace), traces.hardware()), traces.hardware(), 0.3, None)
    expected = [0.3 if trace == "gpuspec33" and key in ("T4", "A10") else 0 for key in traces.MODELS]
    assert prices.tolist() == [round(price * UNIT) for price in expected]


def test_scarcity_is_that_of_the_load_there_is() -> None:
    mix, hardware = traces.mix("gpuspec33"), traces.hardware()
    of = figures(mix, hardware)

    def scarce(load: float) -> list[str]:
        pods = [round(load * count) for count in mix.demand]
        prices = scarcity(of, hardware, 0.3, pods)
        return [key for key, price in zip(traces.MODELS, prices, strict=True) if price]

    assert scarce(0.3) == []
    assert scarce(0.9) == ["T4", "A10"]
    assert scarce(10.0) == []


def test_a_model_that_is_gone_is_not_the_cheapest() -> None:
    a, b, gone = Model("a", 0, 1, 1, 9_000, 1), Model("b", 0, 1, 1, 9_000, 1), Model("c", 0, 0, 0, 0, 0)
    of = figures(Mix((PodClass(1, 1, 1, 1000),), (9,)), Hardware((a, gone, b)))
    assert scarcity(of, Hardware((a, gone, b)), 0.3, None).tolist() == [0, 0, 0]


def test_a_card_too_small_for_the_shares_that_there_are_is_not_scarce() -> None:
    large, small = Model("large", 80_000, 1, 1, 9_000, 1), Model("small", 8_000, 1, 1, 9_000, 1)
    hardware = Hardware((small, large))
    of = figures(Mix((PodClass(1, 1, 1, 0, share_mib=40_000),), (9,)), hardware)
    assert scarcity(of, hardware, 0.5, (9,)).tolist() == [0, UNIT // 2]


def test_the_solver_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, scheduler.packing.tables; sys.exit('ortools' in str(list(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
