"""Whether CPU is the scarcer resource of a cluster's GPU nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.allocation import FULL_MILLI
from scheduler.packing.figures import Figures
from scheduler.packing.hardware import Hardware

SHARE_PERCENT: Final = 95
"""CPU is scarce when demand that fills the devices would fill more than so much of it."""


def cpu_asked(of: Figures, count: Sequence[int]) -> tuple[int, int]:
    """Milli-CPU of so many pods of each class: of those with devices, and of those without; exact."""
    cpu = [(pods * each, n) for pods, each, n in zip(count, of.cpu.tolist(), of.devices.tolist(), strict=True)]
    return sum(amount for amount, n in cpu if n), sum(amount for amount, n in cpu if not n)


def cpu_is_scarce(of: Figures, hardware: Hardware) -> bool:
    """The rule of docs/packing.md, CPU price, for the demand scaled to what fills all devices; exact.

    Pods without devices first fill the nodes without devices, which the experiment has none of: only what is beyond
    those weighs on GPU nodes.
    """
    devices = FULL_MILLI * sum(model.devices for model in hardware.models)
    asked = sum(of.asked)
    if not asked:
        return False
    beside, plain = cpu_asked(of, of.demand)
    beyond = max(0, plain * devices - hardware.plain_cpu_milli * asked)
    there = asked * sum(model.cpu_milli for model in hardware.models)
    return 100 * (beside * devices + beyond) > SHARE_PERCENT * there
