"""What kernels are handed: the node arrays, one request, and the rules of the placement policy.

The dtypes here are the only ones that kernels ever see; another dtype or layout would make numba compile them again.
What kernels calculate with is int64: without the JIT, numpy would keep the sum of an int32 and a number an int32.
S is the number of node slots, R of resource columns, D of devices on the largest node.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

CPU: Final = 0
MEMORY: Final = 1
EPHEMERAL: Final = 2
PODS: Final = 3
FIRST_EXTENDED: Final = 4

NO_DEVICES: Final = 0
WHOLE: Final = 1
SHARE: Final = 2
"""Values of `Ask.demand`."""

KINDS: Final = 10
MOST_IN_KIND: Final = KINDS - 1


class NodeArrays(NamedTuple):
    """All nodes. A slot that holds no node is zero throughout, so no pod fits there."""

    free: NDArray[np.int64]
    """[S, R]: total less what pods ask; negative only by outside causes."""
    total: NDArray[np.int64]
    """[S, R]: allocatable."""
    rank: NDArray[np.int64]
    """[S]: the node's place in the order of names; breaks ties."""
    virtual: NDArray[np.bool_]
    """[S]"""
    shares: NDArray[np.bool_]
    """[S]: device shares are possible here, so devices are modelled and the node is not virtual."""
    accelerated: NDArray[np.bool_]
    """[S]: has devices or parts of devices, modelled or only counted."""
    device_column: NDArray[np.int32]
    """[S]: the column that counts the modelled devices, -1 where none are modelled."""
    device_count: NDArray[np.int32]
    """[S]: rows of the device arrays in use."""
    idle: NDArray[np.int64]
    """[S]: healthy devices that nobody holds."""
    shared: NDArray[np.int64]
    """[S]: devices that shares hold. kube-scheduler counts them as free."""
    openable: NDArray[np.int64]
    """[S]: untouched devices that may still be taken: no more than are idle, and no more than the count leaves.

    Devices under shares look free to kube-scheduler, and whole devices may be in use that we cannot place on a row;
    both together must stay within what is allocatable.
    """
    device_total_mib: NDArray[np.int64]
    """[S, D]: usable memory, 0 where unknown."""
    device_free_mib: NDArray[np.int64]
    """[S, D]"""
    device_free_milli: NDArray[np.int32]
    """[S, D]"""
    device_room_milli: NDArray[np.int64]
    """[S, D]: the largest fraction that still fits, by compute and by memory; 0 on an unhealthy device."""
    device_room_mib: NDArray[np.int64]
    """[S, D]: the largest amount of memory that still fits; 0 on an unhealthy device and where memory is unknown."""
    device_holders: NDArray[np.int32]
    """[S, D]: pods that hold something of the device."""
    device_sharers: NDArray[np.int32]
    """[S, D]: those of them that hold less than all of it."""
    device_healthy: NDArray[np.bool_]
    """[S, D]"""
    device_island: NDArray[np.int32]
    """[S, D]: devices of a node with one number are near one another; all 0 where nothing tells."""
    model: NDArray[np.int32]
    """[S]: the number of the model of its devices (`ClusterState.models`); 0 where none are modelled."""
    pool: NDArray[np.int64]
    """[S]: the pool of nodes that it belongs to, as the policy numbers them; nodes of a lower number come first."""
    hosted: NDArray[np.int32]
    """[S, KINDS]: pods that hold devices, by kind: shares, one whole device, two, ... See `kind_of`."""


class Ask(NamedTuple):
    """One request. `columns` and `amounts` list only what is asked for, so all amounts are positive."""

    columns: NDArray[np.int64]
    """[k]: indices into the columns of `NodeArrays.free`."""
    amounts: NDArray[np.int64]
    """[k]"""
    demand: int
    """NO_DEVICES, WHOLE or SHARE."""
    devices: int
    """How many: whole ones, or different ones for a share."""
    milli: int
    """SHARE by fraction, per device; 0 for a share by memory."""
    mib: int
    """SHARE by memory, per device; 0 for a share by fraction."""
    device_column: int
    """WHOLE: the column of the device resource; else -1."""
    pack_column: int
    """The column whose free amount orders the nodes: the device resource, a MIG resource, else CPU."""
    cpu_milli: int
    memory_bytes: int


class Rules(NamedTuple):
    """The placement policy: 0 packs tightly, 1 spreads."""

    cpu_spread: int
    """Nodes, for pods without devices."""
    gpu_spread: int
    """Nodes, for pods with devices."""
    device_spread: int
    """Devices of a node, for shares."""


def kind_of(demand: int, devices: int) -> int:
    """The kind of a pod that holds devices: 0 for a share, else how many whole ones, at most MOST_IN_KIND."""
    return 0 if demand == SHARE else min(devices, MOST_IN_KIND)


def blank(slots: int, columns: int, devices: int) -> NodeArrays:
    """Arrays of S × R and S × D without any node."""
    return NodeArrays(
        free=np.zeros((slots, columns), np.int64),
        total=np.zeros((slots, columns), np.int64),
        rank=np.zeros(slots, np.int64),
        virtual=np.zeros(slots, np.bool_),
        shares=np.zeros(slots, np.bool_),
        accelerated=np.zeros(slots, np.bool_),
        device_column=np.full(slots, -1, np.int32),
        device_count=np.zeros(slots, np.int32),
        idle=np.zeros(slots, np.int64),
        shared=np.zeros(slots, np.int64),
        openable=np.zeros(slots, np.int64),
        device_total_mib=np.zeros((slots, devices), np.int64),
        device_free_mib=np.zeros((slots, devices), np.int64),
        device_free_milli=np.zeros((slots, devices), np.int32),
        device_room_milli=np.zeros((slots, devices), np.int64),
        device_room_mib=np.zeros((slots, devices), np.int64),
        device_holders=np.zeros((slots, devices), np.int32),
        device_sharers=np.zeros((slots, devices), np.int32),
        device_healthy=np.zeros((slots, devices), np.bool_),
        device_island=np.zeros((slots, devices), np.int32),
        model=np.zeros(slots, np.int32),
        pool=np.zeros(slots, np.int64),
        hosted=np.zeros((slots, KINDS), np.int32),
    )


def grown(nodes: NodeArrays, slots: int, columns: int, devices: int) -> NodeArrays:
    """Larger arrays with the same content, and blank beyond it."""
    larger = blank(slots, columns, devices)
    for name in NodeArrays._fields:
        content = getattr(nodes, name)
        getattr(larger, name)[tuple(slice(size) for size in content.shape)] = content
    return larger


class Scratch(NamedTuple):
    """Buffers that kernels write into, made once and used again. Their content means nothing between calls."""

    fits: NDArray[np.bool_]
    """[S]: the node holds the request."""
    opened: NDArray[np.int64]
    """[S]: untouched devices that the request would take."""
    left: NDArray[np.int64]
    """[S]: milli or MiB that its devices have together: after packing, before otherwise (`sharing.weigh`)."""
    room: NDArray[np.int64]
    """[S]: milli that are free on all devices."""
    taken: NDArray[np.int64]
    """[S]: milli that the request takes."""
    cost: NDArray[np.int64]
    """[S]: what the policy says."""
    codes: NDArray[np.int64]
    """[S]: what rules the node out (scheduler.kernels.diagnose)."""
    numbers: NDArray[np.int64]
    """[S]: the number that goes with the code."""
    rows: NDArray[np.int64]
    """[D]: the devices chosen on the node looked at last, best first."""
    keys: NDArray[np.int64]
    """[D]: their sort keys."""


def scratch(slots: int, devices: int) -> Scratch:
    """Buffers for arrays of that size."""
    return Scratch(
        fits=np.zeros(slots, np.bool_),
        opened=np.zeros(slots, np.int64),
        left=np.zeros(slots, np.int64),
        room=np.zeros(slots, np.int64),
        taken=np.zeros(slots, np.int64),
        cost=np.zeros(slots, np.int64),
        codes=np.zeros(slots, np.int64),
        numbers=np.zeros(slots, np.int64),
        rows=np.zeros(devices, np.int64),
        keys=np.zeros(devices, np.int64),
    )
