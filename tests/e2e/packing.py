"""How few devices a set of shares can do with: a lower bound that needs no search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from tests.controlplane.resources import Object

FULL: Final = 1_000_000
"""One device, in the units of sizes here."""


def sizes_of(pods: Iterable[Object], memories_mib: Sequence[int]) -> list[int]:
    """The size of every device share that the pods ask for; one of memory counts as on the largest device."""
    sizes = []
    for pod in pods:
        annotations = pod["metadata"]["annotations"]
        count = int(annotations.get("gpu-fraction-num-devices", "1"))
        if "gpu-fraction" in annotations:
            # a share of memory is rounded down to MiB, so on a small device it may be a little less than it says
            sizes += [int(Decimal(annotations["gpu-fraction"]) * FULL) - FULL // min(memories_mib) - 1] * count
        elif "gpu-memory" in annotations:
            sizes += [int(annotations["gpu-memory"]) * FULL // max(memories_mib)] * count
    return sizes


def least_devices(sizes: Sequence[int]) -> int:
    """No packing into bins of FULL has fewer: the bound L2 of Martello and Toth.

    For a threshold t the items above FULL - t stand alone, those above FULL / 2 stand apart from each other, and
    those of at least t fill at best what the latter leave; the greatest of these counts over all t holds.
    """
    best = -(-sum(sizes) // FULL)
    for threshold in {0, *(size for size in sizes if 2 * size <= FULL)}:
        alone = [size for size in sizes if size > FULL - threshold]
        apart = [size for size in sizes if FULL - threshold >= size and 2 * size > FULL]
        filling = [size for size in sizes if 2 * size <= FULL and size >= threshold]
        left = sum(filling) - (len(apart) * FULL - sum(apart))
        best = max(best, len(alone) + len(apart) + max(0, -(-left // FULL)))
    return best
