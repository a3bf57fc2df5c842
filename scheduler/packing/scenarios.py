"""Scenarios: small random sets of the classes that a node's rest may be filled with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def drawn(weights: NDArray[np.float64], scenarios: int, classes: int, seed: int) -> NDArray[np.int64]:
    """[scenarios, classes] class numbers, drawn with replacement by `weights` (float64[K], none negative).

    A class of weight 0 is never drawn; without any weight there are no scenarios, and the first axis is 0.
    This is what `default_rng(seed).choice(K, classes, p=weights / weights.sum())` gives when called once for each
    scenario in turn (docs/packing.md, Scenarios), written out, since numpy promises nothing about `choice`.
    """
    total = weights.sum()
    if not total > 0:
        return np.zeros((0, classes), np.int64)
    edges = np.cumsum(weights / total)
    edges /= edges[-1]
    rng = np.random.default_rng(seed)
    return np.stack([edges.searchsorted(rng.random(classes), side="right") for _ in range(scenarios)]).astype(np.int64)
