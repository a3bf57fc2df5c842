"""The figures of a mix on given hardware, as arrays: what a pod of each class asks of a node, model by model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.allocation import FULL_MILLI
from scheduler.packing.hardware import Hardware, Model
from scheduler.packing.mix import Mix, PodClass


class Figures(NamedTuple):
    """K classes in the order of the mix, M models in the order of their numbers."""

    demand: tuple[int, ...]
    """[K]: as in the mix."""
    cpu: NDArray[np.int64]
    """[K] milli-CPU of one pod."""
    memory: NDArray[np.int64]
    """[K] bytes of one pod."""
    devices: NDArray[np.int64]
    """[K]: 0 for a class without."""
    milli: NDArray[np.int64]
    """[K]: of each device; for a share by memory the mean over the devices that it may use, 0 where there are none."""
    milli_on: NDArray[np.int64]
    """[K, M]: of each device of that model; 0 where the class asks for none, and where it may not or cannot go."""
    allowed: NDArray[np.bool_]
    """[K, M]: a pod of the class may use nodes of that model, which it always may where it asks for no devices."""
    whole: NDArray[np.bool_]
    """[K]: asks for whole devices. A share that happens to fill a card is none."""

    @property
    def shares(self) -> NDArray[np.bool_]:
        """[K]: asks for parts of devices."""
        return (self.devices > 0) & ~self.whole

    @property
    def asked(self) -> list[int]:
        """[K] milli-GPU that the demand for each class comes to, exact."""
        return [d * n * g for d, n, g in zip(self.demand, self.devices.tolist(), self.milli.tolist(), strict=True)]


def figures(mix: Mix, hardware: Hardware) -> Figures:
    """All classes of the mix against all models, also those whose last node went."""
    classes, models = mix.classes, hardware.models
    table = np.array([one[:5] for one in classes], np.int64).reshape(len(classes), 5)
    cpu, memory, devices, milli, mib = (np.ascontiguousarray(column) for column in table.T)
    whole = (devices > 0) & (milli == FULL_MILLI) & (mib == 0)
    shared = np.array([model.takes_shares for model in models], np.bool_)
    allowed = _allowed(classes, models) & (shared | (devices == 0)[:, None] | whole[:, None])
    milli_on = np.where(allowed & (devices > 0)[:, None], milli[:, None], 0)
    by_memory = np.flatnonzero((mib > 0) & (devices > 0))
    if len(by_memory):
        milli_on[by_memory] = _milli_of_cards(mib[by_memory], models) * allowed[by_memory]
        allowed[by_memory] = milli_on[by_memory] > 0
        milli[by_memory] = _means(milli_on[by_memory], models)
    return Figures(mix.demand, cpu, memory, devices, milli, milli_on, allowed, whole)


def _allowed(classes: Sequence[PodClass], models: Sequence[Model]) -> NDArray[np.bool_]:
    """[K, M] by the names of models alone."""
    allowed = np.ones((len(classes), len(models)), np.bool_)
    rows: dict[frozenset[str], list[bool]] = {}
    for j, one in enumerate(classes):
        if one.devices and one.models is not None:
            if one.models not in rows:
                rows[one.models] = [model.key in one.models for model in models]
            allowed[j] = rows[one.models]
    return allowed


def _milli_of_cards(mib: NDArray[np.int64], models: Sequence[Model]) -> NDArray[np.int64]:
    """[k, M] milli-GPU that `mib` (int64[k]) is of each model's card, rounded up; 0 where it holds less, or unknown."""
    cards = np.array([model.card_mib for model in models], np.int64)
    parts = -(-mib[:, None] * FULL_MILLI // np.maximum(cards, 1))
    return np.where(mib[:, None] <= cards, parts, 0)


def _means(milli_on: NDArray[np.int64], models: Sequence[Model]) -> NDArray[np.int64]:
    """[k]: mean of `milli_on` (int64[k, M]) over the devices where it is not 0, rounded down."""
    counts = np.array([model.devices for model in models], np.int64) * (milli_on > 0)
    means: NDArray[np.int64] = (milli_on * counts).sum(axis=1) // np.maximum(counts.sum(axis=1), 1)
    return means
