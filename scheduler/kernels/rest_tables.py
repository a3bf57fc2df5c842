"""What free room on devices can be worth at most, for every amount of it: unbounded knapsacks.

Values are integers in fixed point, so that all machines agree to the last digit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel

UNIT: Final = 10**11
"""One milli-GPU in the fixed point of values.

Decimal, as the numbers of the policy are (0.01, 0.03, 0.3, 0.5): so these are exact, and what is equal by the formulas
is equal to the last digit, on which ties depend.
"""
STEP_MILLI: Final = 10
"""Step of the tables of shares, in milli-GPU."""
STEPS: Final = 100
"""Steps of a whole device."""
MOST_VALUE: Final = 10_000 * UNIT
"""No room is worth more for each device it is on. Keeps sums over large nodes within 63 bits."""


@kernel
def fill_shares(
    sets: NDArray[np.int64], steps: NDArray[np.int64], worth: NDArray[np.int64], phi: NDArray[np.int64]
) -> None:
    """Writes `phi` int64[T, STEPS + 1, L, S]: the most that the free steps of one device can hold of shares.

    For T tables, S sets and L prices of CPU: `sets` int64[S, m] lists items by number, `steps` int64[T, J] is the width
    of item j as a share, 0 where it is none, and `worth` int64[T, L, J] its value in UNIT. phi[:, 0] is left alone: 0.
    """
    best = np.zeros(STEPS + 1, np.int64)
    for t, s, k in np.ndindex(phi.shape[0], phi.shape[3], phi.shape[2]):
        for free in range(1, STEPS + 1):
            value = best[free - 1]
            for j in sets[s]:
                width = steps[t, j]
                if 0 < width <= free:
                    value = max(value, best[free - width] + worth[t, k, j])
            best[free] = min(value, MOST_VALUE)
            phi[t, free, k, s] = best[free]


@kernel
def fill_whole(
    sets: NDArray[np.int64],
    devices: NDArray[np.int64],
    worth: NDArray[np.int64],
    phi: NDArray[np.int64],
    whole: NDArray[np.int64],
) -> None:
    """Writes `whole` int64[T, K + 1, L, S]: the most that so many free devices can hold, of shares and of items that
    take whole ones: `devices` int64[T, J] of them, 0 where the item is a share. The rest as in `fill_shares`.
    """
    most = whole.shape[1] - 1
    best = np.zeros(most + 1, np.int64)
    for t, s, k in np.ndindex(whole.shape[0], whole.shape[3], whole.shape[2]):
        for free in range(1, most + 1):
            value = best[free - 1] + phi[t, STEPS, k, s]
            for j in sets[s]:
                width = devices[t, j]
                if 0 < width <= free:
                    value = max(value, best[free - width] + worth[t, k, j])
            best[free] = min(value, free * MOST_VALUE)
            whole[t, free, k, s] = best[free]
