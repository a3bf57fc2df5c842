"""What pods ask for, as a mix: classes of pods, and how much of the demand each is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class PodClass(NamedTuple):
    """Pods that ask for the same.

    `devices` distinct devices, each giving `milli` of itself (1000: whole) or `share_mib` of its memory; 0 devices: a
    pod without, whose `milli` is 0. `models` are the keys of the models to which its rules let it go, None for all.
    `spec` is the rule about models as it was written, "" where unknown; it only tells classes apart and orders them.
    """

    cpu_milli: int
    memory_bytes: int
    devices: int
    milli: int
    share_mib: int = 0
    models: frozenset[str] | None = None
    spec: str = ""

    @property
    def whole(self) -> bool:
        """Asks for whole devices."""
        return self.devices > 0 and self.milli == 1000


@dataclass(frozen=True, slots=True)
class Mix:
    """Classes in a fixed order, and the demand of each as an integer weight: only ratios count.

    `pods` is how many pods of each class there are at one time, running or waiting; None where that is not known, and
    then the demand is taken for as much as fills the cluster's devices. The order matters: scenarios are drawn by
    number. Two entries may be alike. `steady` says that pods leave about as fast as they come, and that those there
    are ask for no more devices than there are.
    """

    classes: tuple[PodClass, ...]
    demand: tuple[int, ...]
    pods: tuple[int, ...] | None = None
    steady: bool = False
