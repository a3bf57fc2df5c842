"""What the rest of a node may still hold, under each scenario and at each price of CPU: the tables of RSV."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels.rest_tables import STEP_MILLI, STEPS, UNIT, fill_shares, fill_whole
from scheduler.packing.figures import Figures
from scheduler.packing.hardware import Hardware
from scheduler.packing.scenarios import drawn
from scheduler.packing.settings import RsvSettings

LEAST_PRICE: Final = 0.01
MOST_PRICE: Final = 0.5
PRICES: Final = 10
"""λ, the price of CPU in milli-GPU per milli-CPU: 0, and a geometric row from the least to the greatest."""
LEAST_WHOLE: Final = 8
"""The table of whole devices goes at least so far."""
MOST_CPU_MILLI: Final = 1 << 24
"""A class that asks more is in no table: no node holds it, and the products with prices would leave 63 bits."""


class Rests(NamedTuple):
    """T tables for M models; L prices of CPU; S scenarios; K the most devices of a node. Values in UNIT."""

    lam: NDArray[np.int64]
    """[L]: λ, for each milli-CPU."""
    phi: NDArray[np.int64]
    """[T, STEPS + 1, L, S]: of one device with so many steps free."""
    whole: NDArray[np.int64]
    """[T, K + 1, L, S]: of so many devices that are free as a whole."""
    table_of: NDArray[np.int32]
    """[M]: model → table."""


class _Items(NamedTuple):
    """What the drawn classes put into a knapsack: J items for T tables."""

    steps: NDArray[np.int64]
    """[T, J]: width of a share; 0 for what is none."""
    devices: NDArray[np.int64]
    """[T, J]: number of whole devices; 0 for a share."""
    worth: NDArray[np.int64]
    """[T, L, J]: n·g + κ·c - λ·c in UNIT."""


def prices() -> NDArray[np.int64]:
    """[PRICES]: λ in UNIT. By square roots and products alone, which are the same everywhere."""
    ratio = math.sqrt(math.sqrt(math.sqrt(MOST_PRICE / LEAST_PRICE)))
    row = [0.0, LEAST_PRICE]
    while len(row) < PRICES:
        row.append(row[-1] * ratio)
    return np.array([round(price * UNIT) for price in row], np.int64)


def draw_weights(of: Figures) -> NDArray[np.float64]:
    """[K]: the demand for classes with devices. A pod with shares of n devices counts as n pods."""
    parts = np.where(of.shares, of.devices, (of.devices > 0).astype(np.int64))
    return np.array(of.demand, np.float64) * parts


def rests(of: Figures, hardware: Hardware, settings: RsvSettings, cpu_price: float) -> Rests:
    """Tables (docs/packing.md, Tables). `cpu_price` is κ in milli-GPU per milli-CPU.

    Models on which the drawn classes ask for the same share a table. Without demand for devices all values are 0.
    """
    most = max([LEAST_WHOLE, *(model.most_devices for model in hardware.models)])
    sets = drawn(draw_weights(of), settings.scenarios, settings.classes_per_scenario, settings.seed)
    lam = prices()
    if not len(sets):
        shape = (PRICES, settings.scenarios)
        phi, whole = np.zeros((1, STEPS + 1, *shape), np.int64), np.zeros((1, most + 1, *shape), np.int64)
        return Rests(lam, phi, whole, np.zeros(len(hardware.models), np.int32))
    classes, numbers = np.unique(sets, return_inverse=True)
    table_of, milli = _tables(of.milli_on[classes])
    items = _items(of, classes, milli, most, round(cpu_price * UNIT) - lam)
    sets = np.ascontiguousarray(numbers.reshape(sets.shape), np.int64)
    shape = (PRICES, len(sets))
    phi = np.zeros((len(milli), STEPS + 1, *shape), np.int64)
    whole = np.zeros((len(milli), most + 1, *shape), np.int64)
    fill_shares(sets, items.steps, items.worth, phi)
    fill_whole(sets, items.devices, items.worth, phi, whole)
    return Rests(lam, phi, whole, table_of)


def _tables(milli_on: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Model → table, and milli-GPU int64[T, J] by table, from int64[J, M]. There is at least one table."""
    rows: dict[tuple[int, ...], int] = {}
    of_model = [rows.setdefault(tuple(row), len(rows)) for row in milli_on.T.tolist()]
    milli = np.array(list(rows) or [(0,) * len(milli_on)], np.int64)
    return np.array(of_model, np.int32), milli


def _items(
    of: Figures, classes: NDArray[np.int64], milli: NDArray[np.int64], most: int, cpu_worth: NDArray[np.int64]
) -> _Items:
    """`milli` int64[T, J] of each device; `cpu_worth` int64[L] is κ - λ. Shares of several devices are single ones."""
    single, count = of.shares[classes], of.devices[classes]
    cpu = of.cpu[classes] // np.where(single, count, 1)
    fits = (milli > 0) & (cpu <= MOST_CPU_MILLI)
    devices = np.where(fits & ~single & (count <= most), count, 0)
    steps = np.where(fits & single, -(-milli // STEP_MILLI), 0)
    gain = milli * np.maximum(devices, 1) * UNIT
    worth = gain[:, None, :] + np.where(cpu <= MOST_CPU_MILLI, cpu, 0) * cpu_worth[:, None]
    return _Items(steps, devices, np.asarray(worth, np.int64))
