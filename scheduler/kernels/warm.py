"""Compiles every kernel before the first question comes."""

from __future__ import annotations

import time

import numpy as np

from scheduler.kernels import _jit, arrays, devices, diagnose, scan


def warm() -> float:
    """Calls each kernel once with the dtypes that live calls have. Returns the seconds it took.

    Several seconds the first time on a machine, a fraction of one when the cache of compiled kernels is there.
    """
    began = time.perf_counter()
    nodes = arrays.blank(1, arrays.FIRST_EXTENDED, 1)
    ask = arrays.Ask(
        np.zeros(1, np.int64), np.ones(1, np.int64), arrays.SHARE, 1, 500, 0, -1, arrays.CPU
    )
    rules = arrays.Rules(0, 0, 0)
    buffers = arrays.scratch(1, 1)
    mask = np.ones(1, np.bool_)
    scan.best_node(nodes, ask, rules, mask, buffers)
    scan.score_nodes(nodes, ask, rules, mask, buffers)
    scan.fitting_nodes(nodes, ask, mask, buffers)
    devices.choose(nodes, ask, 0, 0, buffers)
    diagnose.diagnose(nodes, ask, buffers, 1)
    return time.perf_counter() - began


def specialisations() -> dict[str, int]:
    """Kernel → for how many argument types it has been compiled. More than one means that a caller strayed."""
    return {name: len(getattr(function, "signatures", ())) for name, function in _jit.KERNELS.items()}
