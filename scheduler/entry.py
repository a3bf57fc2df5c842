"""What one pod holds, and whether a node bears it."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.allocation import FULL_MILLI, Allocation, DeviceShare
from scheduler.kernels.arrays import NodeArrays
from scheduler.placement import share_of_device
from scheduler.request import Demand, Request
from scheduler.state import ClusterState

Devices = tuple[DeviceShare, ...]


@dataclass(slots=True)
class Entry:
    """What one pod holds.

    `allocation` is what was planned, or what the API says. A bound pod with whole devices that nobody wrote down holds
    some all the same: `guessed` is where we suppose them, `missing_devices` those that we find no device for.
    """

    uid: str
    node: str
    request: Request
    allocation: Allocation
    bound: bool
    deadline_ms: int | None
    guessed: Devices = ()
    missing_devices: int = 0

    @property
    def devices(self) -> Devices:
        """All devices that the state counts for the pod."""
        return self.allocation.devices + self.guessed

    @property
    def unwritten(self) -> int:
        """Whole devices that the pod has and that `allocation` does not name."""
        if self.request.demand is not Demand.WHOLE:
            return 0
        return max(self.request.device_count - len(self.allocation.devices), 0)


def models(state: ClusterState, slot: int, request: Request) -> bool:
    """Whether the node models, row by row, the whole devices that the request asks for."""
    nodes = state.arrays
    return bool(
        request.demand is Demand.WHOLE
        and nodes.device_count[slot] > 0
        and nodes.device_column[slot] == state.ask(request).device_column
    )


def problem(state: ClusterState, slot: int, request: Request, devices: Devices) -> str | None:
    """What keeps the request from taking exactly these devices of the node now, None when nothing does."""
    ask = state.ask(request)
    nodes = state.arrays
    if (nodes.free[slot, ask.columns] < ask.amounts).any():
        return "too little of a resource"
    if request.demand is Demand.SHARE and not nodes.shares[slot]:
        return "the node takes no shares"
    by_rows = request.demand is Demand.SHARE or models(state, slot, request)
    wanted = request.device_count if by_rows else 0
    if len(devices) != wanted or len({share.index for share in devices}) != wanted:
        return f"{wanted} different devices are needed, not {len(devices)}"
    rows = _Rows(nodes, slot)
    for share in devices:
        found = _device_problem(rows, request, share)
        if found is not None:
            return f"device {share.index} {found}"
    opened = sum(rows.holders[share.index] == 0 for share in devices)
    if opened > nodes.openable[slot]:
        return "the node's count of devices leaves fewer untouched ones"
    return None


class _Rows:
    """The devices of one node, out of the arrays: one by one that takes longer."""

    __slots__ = ("count", "healthy", "holders", "room_mib", "room_milli", "total_mib")

    def __init__(self, nodes: NodeArrays, slot: int) -> None:
        self.count = int(nodes.device_count[slot])
        self.healthy: list[bool] = nodes.device_healthy[slot].tolist()
        self.holders: list[int] = nodes.device_holders[slot].tolist()
        self.total_mib: list[int] = nodes.device_total_mib[slot].tolist()
        self.room_milli: list[int] = nodes.device_room_milli[slot].tolist()
        self.room_mib: list[int] = nodes.device_room_mib[slot].tolist()


def _device_problem(rows: _Rows, request: Request, share: DeviceShare) -> str | None:
    row = share.index
    if row >= rows.count or not rows.healthy[row]:
        return "is not there or not healthy"
    total_mib = rows.total_mib[row]
    if (share.milli, share.memory_mib) != share_of_device(request, total_mib):
        return "would give another part than the pod asks for"
    if request.demand is Demand.WHOLE:
        return "is in use" if rows.holders[row] else None
    if not share.milli and not total_mib:
        return "has memory of unknown size"
    fits = rows.room_milli[row] >= share.milli if share.milli else rows.room_mib[row] >= share.memory_mib
    return None if fits else "has too little left"


def borne(state: ClusterState, slot: int, entry: Entry) -> bool:
    """Whether the node bears what the entry holds: nothing came from outside that over-uses it.

    True of every booking when it is made; of a bound pod it says whether somebody else took what it has.
    """
    nodes = state.arrays
    if entry.missing_devices or (nodes.free[slot, state.ask(entry.request).columns] < 0).any():
        return False
    if entry.request.demand is Demand.SHARE and not nodes.shares[slot]:
        return False
    return all(_device_borne(state, slot, share) for share in entry.devices)


def _device_borne(state: ClusterState, slot: int, share: DeviceShare) -> bool:
    nodes, row = state.arrays, share.index
    if row >= nodes.device_count[slot] or not nodes.device_healthy[slot, row]:
        return False
    if nodes.device_free_milli[slot, row] < 0 or nodes.device_free_mib[slot, row] < 0:
        return False
    alone = nodes.device_holders[slot, row] == 1
    if share.milli >= FULL_MILLI:
        return bool(alone)
    # whoever opened a device alone is the one to go where the count no longer bears it
    return not alone or bool(nodes.shared[slot] <= nodes.free[slot, nodes.device_column[slot]])
