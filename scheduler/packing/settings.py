"""How RSV weighs what it sees: the numbers of the policy, and the two sets of them that were measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RsvSettings:
    """Frozen numbers of the rest-value policy (docs/packing.md, RSV). A weight of 0 switches its term off."""

    scenarios: int = 16
    """S: sets of classes that are drawn."""
    classes_per_scenario: int = 12
    """m: draws for each set; a class that is drawn twice counts once."""
    seed: int = 2
    """Of the draws."""
    block_weight: float = 0.2
    """α: of room for pods of several whole devices."""
    block_classes: int = 24
    """At most so many classes of such pods are looked at."""
    best_fit: float = 50.0
    """β: of what stays free on the node, in milli-GPU."""
    steady_best_fit: float = 200.0
    """β where CPU is the scarcer resource and the demand is steady: then nodes kept empty serve more."""
    cpu_price: float = 0.03
    """κ in milli-GPU per milli-CPU, where CPU is the scarcer resource."""
    scarcity_weight: float = 0.3
    """Of the price of devices of a model that is short while others are not."""


BALANCED: Final = RsvSettings()
MAX: Final = RsvSettings(
    classes_per_scenario=24, block_weight=0.0, best_fit=0.0, steady_best_fit=0.0, cpu_price=0.0, scarcity_weight=0.0
)
"""Fills a cluster that pods never leave; large pods starve under it where they do."""
