"""Policies by their names, as settings, plans and simulations say them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.packing.classic import best_fit, dot_product, gpu_clustering, gpu_packing
from scheduler.packing.fgd import Fgd
from scheduler.packing.rsv import Rsv
from scheduler.packing.settings import BALANCED, MAX
from scheduler.policy import PlacementPolicy, Policy, PolicyError, Strategy

_MADE_BY: Final[Mapping[str, Callable[[], Policy]]] = {
    "binpack": PlacementPolicy,
    "spread": lambda: PlacementPolicy(Strategy.SPREAD, Strategy.SPREAD, Strategy.SPREAD),
    "bestfit": best_fit,
    "dotprod": dot_product,
    "gpu-packing": gpu_packing,
    "gpu-clustering": gpu_clustering,
    "fgd": Fgd,
    "rsv": lambda: Rsv(BALANCED),
    "rsv-max": lambda: Rsv(MAX),
}
NAMES: Final = tuple(_MADE_BY)


def policy_named(name: str) -> Policy:
    """A policy of its own, which has seen nothing. Raises PolicyError."""
    made_by = _MADE_BY.get(name)
    if made_by is None:
        raise PolicyError(f'"{name}" is no placement policy: {", ".join(NAMES)} are')
    return made_by()
