"""Product names of devices, and how much memory they have where no label says so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

_SEPARATORS: Final = re.compile(r"[\s_-]+")
_MODES: Final = re.compile(r"(?:-MIG-.*|-SHARED)+$")
_BRANDS: Final = frozenset({"NVIDIA", "AMD", "INTEL", "TESLA", "INSTINCT"})
_VGPU: Final = re.compile(r"[0-9]+[ABCQ]")

# MiB, the lowest total that the vendor's tool is known to show for the product: error correction and old drivers take
# some. A key also stands for products with more parts behind it, so a family's key has its smallest member's figure.
_MEMORY_MIB: Final = {
    # NVIDIA, data centre
    "A2": 15356,
    "A10": 23028,
    "A10G": 23028,
    "A16": 15356,
    "A30": 24258,
    "A40": 45634,
    "A100": 39538,
    "A100-80GB": 80994,
    "A100-SXM4-80GB": 81251,
    "A100-SXM-80GB": 81251,
    "A100-PCIE-80GB": 80994,
    "A800-80GB": 80994,
    "A800-SXM4-80GB": 81251,
    "H100-80GB": 81559,
    "H100-MEGA-80GB": 81559,
    "H100-PCIE": 81559,
    "H100-NVL": 95830,
    "H800": 81559,
    "H20": 97871,
    "H200": 143771,
    "GH200-120GB": 97871,
    "GH200-480GB": 97871,
    "GH200-144G": 145920,
    "B200": 183359,
    "GB200": 189471,
    "B300": 275040,
    "GB300": 284208,
    "L4": 23034,
    "L20": 46068,
    "L40": 46068,
    "L40S": 46068,
    "P4": 7611,
    "P100": 12198,
    "P100-PCIE-16GB": 16280,
    "P100-SXM2-16GB": 16280,
    "T4": 15360,
    "V100": 16160,
    "V100-PCIE-32GB": 32510,
    "V100-SXM2-32GB": 32510,
    "V100-SXM3-32GB": 32510,
    # NVIDIA, workstation and consumer
    "RTX-A4000": 15352,
    "RTX-A5000": 23028,
    "RTX-A6000": 46068,
    "RTX-6000-ADA-GENERATION": 46068,
    "RTX-PRO-6000": 97887,
    "GEFORCE-RTX-3090": 24268,
    "GEFORCE-RTX-4090": 24564,
    "GEFORCE-RTX-5090": 32607,
    # AMD
    "MI100": 32752,
    "MI210": 65520,
    "MI250": 65520,
    "MI250X": 65520,
    "MI300X": 196592,
    "MI325": 262128,
    "MI325X": 262128,
    "MI350X": 294896,
    "MI355X": 294896,
    # Intel, of the whole device
    "FLEX-140": 6144,
    "FLEX-170": 16384,
    "MAX-1100": 49152,
    "MAX-1550": 131072,
}
MEMORY_MIB: Final[Mapping[str, int]] = MappingProxyType(_MEMORY_MIB)
"""Memory in MiB by normalised product name. Parts with unified memory (GB10, MI300A) are left out on purpose."""


class CatalogueError(ValueError):
    """An entry of a configured catalogue that cannot be used; the text says which one and why."""


def normalise(product: str) -> str:
    """The product name as it is compared: upper case, parts joined by "-", without vendor, brand and mode of sharing.

    `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED` and `A100 SXM4 40GB` are both `A100-SXM4-40GB`, and GKE's
    `nvidia-tesla-t4` is `T4`.
    """
    parts = _MODES.sub("", _SEPARATORS.sub("-", product.strip()).upper()).strip("-").split("-")
    while len(parts) > 1 and parts[0] in _BRANDS:
        del parts[0]
    return "-".join(parts)


def matches(key: str, product: str) -> bool:
    """Whether a key names a product: it is the whole name, or its leading parts between "-". Both normalised."""
    return product == key or product.startswith(key + "-")


def checked(entries: Mapping[str, int]) -> dict[str, int]:
    """A configured catalogue with normalised names. Raises CatalogueError."""
    found: dict[str, int] = {}
    for name, mib in entries.items():
        key = normalise(name)
        if not key:
            raise CatalogueError(f"catalogue: {name!r} is no product name")
        if isinstance(mib, bool) or not isinstance(mib, int) or mib <= 0:
            raise CatalogueError(f"catalogue: {name!r} must have a positive number of MiB, not {mib!r}")
        if key in found:
            raise CatalogueError(f"catalogue: {name!r} and another entry both name the product {key}")
        found[key] = mib
    return found


def memory_mib(product: str, overrides: Mapping[str, int] | None = None) -> int | None:
    """MiB of a device by its normalised product name; None where it is unknown.

    The longest matching key wins, and any match among `overrides` (as `checked` returns them) wins over ours.
    """
    for entries in (overrides or {}, MEMORY_MIB):
        for key in _keys(product):
            if key in entries:
                return entries[key]
    return None


def _keys(product: str) -> Iterator[str]:
    """The names that match a product, longest first."""
    yield product
    parts = product.split("-")
    # "A40-8Q" is a slice that a hypervisor cut from an A40: the card's figure would be wrong for it
    if _VGPU.fullmatch(parts[-1]):
        return
    for length in range(len(parts) - 1, 0, -1):
        yield "-".join(parts[:length])
