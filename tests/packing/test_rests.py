"""The tables of rest values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.kernels.rest_tables import MOST_VALUE, STEPS, UNIT
from scheduler.packing.figures import figures
from scheduler.packing.hardware import Hardware, Model
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.rests import Rests, draw_weights, prices, rests
from scheduler.packing.scenarios import drawn
from scheduler.packing.settings import BALANCED, MAX, RsvSettings
from tests.packing import mixes, naive, traces

FEW = RsvSettings(scenarios=2, classes_per_scenario=3)


def of_trace(trace: str, chosen: RsvSettings) -> Rests:
    return rests(figures(traces.mix(trace), traces.hardware()), traces.hardware(), chosen, 0.0)


def test_the_prices_of_cpu() -> None:
    expected = [0, 0.01, 0.016306894, 0.026591479, 0.043362444, 0.070710678, 0.115307154, 0.188030155, 0.306618782, 0.5]
    assert (prices() / UNIT).tolist() == pytest.approx(expected, abs=1e-9)
    assert prices()[[1, 9]].tolist() == [UNIT // 100, UNIT // 2]
    assert np.abs(prices() / UNIT - np.concatenate([[0], np.geomspace(0.01, 0.5, 9)])).max() < 1 / UNIT


@pytest.mark.parametrize(
    ("chosen", "phi", "whole"), [(BALANCED, 2_787_892.61636, 3_722_908.32811), (MAX, 3_423_355.73833, 3_798_986.61357)]
)
def test_the_sums_of_the_default_trace(chosen: RsvSettings, phi: float, whole: float) -> None:
    of = of_trace("default", chosen)
    assert of.phi.shape == (1, 101, 10, 16)
    assert of.whole.shape == (1, 9, 10, 16)
    assert of.table_of.tolist() == [0] * 7
    assert int(of.phi.sum()) / UNIT == pytest.approx(phi, abs=1e-3)
    assert int(of.whole.sum()) / UNIT == pytest.approx(whole, abs=1e-3)


def test_single_values_of_the_default_trace() -> None:
    of = of_trace("default", BALANCED)
    phi, whole = of.phi[0, :, :, 0] / UNIT, of.whole[0, :, :, 0] / UNIT
    assert phi[[19, 81, 100], 0].tolist() == [160, 800, 960]
    assert phi[[19, 81, 100], 5].tolist() == pytest.approx([0, 74.31457505, 111.47186258], abs=1e-6)
    assert whole[[1, 8], 5].tolist() == pytest.approx([777.11994257, 6216.95954056], abs=1e-6)


def test_models_for_which_the_drawn_classes_ask_the_same_share_a_table() -> None:
    of = of_trace("gpuspec10", BALANCED)
    assert len(of.phi) == max(of.table_of) + 1 < 7
    wide = Model("wide", 80_000, 1, 8, 96_000, 12)
    hardware = Hardware((wide, wide._replace(key="other"), wide._replace(card_mib=40_000), wide._replace(card_mib=1)))
    by_fraction = Mix((PodClass(1_000, 1, 1, 500),), (1,))
    assert rests(figures(by_fraction, hardware), hardware, FEW, 0.0).table_of.tolist() == [0, 0, 0, 0]
    by_memory = Mix((PodClass(1_000, 1, 1, 0, share_mib=40_000),), (1,))
    found = rests(figures(by_memory, hardware), hardware, FEW, 0.0)
    assert found.table_of.tolist() == [0, 0, 1, 2]
    assert (found.phi[:, [49, 50, 100], 0, 0] / UNIT).tolist() == [[0, 500, 1000], [0, 0, 1000], [0, 0, 0]]
    assert found.whole.shape[1] == 13


@given(mix=mixes.mixes(), hardware=mixes.HARDWARE, kappa=st.sampled_from((0.0, 0.03)))
@settings(max_examples=60)
def test_they_are_what_the_definition_says(mix: Mix, hardware: Hardware, kappa: float) -> None:
    of = figures(mix, hardware)
    sets = drawn(draw_weights(of), FEW.scenarios, FEW.classes_per_scenario, FEW.seed)
    found = rests(of, hardware, FEW, kappa)
    most = found.whole.shape[1] - 1
    for number, model in enumerate(hardware.models):
        for s, members in enumerate(sets.tolist()):
            chosen = [mix.classes[j] for j in members]
            for at, price in enumerate(found.lam.tolist()):
                shares, whole = naive.items(chosen, model, price, round(kappa * UNIT), most)
                on_one = naive.fillings(shares, STEPS)
                table = found.table_of[number]
                if max(on_one) <= MOST_VALUE:
                    assert found.phi[table, :, at, s].tolist() == on_one
                    on_all = naive.fillings(whole | {(1, on_one[STEPS])}, most)
                    capped = [min(value, free * MOST_VALUE) for free, value in enumerate(on_all)]
                    assert found.whole[table, :, at, s].tolist() == capped


@given(mix=mixes.mixes(), hardware=mixes.HARDWARE)
@settings(max_examples=60)
def test_more_room_is_never_worth_less(mix: Mix, hardware: Hardware) -> None:
    found = rests(figures(mix, hardware), hardware, FEW, 0.03)
    for values in (found.phi, found.whole):
        assert not values[:, 0].any()
        assert (np.diff(values, axis=1) >= 0).all()
        assert (values <= np.arange(values.shape[1])[:, None, None] * MOST_VALUE).all()


@pytest.mark.parametrize(
    "mix", [Mix((), ()), Mix((PodClass(1, 1, 0, 0),), (3,)), Mix((PodClass(1, 1, 1, 1000),), (0,))]
)
@pytest.mark.parametrize("hardware", [Hardware(()), traces.hardware()])
def test_without_demand_for_devices_all_is_worth_nothing(mix: Mix, hardware: Hardware) -> None:
    found = rests(figures(mix, hardware), hardware, BALANCED, 0.0)
    assert found.phi.shape == (1, 101, 10, 16)
    assert found.whole.shape == (1, 9, 10, 16)
    assert not found.phi.any()
    assert not found.whole.any()
    assert found.table_of.tolist() == [0] * len(hardware.models)
