"""The tasks that FGD measures fragmentation by: the commonest classes of the demand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.packing.figures import figures
from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix, PodClass

_Key = tuple[int, int, int, str, int, tuple[str, ...]]


class FgdTasks(NamedTuple):
    """T tasks, the commonest first; M models."""

    cpu: NDArray[np.int64]
    """[T] milli-CPU."""
    milli: NDArray[np.int64]
    """[T] milli-GPU of each device; for a share by memory the mean over the devices that it may use."""
    devices: NDArray[np.int64]
    """[T]: 0 for tasks without."""
    popularity: NDArray[np.float64]
    """[T]: the task's part of the pods of all tasks."""
    allowed: NDArray[np.bool_]
    """[T, M]"""


def fgd_tasks(mix: Mix, hardware: Hardware, coverage: float = 0.95) -> FgdTasks:
    """Tasks (docs/packing.md, FGD): classes that differ in more than memory, until they make up `coverage` of the pods.

    By number of pods, CPU, milli, devices and the rule about models as text, all descending.
    """
    counts: dict[_Key, int] = {}
    first: dict[_Key, int] = {}
    for j, (one, count) in enumerate(zip(mix.classes, mix.demand, strict=True)):
        if count:
            key = _key(one)
            counts[key] = counts.get(key, 0) + count
            first.setdefault(key, j)
    pods, taken = sum(counts.values()), 0
    tasks: list[_Key] = []
    for key in sorted(counts, key=lambda key: (counts[key], *key), reverse=True):
        if taken >= coverage * pods:
            break
        tasks.append(key)
        taken += counts[key]
    of, chosen = figures(mix, hardware), [first[key] for key in tasks]
    popularity = [counts[key] / pods / (taken / pods) for key in tasks]
    return FgdTasks(
        cpu=of.cpu[chosen],
        milli=of.milli[chosen],
        devices=of.devices[chosen],
        popularity=np.array(popularity, np.float64),
        allowed=np.ascontiguousarray(of.allowed[chosen]),
    )


def _key(one: PodClass) -> _Key:
    """What tells tasks apart, in the order in which it sorts them."""
    models = tuple(sorted(one.models)) if one.devices and one.models is not None else ()
    return one.cpu_milli, one.milli, one.devices, one.spec, one.share_mib, models
