"""GPU models as queues name them: how a key such as `H100` is matched with the product that node labels tell."""

from __future__ import annotations

from topology import catalogue


def normalise(text: str) -> str:
    """A key or product as both are compared: capitals joined by `-`, without vendor, brand, sharing and MIG profile.

    `NVIDIA A100-SXM4-80GB-MIG-1g.10gb-SHARED` → `A100-SXM4-80GB`. Empty where nothing is left.
    """
    return catalogue.normalise(text)


def matches(key: str, product: str) -> bool:
    """Whether the product is of the model that the key names: whole, or by its leading parts between `-`."""
    name = normalise(key)
    return bool(name) and catalogue.matches(name, normalise(product))


def overlap(left: str, right: str) -> bool:
    """Whether there can be a product that both keys match."""
    return matches(left, right) or matches(right, left)
