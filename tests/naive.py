"""The search over nodes and devices once more, written to be obviously right: no arrays, no kept sums, brute force.

A node is its inventory and the list of what is held there. Everything is worked out from that, each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from scheduler.allocation import DeviceShare
from scheduler.policy import PlacementPolicy, Strategy
from scheduler.reason import Code
from scheduler.request import Demand, Request
from topology.inventory import Device, NodeInventory, ShareSupport

Held = tuple[Request, tuple[DeviceShare, ...]]


@dataclass
class Node:
    """A node and what pods hold on it."""

    inventory: NodeInventory
    held: list[Held] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inventory.name

    @property
    def devices(self) -> tuple[Device, ...]:
        return self.inventory.devices

    def total(self, resource: str) -> int:
        return self.inventory.facts.allocatable.get(resource, 0)

    def free(self, resource: str) -> int:
        return self.total(resource) - sum(asked(request).get(resource, 0) for request, _ in self.held)

    def holders(self, row: int) -> list[DeviceShare]:
        return [share for _, devices in self.held for share in devices if share.index == row]

    def free_milli(self, row: int) -> int:
        return 1000 - sum(share.milli for share in self.holders(row))

    def free_mib(self, row: int) -> int:
        size = self.devices[row].memory_mib
        return size - sum(mib_held(share, size) for share in self.holders(row))

    def untouched(self) -> list[int]:
        return [device.index for device in self.devices if device.healthy and not self.holders(device.index)]

    def shared(self) -> list[int]:
        return [
            device.index for device in self.devices if any(share.milli < 1000 for share in self.holders(device.index))
        ]

    def may_open(self) -> int:
        """Untouched devices that may be taken, by rows and by the count that kube-scheduler keeps."""
        if self.inventory.device_resource is None:
            return 0
        by_count = self.free(self.inventory.device_resource) - len(self.shared())
        return max(min(len(self.untouched()), by_count), 0)


def mib_held(share: DeviceShare, size: int) -> int:
    if share.milli == 1000 or not size:
        return size
    return share.memory_mib if share.memory_mib else share.milli * size // 1000


def asked(request: Request) -> dict[str, int]:
    """Everything that a pod takes of its node's counts."""
    return {
        "cpu": request.cpu_milli,
        "memory": request.memory_bytes,
        "ephemeral-storage": request.ephemeral_bytes,
        "pods": 1,
        **dict(request.extended),
    }


def short_resources(node: Node, request: Request) -> list[str]:
    return [name for name, amount in asked(request).items() if amount > 0 and node.free(name) < amount]


def by_rows(node: Node, request: Request) -> bool:
    """Whether whole devices come from modelled rows."""
    return bool(node.devices) and node.inventory.device_resource == request.device_resource


def share_left(node: Node, request: Request, row: int) -> int | None:
    """What is left on the device after the share, in milli or MiB as asked; None when it does not fit."""
    device = node.devices[row]
    if not device.healthy:
        return None
    if request.share_milli:
        free_milli, free_mib = node.free_milli(row), node.free_mib(row)
        fitting = [milli for milli in range(1, free_milli + 1) if milli * device.memory_mib // 1000 <= free_mib]
        left = max(fitting, default=0) - request.share_milli
    else:
        if not device.memory_mib:
            return None
        left = node.free_mib(row) - request.share_memory_mib
    return left if left >= 0 else None


def share_choices(node: Node, request: Request) -> Iterator[dict[int, int]]:
    """Every set of different devices that may serve the share: row → what is left there."""
    if node.inventory.shares is not ShareSupport.YES or not node.devices:
        return
    left = {row: share_left(node, request, row) for row in range(len(node.devices))}
    fitting = [row for row, rest in left.items() if rest is not None]
    for rows in combinations(fitting, request.device_count):
        if sum(not node.holders(row) for row in rows) <= node.may_open():
            yield {row: rest for row in rows if (rest := left[row]) is not None}


def choose_share(node: Node, request: Request, strategy: Strategy) -> dict[int, int] | None:
    """The choice that the strategy takes."""
    in_use_first = strategy is Strategy.BINPACK or node.may_open() < request.device_count

    def keys(choice: dict[int, int]) -> list[tuple[bool, int, int]]:
        return sorted(
            (in_use_first and not node.holders(row), -rest if strategy is Strategy.SPREAD else rest, row)
            for row, rest in choice.items()
        )

    return min(share_choices(node, request), key=keys, default=None)


def rows_for(node: Node, request: Request, policy: PlacementPolicy) -> list[int] | None:
    """The devices that the request gets on the node, None when it does not fit."""
    if short_resources(node, request):
        return None
    if request.demand is Demand.SHARE:
        choice = choose_share(node, request, policy.device)
        return None if choice is None else sorted(choice)
    if request.demand is Demand.WHOLE and by_rows(node, request):
        if node.may_open() < request.device_count:
            return None
        return node.untouched()[: request.device_count]
    return []


def cost(node: Node, request: Request, policy: PlacementPolicy) -> tuple[int, ...]:
    """What the placement costs; lower is better. The request fits there."""
    if node.inventory.virtual:
        return (1,)
    spread = policy.gpu is Strategy.SPREAD
    if request.demand is Demand.SHARE:
        choice = choose_share(node, request, policy.device)
        assert choice is not None
        opened = sum(not node.holders(row) for row in choice)
        left = sum(choice.values())
        idle = len(node.untouched())
        return (0, -idle, -left) if spread else (0, opened, left, idle)
    if request.demand is Demand.WHOLE:
        idle = len(node.untouched()) if by_rows(node, request) else node.free(request.device_resource)
        return (0, -idle if spread else idle)
    mig = sorted(name for name, _ in request.extended if name.startswith("nvidia.com/mig-"))
    if mig:
        free = node.free(mig[0])
        return (0, -free if spread else free)
    free = max(node.free("cpu"), 0)
    return (0, has_devices(node), -free if policy.cpu is Strategy.SPREAD else free)


def has_devices(node: Node) -> bool:
    inventory = node.inventory
    return inventory.device_resource is not None or inventory.shares in (
        ShareSupport.MIG,
        ShareSupport.REPLICAS,
    )


def place(nodes: Sequence[Node], request: Request, policy: PlacementPolicy) -> tuple[str, list[int]] | None:
    """The best node and the devices there."""
    best: tuple[tuple[int, ...], str, list[int]] | None = None
    for node in nodes:
        rows = rows_for(node, request, policy)
        if rows is None:
            continue
        bid = (cost(node, request, policy), node.name, rows)
        if best is None or bid[:2] < best[:2]:
            best = bid
    return None if best is None else best[1:]


def lack(node: Node, request: Request) -> tuple[Code, int] | None:
    """The first thing that rules the node out, and what there is of it; None when the request fits."""
    share_code = Code.INSUFFICIENT_GPU_SHARE if request.share_milli else Code.INSUFFICIENT_GPU_MEMORY
    if request.demand is Demand.WHOLE and node.total(request.device_resource) == 0:
        return Code.INSUFFICIENT_WHOLE_GPUS, 0
    if request.demand is Demand.SHARE:
        if node.inventory.virtual:
            return Code.VIRTUAL_NODE_SHARES, 0
        if not has_devices(node):
            return share_code, 0
        if node.inventory.shares is not ShareSupport.YES:
            return Code.SHARES_NOT_SUPPORTED, 0
    short = short_resources(node, request)
    if short:
        return _short_resource(request, short[0]), max(node.free(short[0]), 0)
    if rows_for(node, request, PlacementPolicy()) is not None:
        return None
    if request.demand is Demand.WHOLE:
        return Code.INSUFFICIENT_WHOLE_GPUS, node.may_open()
    healthy = [device for device in node.devices if device.healthy]
    known = [device for device in healthy if device.memory_mib]
    if len(healthy) < request.device_count:
        return Code.NEED_DISTINCT_DEVICES, len(healthy)
    if request.share_milli == 0 and len(known) < request.device_count:
        return Code.UNKNOWN_CARD_MEMORY, len(known)
    return share_code, _most(node, request)


def _short_resource(request: Request, name: str) -> Code:
    if request.demand is Demand.WHOLE and name == request.device_resource:
        return Code.INSUFFICIENT_WHOLE_GPUS
    return {
        "cpu": Code.INSUFFICIENT_CPU,
        "memory": Code.INSUFFICIENT_MEMORY,
        "ephemeral-storage": Code.INSUFFICIENT_EPHEMERAL_STORAGE,
        "pods": Code.TOO_MANY_PODS,
    }.get(name, Code.INSUFFICIENT_RESOURCE)


def _most(node: Node, request: Request) -> int:
    """The largest share of that many devices that would fit."""
    sizes = (
        range(1, 1001)
        if request.share_milli
        else sorted({max(node.free_mib(row), 0) for row in range(len(node.devices))})
    )
    fitting = [0]
    for size in sizes:
        tried = Request(
            0,
            0,
            0,
            demand=Demand.SHARE,
            device_count=request.device_count,
            share_milli=size if request.share_milli else 0,
            share_memory_mib=0 if request.share_milli else size,
        )
        if size and next(share_choices(node, tried), None) is not None:
            fitting.append(size)
    return max(fitting)
