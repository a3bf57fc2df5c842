"""What node labels say about devices: NVIDIA's GPU feature discovery, GKE, AMD's labeller, Intel's rules.

Labels are hearsay: a malformed one gives a warning and counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from topology import catalogue

GKE_ACCELERATOR: Final = "cloud.google.com/gke-accelerator"
GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING: Final = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_CLIENTS: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
AMD_PRODUCT: Final = ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
AMD_MEMORY: Final = ("amd.com/gpu.vram", "beta.amd.com/gpu.vram")
AMD_PARTITION: Final = "amd.com/compute-memory-partition"
INTEL_PRODUCT: Final = "gpu.intel.com/product"
INTEL_COUNT: Final = "gpu.intel.com/device.count"
INTEL_MILLICORES: Final = "gpu.intel.com/millicores"
INTEL_MEMORY: Final = "gpu.intel.com/memory.max"

# Above what any card has; it catches bytes written where MiB belong.
MAX_MEMORY_MIB: Final = 1 << 23
_MAX_COUNT: Final = 1 << 20
_MIB: Final = 1 << 20
_GIB_MIB: Final = 1024


@dataclass(frozen=True, slots=True)
class DeviceLabels:
    """The labels behind one device resource; None where they are silent.

    `memory_mib` is of one physical device and may be up to `rounding_mib` more than it has. `count` is the number of
    physical devices, or of instances where `partitioned`. `shared` says that the resource counts time slices or MPS
    clients, `partitioned` that it counts parts cut from devices.
    """

    product: str | None = None
    memory_mib: int | None = None
    rounding_mib: int = 0
    count: int | None = None
    replicas: int = 1
    shared: bool = False
    partitioned: bool = False
    warnings: tuple[str, ...] = ()


def read(labels: Mapping[str, str], resource: str) -> DeviceLabels:
    """What the labels of a node say about the devices that `resource` counts. Never raises."""
    reader = _Reader(labels)
    domain = resource.partition("/")[0]
    if domain == "amd.com":
        return _amd(reader)
    if domain == "gpu.intel.com":
        return _intel(reader)
    return _feature_discovery(reader, domain)


@dataclass(slots=True)
class _Reader:
    labels: Mapping[str, str]
    warnings: list[str] = field(default_factory=list)

    def text(self, *keys: str) -> str:
        """The first label that is there and not empty, else ""."""
        return next((value for key in keys if (value := self.labels.get(key, "").strip())), "")

    def number(self, key: str, highest: int, what: str, unit: str = "") -> int | None:
        """A whole number from 0 to `highest`, followed by `unit`; None, with a warning, where it is none."""
        text = self.text(key)
        digits = text.removesuffix(unit)
        if digits.isdigit() and digits.isascii() and len(digits) < 20 and int(digits) <= highest:
            return int(digits)
        if text:
            self.warnings.append(f"label {key}: {text!r} is not {what}; it is ignored")
        return None


def _feature_discovery(reader: _Reader, domain: str) -> DeviceLabels:
    """NVIDIA's labels, or GKE's; makers unknown to us are read as if they kept NVIDIA's names."""
    prefix = f"{domain}/gpu."
    product = reader.text(prefix + "product", GKE_ACCELERATOR)
    strategies = (reader.text(prefix + "sharing-strategy"), reader.text(GKE_SHARING))
    replicas = max(
        1,
        reader.number(prefix + "replicas", _MAX_COUNT, "a number of replicas") or 1,
        reader.number(GKE_CLIENTS, _MAX_COUNT, "a number of clients") or 1,
    )
    shared = replicas > 1 or any(word.lower() not in ("", "none") for word in strategies)
    return DeviceLabels(
        product=catalogue.normalise(product) or None,
        memory_mib=reader.number(prefix + "memory", MAX_MEMORY_MIB, "a number of MiB of one device") or None,
        count=reader.number(prefix + "count", _MAX_COUNT, "a number of devices"),
        replicas=replicas,
        shared=shared or product.upper().endswith("-SHARED"),
        partitioned=bool(reader.text(GKE_PARTITION)) or "-MIG-" in product.upper(),
        warnings=tuple(reader.warnings),
    )


def _amd(reader: _Reader) -> DeviceLabels:
    key = next((key for key in AMD_MEMORY if reader.text(key)), AMD_MEMORY[0])
    gib = reader.number(key, MAX_MEMORY_MIB // _GIB_MIB, 'a number of GiB such as "64G"', unit="G")
    partition = reader.text(AMD_PARTITION).lower()
    return DeviceLabels(
        product=catalogue.normalise(reader.text(*AMD_PRODUCT)) or None,
        memory_mib=gib * _GIB_MIB if gib else None,
        rounding_mib=_GIB_MIB // 2,
        partitioned=bool(partition) and not partition.startswith("spx"),
        warnings=tuple(reader.warnings),
    )


def _intel(reader: _Reader) -> DeviceLabels:
    """Intel's memory label is the sum over the node, in bytes; it says nothing where the number of cards is unknown."""
    count = reader.number(INTEL_COUNT, _MAX_COUNT, "a number of devices")
    if count is None:
        count = (reader.number(INTEL_MILLICORES, _MAX_COUNT, "a number of millicores") or 0) // 1000 or None
    total = reader.number(INTEL_MEMORY, _MAX_COUNT * _MIB, "a number of bytes")
    return DeviceLabels(
        product=catalogue.normalise(reader.text(INTEL_PRODUCT)) or None,
        memory_mib=(total // count // _MIB or None) if total and count else None,
        count=count,
        warnings=tuple(reader.warnings),
    )
