"""The tasks of FGD."""

from __future__ import annotations

import pytest
from hypothesis import given

from scheduler.packing.fgd_mix import fgd_tasks
from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix, PodClass
from tests.packing import mixes, traces

COUNTS = (35, 35, 35, 34, 34, 36, 33, 32, 21, 74, 102, 113, 127, 38, 40, 42, 43)


@pytest.mark.parametrize(("trace", "count"), list(zip(traces.TRACES, COUNTS, strict=True)))
def test_how_many_there_are(trace: str, count: int) -> None:
    tasks = fgd_tasks(traces.mix(trace), traces.hardware())
    assert len(tasks.cpu) == count
    assert tasks.allowed.shape == (count, 7)
    assert tasks.popularity.sum() == pytest.approx(1, abs=1e-12)


def test_the_first_and_the_last_of_the_default_trace() -> None:
    tasks = fgd_tasks(traces.mix("default"), traces.hardware())
    ends = [0, -1]
    assert tasks.cpu[ends].tolist() == [3152, 4152]
    assert tasks.milli[ends].tolist() == [810, 810]
    assert tasks.devices[ends].tolist() == [1, 1]
    assert tasks.popularity[ends].tolist() == pytest.approx([0.13481843935, 0.00399175895], abs=1e-11)


def test_the_fragmentation_of_an_empty_node() -> None:
    """F of 8 × G2 with 96 cores: whatever cannot go there strands 8,000 milli, else nothing is too small."""
    tasks = fgd_tasks(traces.mix("default"), traces.hardware())
    stranded = [8000 if n == 0 or cpu > 96_000 else 0 for n, cpu in zip(tasks.devices, tasks.cpu, strict=True)]
    assert sum(tasks.popularity * stranded) == pytest.approx(1087.8186968838527, abs=1e-9)


def test_memory_is_no_part_of_it_but_the_rule_as_written_is() -> None:
    models = frozenset({"T4", "A10"})
    one = PodClass(1000, 1, 1, 500, models=models, spec="T4|A10")
    classes = (one, one._replace(memory_bytes=2), one._replace(spec="A10|T4"), one._replace(spec="", models=None))
    tasks = fgd_tasks(Mix(classes, (1, 1, 1, 1)), traces.hardware(), coverage=1.0)
    assert tasks.popularity.tolist() == [0.5, 0.25, 0.25]
    assert tasks.allowed.sum(axis=1).tolist() == [2, 2, 7]


@given(mix=mixes.mixes(), hardware=mixes.HARDWARE)
def test_any_mix_gives_some(mix: Mix, hardware: Hardware) -> None:
    tasks = fgd_tasks(mix, hardware)
    count = len(tasks.cpu)
    assert (count > 0) == any(mix.demand)
    assert [one.shape for one in tasks] == [(count,)] * 4 + [(count, len(hardware.models))]
    assert [one.dtype.name for one in tasks] == ["int64"] * 3 + ["float64", "bool"]
    assert all(one.flags.c_contiguous for one in tasks)
    assert (tasks.popularity[1:] <= tasks.popularity[:-1]).all()
    assert not count or tasks.popularity.sum() == pytest.approx(1)
