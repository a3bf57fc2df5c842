"""The bound by which the end-to-end tests judge packing is one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.packing import FULL, least_devices, sizes_of
from tests.e2e.pods import fraction, memory, whole

ITEMS = st.lists(st.integers(1, 10).map(lambda tenths: tenths * FULL // 10), max_size=7)


def fewest(sizes: list[int], bins: tuple[int, ...] = ()) -> int:
    """The optimum, by trying everything."""
    if not sizes:
        return len(bins)
    first, *rest = sizes
    open_one = fewest(rest, (*bins, first))
    into = [
        fewest(rest, (*bins[:place], filled + first, *bins[place + 1 :]))
        for place, filled in enumerate(bins)
        if filled + first <= FULL and filled not in bins[:place]
    ]
    return min([open_one, *into])


@given(ITEMS)
def test_no_packing_is_better(sizes: list[int]) -> None:
    assert least_devices(sizes) <= fewest(sizes)


def test_it_knows_that_large_items_stand_apart() -> None:
    assert least_devices([600_000] * 4) == 4
    assert least_devices([600_000, 400_000, 400_000, 400_000, 400_000]) == 3
    assert least_devices([700_000, 700_000, 400_000]) == 3
    assert least_devices([]) == 0


def test_sizes_are_never_more_than_a_share_takes() -> None:
    pods = [fraction("a", "0.3"), fraction("b", "0.5", devices=2), memory("c", 20480), whole("d")]
    sizes = sizes_of(pods, [81920, 15360])
    assert len(sizes) == 4
    assert sizes[0] <= 300_000
    assert sizes[3] == 250_000
    assert abs(sum(sizes) - 1_550_000) < 300
