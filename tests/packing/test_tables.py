"""The tables as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from scheduler.kernels.classic import CPU_OF_GPU
from scheduler.kernels.rest_tables import UNIT
from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix
from scheduler.packing.settings import BALANCED, MAX, RsvSettings
from scheduler.packing.tables import build
from tests.packing import mixes, naive, traces

G2 = traces.MODELS.index("G2")
CPU, MEMORY = 96_000, 393_216 << 20
"""Of an 8 × G2 node."""
FEW = RsvSettings(scenarios=3, classes_per_scenario=4, block_classes=3)


@pytest.mark.parametrize(("chosen", "share_loses"), [(BALANCED, 980), (MAX, 960)])
def test_values_of_a_node(chosen: RsvSettings, share_loses: float) -> None:
    tables = build(traces.mix("default"), traces.hardware(), chosen)
    empty = naive.value(tables, G2, CPU, 8, [])
    assert empty == 8000
    share = naive.value(tables, G2, CPU - 3152, 7, [190])
    assert float(empty - share) == pytest.approx(share_loses, abs=1e-6)
    assert float(empty - naive.value(tables, G2, CPU - 11_300, 7, [])) == pytest.approx(1000, abs=1e-6)


def test_values_of_blocks() -> None:
    tables = build(traces.mix("default"), traces.hardware(), BALANCED)
    found = [float(naive.block_value(tables, G2, CPU, MEMORY, free)) for free in (8, 7, 4)]
    assert found == pytest.approx([103.83124, 13.80035, 12.09174], abs=1e-5)


def test_best_fit() -> None:
    """β·(0.5·c/128000 + 0.5·R/8000)."""
    tables = build(traces.mix("default"), traces.hardware(), BALANCED)
    cpu, milli = 48_000, 4_470
    exact = 50 * (0.5 * cpu / 128_000 + 0.5 * milli / 8_000)
    assert tables.best_fit * (cpu + CPU_OF_GPU * milli) / UNIT == pytest.approx(exact, abs=1e-11)
    assert build(traces.mix("default"), traces.hardware(), MAX).best_fit == 0


def test_the_price_of_cpu_is_in_the_tables_where_cpu_is_scarce() -> None:
    """Without a price of CPU no device holds more than itself."""
    for trace, scarce in (("default", False), ("cpu250", True)):
        tables = build(traces.mix(trace), traces.hardware(), BALANCED)
        assert bool((tables.phi > 1000 * UNIT).any()) == scarce
        assert not (build(traces.mix(trace), traces.hardware(), MAX).phi > 1000 * UNIT).any()


def test_what_is_scarce_is_in_the_tables() -> None:
    priced = build(traces.mix("gpuspec33"), traces.hardware(), BALANCED).scarcity
    assert [key for key, price in zip(traces.MODELS, priced, strict=True) if price] == ["T4", "A10"]
    assert not build(traces.mix("gpuspec33"), traces.hardware(), MAX).scarcity.any()


@given(mix=mixes.mixes(), hardware=mixes.HARDWARE)
@settings(max_examples=60)
def test_any_mix_gives_valid_tables(mix: Mix, hardware: Hardware) -> None:
    tables = build(mix, hardware, FEW)
    count, many = len(hardware.models), len(tables.block_q)
    tables_count, most = len(tables.phi), max([8, *(model.most_devices for model in hardware.models)])
    assert [one.shape for one in tables[:4]] == [
        (10,),
        (tables_count, 101, 10, 3),
        (tables_count, most + 1, 10, 3),
        (count,),
    ]
    assert [one.shape for one in tables[4:8]] == [(many,)] * 4
    assert tables.block_allowed.shape == (count, many)
    assert tables.scarcity.shape == (count,)
    types = ["int64", "int64", "int64", "int32", "int64", "int64", "int64", "int64", "bool", "int64"]
    assert [one.dtype.name for one in tables[:10]] == types
    assert all(one.flags.c_contiguous for one in tables[:10])
    assert ((tables.table_of >= 0) & (tables.table_of < tables_count)).all()
    assert (tables.block_q > 0).all()
    assert (tables.block_devices > 1).all()
    assert (tables.scarcity >= 0).all()
    again = build(mix, hardware, FEW)
    assert [one.tobytes() for one in tables[:10]] == [one.tobytes() for one in again[:10]]
