"""What the nodes of a cluster are, pooled by the model of their devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class Model(NamedTuple):
    """Nodes whose devices are alike: one product with one card memory (0 MiB: unknown), which take shares or do not.

    `key` is the product; several models may have the same. `nodes`, `devices` and `cpu_milli` are totals over the nodes
    there are, which may be 0 when they went; `most_devices` is the number on the largest node.
    """

    key: str
    card_mib: int
    nodes: int
    devices: int
    cpu_milli: int
    most_devices: int
    takes_shares: bool = True


@dataclass(frozen=True, slots=True)
class Hardware:
    """Models in the order of their numbers, and the CPU of nodes without devices."""

    models: tuple[Model, ...]
    plain_cpu_milli: int = 0


NOTHING: Final = Hardware((Model("", 0, 0, 0, 0, 0, False),))
"""Before any node is known: only the model of nodes without devices."""
