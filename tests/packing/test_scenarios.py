"""The sets of classes that are drawn."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.packing.figures import figures
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.rests import draw_weights
from scheduler.packing.scenarios import drawn
from tests.packing import traces


def test_the_sets_of_the_default_trace() -> None:
    weights = draw_weights(figures(traces.mix("default"), traces.hardware()))
    small, large = drawn(weights, 16, 12, 2), drawn(weights, 16, 24, 2)
    assert small[0].tolist() == [28, 28, 84, 13, 39, 56, 19, 8, 28, 53, 37, 17]
    assert small[-1].tolist() == [56, 129, 13, 19, 8, 102, 129, 0, 63, 56, 129, 28]
    assert small.sum() == 9720
    assert large[0, :12].tolist() == small[0].tolist()
    assert large.sum() == 18_865


@given(weights=st.lists(st.integers(0, 1 << 53), min_size=1, max_size=40), seed=st.integers(0, 1 << 32))
def test_they_are_those_of_choice(weights: list[int], seed: int) -> None:
    array = np.array(weights, np.float64)
    sets = drawn(array, 3, 7, seed)
    if not any(weights):
        assert sets.shape == (0, 7)
        return
    rng = np.random.default_rng(seed)
    expected = [rng.choice(len(weights), 7, p=array / array.sum()) for _ in range(3)]
    assert sets.tolist() == [one.tolist() for one in expected]
    assert (array[sets] > 0).all()


def test_a_share_of_several_devices_is_drawn_as_often_as_its_parts() -> None:
    mix = Mix((PodClass(1, 1, 2, 500), PodClass(1, 1, 2, 1000), PodClass(1, 1, 0, 0)), (5, 5, 5))
    assert draw_weights(figures(mix, traces.hardware())).tolist() == [10, 5, 0]
