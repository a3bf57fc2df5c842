"""A node as the scheduler sees it: its devices one by one, what it may be used for, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from topology import catalogue, domains, labels, mig
from topology.islands import islands
from topology.labels import DeviceLabels
from topology.node import NodeFacts
from topology.virtual import NodeKind, cluster_identity, kind_of
from topology.vocabulary import DEFAULT_DEVICE_RESOURCES, NODE_GPU_UUIDS, NODE_SHARES

MAX_DEVICES: Final = 256
"""A node that claims more devices than this is an aggregate in disguise: they are counted, not modelled."""

_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
# Words that the container runtime takes as "every device" or "no device".
_NO_UUIDS: Final = frozenset({"all", "none", "void"})
_SHARED_SUFFIX: Final = ".shared"


class ShareSupport(StrEnum):
    """Whether a node takes shares of devices, and if not, why."""

    YES = "YES"
    NO_AGENT = "NO_AGENT"
    VIRTUAL = "VIRTUAL"
    REPLICAS = "REPLICAS"
    MIG = "MIG"
    NO_DEVICES = "NO_DEVICES"


@dataclass(frozen=True, slots=True)
class Device:
    """One device; `memory_mib` is what may be given away (total minus reserve), 0 where it is unknown.

    Devices of one `island` are near one another; 0 where nothing tells.
    """

    index: int
    uuid: str | None
    memory_mib: int
    healthy: bool
    island: int = 0


@dataclass(frozen=True, slots=True)
class InventorySettings:
    """How nodes are read.

    `device_resources` in order of preference; `shares_by_default` for machines without the label
    `tangram.scheduler/shares`; `reserve_mib` of each device is never given away; `catalogue` maps product names to MiB,
    beside ours and before it; `levels` are label keys or names of presets, broad to narrow. Raises CatalogueError,
    LevelError or ValueError when made of something else.
    """

    device_resources: tuple[str, ...] = DEFAULT_DEVICE_RESOURCES
    shares_by_default: bool = False
    reserve_mib: int = 0
    catalogue: Mapping[str, int] = field(default_factory=dict)
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.reserve_mib < 0:
            raise ValueError(f"reserve_mib must not be negative, it is {self.reserve_mib}")
        for name in self.device_resources:
            if mig.is_mig_resource(name):
                raise ValueError(f"{name} cannot be a device resource: MIG instances are counted as what they are")
        object.__setattr__(self, "device_resources", tuple(dict.fromkeys(self.device_resources)))
        object.__setattr__(self, "catalogue", catalogue.checked(self.catalogue))
        object.__setattr__(self, "levels", domains.resolve_levels(self.levels))


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """What one node offers.

    `device_resource` is the one configured resource whose devices are modelled, the first that the node has. `devices`
    is empty on virtual nodes and where the resource counts time slices or MIG instances: there it is only a number in
    `facts.allocatable`, as every other resource is. `domains` has a value for each configured level.
    """

    facts: NodeFacts
    kind: NodeKind
    virtual: bool
    cluster: str
    device_resource: str | None
    product: str | None
    devices: tuple[Device, ...]
    shares: ShareSupport
    domains: tuple[str | None, ...]
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.facts.name


def describe(facts: NodeFacts, settings: InventorySettings) -> NodeInventory:
    """The inventory of a node. Never raises: what cannot be believed is ignored and told in `warnings`."""
    kind = kind_of(facts)
    warnings: list[str] = []
    if kind is NodeKind.VCLUSTER_FAKE:
        facts = _without_devices(facts, settings.device_resources, warnings)
    resource = _device_resource(facts, settings.device_resources, warnings)
    told = labels.read(facts.labels, resource or next(iter(settings.device_resources), ""))
    warnings.extend(told.warnings)
    _check_mig(facts, warnings)
    shares = _share_support(facts, kind, resource, told, settings, warnings)
    modelled = shares in (ShareSupport.YES, ShareSupport.NO_AGENT)
    return NodeInventory(
        facts=facts,
        kind=kind,
        virtual=kind.virtual,
        cluster=cluster_identity(facts, kind),
        device_resource=resource,
        product=told.product,
        devices=_devices(facts, resource, told, settings, warnings) if resource and modelled else (),
        shares=shares,
        domains=domains.domain_values(facts.labels, settings.levels),
        warnings=tuple(warnings),
    )


def _without_devices(facts: NodeFacts, resources: Sequence[str], warnings: list[str]) -> NodeFacts:
    """A fake node of a vCluster has invented numbers; devices among them must not draw pods."""
    found = [name for name in resources if _rows(facts, name)]
    if not found:
        return facts
    warnings.append(f"a fake node of a vCluster has no devices, its {', '.join(found)} is ignored")

    def others(amounts: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in amounts.items() if name not in found}

    return replace(facts, capacity=others(facts.capacity), allocatable=others(facts.allocatable))


def _rows(facts: NodeFacts, resource: str) -> int:
    return max(facts.capacity.get(resource, 0), facts.allocatable.get(resource, 0))


def _device_resource(facts: NodeFacts, resources: Sequence[str], warnings: list[str]) -> str | None:
    found = [resource for resource in resources if _rows(facts, resource) > 0]
    if len(found) > 1:
        others = ", ".join(found[1:])
        warnings.append(f"devices of {found[0]} are modelled one by one, those of {others} only counted")
    return found[0] if found else None


def _check_mig(facts: NodeFacts, warnings: list[str]) -> None:
    for name in mig.instances(facts.allocatable):
        if mig.profile_of(name) is None:
            warnings.append(f"{name} is not a MIG profile we know how to read; it is only counted")


def _share_support(
    facts: NodeFacts,
    kind: NodeKind,
    resource: str | None,
    told: DeviceLabels,
    settings: InventorySettings,
    warnings: list[str],
) -> ShareSupport:
    if kind.virtual:
        return ShareSupport.VIRTUAL
    if resource is None:
        return _no_devices(facts, settings.device_resources)
    if told.partitioned:
        return ShareSupport.MIG
    rows = _rows(facts, resource)
    replicas = told.shared
    if told.count is not None and rows > told.count * told.replicas:
        # Intel's plugin has no label for its replicas, so more devices than cards is how they show
        replicas = replicas or resource.startswith("gpu.intel.com/")
        if not replicas:
            warnings.append(f"{resource} is {rows}, but labels tell of {told.count} devices; {rows} are believed")
    if rows > MAX_DEVICES and not replicas:
        warnings.append(f"{resource} is {rows}: more than {MAX_DEVICES} devices of one node are only counted")
        replicas = True
    if replicas:
        return ShareSupport.REPLICAS
    return ShareSupport.YES if _agent(facts, settings, warnings) else ShareSupport.NO_AGENT


def _no_devices(facts: NodeFacts, resources: Sequence[str]) -> ShareSupport:
    if mig.instances(facts.allocatable):
        return ShareSupport.MIG
    if any(_rows(facts, resource + _SHARED_SUFFIX) for resource in resources):
        return ShareSupport.REPLICAS
    return ShareSupport.NO_DEVICES


def _agent(facts: NodeFacts, settings: InventorySettings, warnings: list[str]) -> bool:
    """Whether something on the node honours the devices that we choose for a share."""
    word = facts.labels.get(NODE_SHARES, "")
    if word in ("true", "false"):
        return word == "true"
    if word:
        warnings.append(f'label {NODE_SHARES}: {word!r} is neither "true" nor "false"; it is ignored')
    return settings.shares_by_default


def _devices(
    facts: NodeFacts, resource: str, told: DeviceLabels, settings: InventorySettings, warnings: list[str]
) -> tuple[Device, ...]:
    rows, healthy = _rows(facts, resource), facts.allocatable.get(resource, 0)
    memory = _usable_memory_mib(resource, told, settings, warnings)
    uuids = _uuids(facts, rows, warnings)
    near = islands(facts.annotations, rows, warnings)
    return tuple(Device(index, uuids[index], memory, index < healthy, near[index]) for index in range(rows))


def _usable_memory_mib(resource: str, told: DeviceLabels, settings: InventorySettings, warnings: list[str]) -> int:
    known = catalogue.memory_mib(told.product, settings.catalogue) if told.product else None
    total = told.memory_mib or known
    if told.memory_mib and known and 0 < told.memory_mib - known <= told.rounding_mib:
        total = known
    if total is None:
        product = told.product or "unknown product"
        warnings.append(f"the memory of a device of {resource} ({product}) is unknown: no label, no catalogue entry")
        return 0
    if settings.reserve_mib >= total:
        warnings.append(f"the reserve of {settings.reserve_mib} MiB is all of a device's {total} MiB; not subtracted")
        return total
    return total - settings.reserve_mib


def _uuids(facts: NodeFacts, rows: int, warnings: list[str]) -> Sequence[str | None]:
    unknown = [None] * rows
    text = facts.annotations.get(NODE_GPU_UUIDS, "")
    if not text:
        return unknown
    found = [uuid.strip() for uuid in text.split(",")]
    bad = next((uuid for uuid in found if not _is_uuid(uuid)), None)
    if bad is not None:
        problem = f"{bad[:64]!r} is no device UUID"
    elif len(set(found)) != len(found):
        problem = "a UUID stands twice"
    elif len(found) != rows:
        problem = f"{len(found)} UUIDs for {rows} devices"
    else:
        return found
    warnings.append(f"annotation {NODE_GPU_UUIDS}: {problem}; it is ignored")
    return unknown


def _is_uuid(text: str) -> bool:
    # Digits alone would be taken for an index.
    return bool(_UUID.fullmatch(text)) and not text.isdigit() and text.lower() not in _NO_UUIDS
