"""Amounts of what is divided among queues, and of what one workload asks for."""

from __future__ import annotations

from typing import Final, NamedTuple

UNLIMITED: Final = -1
"""A quota or a limit without end."""


class Amounts(NamedTuple):
    """CPU, memory and devices, in the order in which shortages are named. A part of a device counts as its part."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """The sum."""
        return Amounts(
            self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes, self.gpu_milli + other.gpu_milli
        )

    def minus(self, other: Amounts) -> Amounts:
        """The difference; parts may be negative."""
        return Amounts(
            self.cpu_milli - other.cpu_milli, self.memory_bytes - other.memory_bytes, self.gpu_milli - other.gpu_milli
        )


RESOURCES: Final = Amounts._fields
NOTHING: Final = Amounts()
UNITS: Final = Amounts(1, 1_000_000, 1000)
"""What is not divided further when shares are cut: a millicore, a megabyte, a device."""
