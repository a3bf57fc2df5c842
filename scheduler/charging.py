"""What a request counts for in its queue. One conversion of devices, shares and MIG instances, one rounding: up.

A share of a device's memory is as much of the device as it is of its memory, so it depends on the card; before it is
known where a pod lands it counts by the largest card, and the true one decides at placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from queues.amounts import Amounts
from scheduler.allocation import FULL_MILLI
from scheduler.request import Demand, Request
from topology import gpu_model
from topology.inventory import NodeInventory
from topology.mig import profile_of

SLICES: Final = 7
"""Compute slices of a device that is cut into MIG instances."""


class NodeClass(NamedTuple):
    """Nodes on which every request counts the same: the queues' keys of their GPU model, and one card's memory."""

    models: tuple[str, ...] = ()
    card_mib: int = 0


def class_of(inventory: NodeInventory, keys: tuple[str, ...]) -> NodeClass:
    """The class of a node, given the GPU models that queues speak of."""
    product = inventory.product
    models = () if product is None else tuple(key for key in keys if gpu_model.matches(key, product))
    return NodeClass(models, inventory.devices[0].memory_mib if inventory.devices else 0)


def amounts_of(request: Request, card_mib: int, *, whole_slices: bool = False) -> Amounts:
    """What a request counts for on a node whose cards have that memory (0: unknown; a share of it counts as a device).

    A MIG instance counts as its part of a device; with `whole_slices` (KAI's rule) each slice as a device.
    """
    gpu_milli = mig_milli(dict(request.extended), whole_slices=whole_slices)
    if request.demand is Demand.WHOLE:
        gpu_milli += request.device_count * FULL_MILLI
    elif request.demand is Demand.SHARE:
        gpu_milli += request.device_count * (request.share_milli or _of_card(request.share_memory_mib, card_mib))
    return Amounts(request.cpu_milli, request.memory_bytes, gpu_milli)


def mig_milli(resources: Mapping[str, int], *, whole_slices: bool) -> int:
    """MIG instances among resources, as thousandths of devices."""
    total = 0
    for name, count in resources.items():
        profile = profile_of(name)
        if profile is not None:
            milli = profile.slices * FULL_MILLI
            total += count * (milli if whole_slices else min(-(-milli // SLICES), FULL_MILLI))
    return total


def depends_on_class(request: Request) -> bool:
    """Whether it makes a difference where the request lands."""
    return request.demand is not Demand.NONE or any(profile_of(name) for name, _ in request.extended)


def _of_card(memory_mib: int, card_mib: int) -> int:
    return min(-(-memory_mib * FULL_MILLI // card_mib), FULL_MILLI) if card_mib else FULL_MILLI
