"""All that the RSV policy knows of the demand, as its kernels read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels.classic import NODE_CPU
from scheduler.kernels.rest_tables import UNIT
from scheduler.packing.blocks import blocks
from scheduler.packing.cpu_price import cpu_is_scarce
from scheduler.packing.figures import figures
from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix
from scheduler.packing.rests import rests
from scheduler.packing.scarcity import scarcity
from scheduler.packing.settings import RsvSettings


class Tables(NamedTuple):
    """L prices of CPU, T tables, S scenarios, K most devices of a node (at least 8), M models, B block classes.

    Values are int64 in UNIT for a milli-GPU, arrays C-contiguous; L and S are the same for every mix. A node with c
    free milli-CPU, m free bytes, f untouched devices of a model with table t, and others with 0 < r < 1000 free
    milli-GPU, R in all, is worth (docs/packing.md, Tables to Scarcity):

    - its rest, the mean over s of min over l of lam[l]·c + whole[t, f, l, s] + Σ phi[t, r // 10, l, s],
    - and its blocks, the sum over b allowed on its model of block_q·min(f // devices, c // cpu, m // memory).

    The cost of a placement is what the node loses of both, plus best_fit·(c + CPU_OF_GPU·R) after it, plus
    scarcity·(the pod's milli-GPU on all its devices).
    """

    lam: NDArray[np.int64]
    """[L]: λ, for each milli-CPU."""
    phi: NDArray[np.int64]
    """[T, 101, L, S]: of one device with so many steps of 10 milli-GPU free; 0 at 0."""
    whole: NDArray[np.int64]
    """[T, K + 1, L, S]: of so many untouched devices; 0 at 0."""
    table_of: NDArray[np.int32]
    """[M]: model → table."""
    block_q: NDArray[np.int64]
    """[B]: for each pod that fits."""
    block_devices: NDArray[np.int64]
    """[B]: at least 2."""
    block_cpu: NDArray[np.int64]
    """[B] milli-CPU; 0 bounds nothing."""
    block_memory: NDArray[np.int64]
    """[B] bytes; 0 bounds nothing."""
    block_allowed: NDArray[np.bool_]
    """[M, B]"""
    scarcity: NDArray[np.int64]
    """[M]: ν, for each milli-GPU."""
    best_fit: int
    """β/256000, for each free milli-CPU; CPU_OF_GPU times that for each free milli-GPU. Exact at the usual β of 50."""


def build(mix: Mix, hardware: Hardware, settings: RsvSettings) -> Tables:
    """Tables for the demand there is. Without demand for devices only best fit is left of the cost."""
    of = figures(mix, hardware)
    scarce = cpu_is_scarce(of, hardware)
    kappa = settings.cpu_price if scarce else 0.0
    best_fit = settings.steady_best_fit if scarce and mix.steady else settings.best_fit
    block = blocks(of, settings.block_weight, settings.block_classes)
    return Tables(
        *rests(of, hardware, settings, kappa),
        block_q=block.q,
        block_devices=block.devices,
        block_cpu=block.cpu,
        block_memory=block.memory,
        block_allowed=block.allowed,
        scarcity=scarcity(of, hardware, settings.scarcity_weight, mix.pods),
        best_fit=round(best_fit * UNIT / (2 * NODE_CPU)),
    )
