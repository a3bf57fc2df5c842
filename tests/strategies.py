"""Generated nodes, requests and holdings, small enough that everything collides with everything."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from scheduler.allocation import DeviceShare
from scheduler.policy import PlacementPolicy, Strategy
from scheduler.request import Demand, Request
from tests import naive
from topology.inventory import Device, NodeInventory, ShareSupport
from topology.node import NodeFacts
from topology.virtual import NodeKind

GPU = "nvidia.com/gpu"
OTHER_GPU = "amd.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
PLUGIN = "example.com/plugin"
NAMES = tuple(f"node-{letter}" for letter in "abcdefgh")


def inventory(
    name: str,
    *,
    cpu_milli: int = 8000,
    memory_bytes: int = 1 << 35,
    pods: int = 20,
    devices: Sequence[int] = (),
    unhealthy: int = 0,
    counted: int = 0,
    resource: str = GPU,
    shares: ShareSupport | None = None,
    virtual: bool = False,
    extended: dict[str, int] | None = None,
    islands: Sequence[int] = (),
) -> NodeInventory:
    """A node with `counted` devices, or modelled `devices`: MiB of each (0 unknown), the last `unhealthy` ones so."""
    count = len(devices) - unhealthy if devices else counted
    has = bool(devices) or counted > 0
    if shares is None:
        shares = ShareSupport.YES if devices else ShareSupport.REPLICAS if has else ShareSupport.NO_DEVICES
        shares = ShareSupport.VIRTUAL if virtual else shares
    amounts = {"cpu": cpu_milli, "memory": memory_bytes, "ephemeral-storage": 1 << 35, "pods": pods}
    amounts |= {resource: count} if has else {}
    amounts |= extended or {}
    return NodeInventory(
        facts=NodeFacts(name, allocatable=amounts, capacity=amounts),
        kind=NodeKind.VIRTUAL_KUBELET if virtual else NodeKind.REAL,
        virtual=virtual,
        cluster="",
        device_resource=resource if has else None,
        product=None,
        devices=tuple(
            Device(index, None, mib, index < len(devices) - unhealthy, islands[index] if islands else 0)
            for index, mib in enumerate(devices)
        ),
        shares=shares,
        domains=(),
    )


def cpu_only(cpu_milli: int = 1000, **extended: int) -> Request:
    """A pod without devices."""
    return Request(cpu_milli, 1 << 30, 0, tuple(sorted(extended.items())))


def whole(count: int, resource: str = GPU, cpu_milli: int = 100) -> Request:
    """A pod with whole devices."""
    return Request(cpu_milli, 0, 0, ((resource, count),), Demand.WHOLE, resource, count)


def fraction(milli: int, devices: int = 1, cpu_milli: int = 100) -> Request:
    """A share by fraction."""
    return Request(cpu_milli, 0, 0, (), Demand.SHARE, "", devices, share_milli=milli, container="main")


def memory(mib: int, devices: int = 1, cpu_milli: int = 100) -> Request:
    """A share by memory."""
    return Request(cpu_milli, 0, 0, (), Demand.SHARE, "", devices, share_memory_mib=mib, container="main")


@st.composite
def inventories(draw: st.DrawFn, name: str) -> NodeInventory:
    """A node of any kind: without devices, modelled, counted, virtual, with MIG instances."""
    kind = draw(st.sampled_from(["plain", "modelled", "modelled", "modelled", "counted", "virtual", "mig"]))
    cpu_milli = draw(st.sampled_from([0, 300, 1000, 4000]))
    pods = draw(st.sampled_from([1, 3, 20]))
    extended = draw(st.sampled_from([{}, {PLUGIN: 2}, {OTHER_GPU: 1}]))
    if kind == "modelled":
        sizes = draw(st.lists(st.sampled_from([0, 7, 100, 1001, 15360]), min_size=1, max_size=4))
        return inventory(
            name,
            cpu_milli=cpu_milli,
            pods=pods,
            devices=sizes,
            unhealthy=draw(st.integers(0, len(sizes))),
            resource=draw(st.sampled_from([GPU, GPU, OTHER_GPU])),
            shares=draw(st.sampled_from([ShareSupport.YES, ShareSupport.YES, ShareSupport.NO_AGENT])),
            extended={} if OTHER_GPU in extended else extended,
        )
    if kind == "mig":
        return inventory(name, cpu_milli=cpu_milli, pods=pods, shares=ShareSupport.MIG, extended={MIG: 3})
    return inventory(
        name,
        cpu_milli=cpu_milli,
        pods=pods,
        counted=0 if kind == "plain" else draw(st.integers(1, 6)),
        virtual=kind == "virtual",
        extended=extended,
    )


def requests() -> st.SearchStrategy[Request]:
    """A request of any form."""
    cpu = st.sampled_from([0, 100, 1000])
    count = st.integers(1, 4)
    return st.one_of(
        st.builds(Request, cpu, st.just(0), st.just(0)),
        st.builds(lambda milli, name: Request(milli, 1 << 30, 0, ((name, 1),)), cpu, st.sampled_from([MIG, PLUGIN])),
        st.builds(whole, count, st.sampled_from([GPU, GPU, OTHER_GPU]), cpu),
        st.builds(fraction, st.sampled_from([1, 100, 142, 333, 334, 500, 667, 999]), st.integers(1, 3), cpu),
        st.builds(memory, st.sampled_from([1, 3, 50, 500, 7000, 15360]), st.integers(1, 3), cpu),
    )


def policies() -> st.SearchStrategy[PlacementPolicy]:
    """Any mixture of packing and spreading."""
    strategy = st.sampled_from(Strategy)
    return st.builds(PlacementPolicy, strategy, strategy, strategy)


def device_shares() -> st.SearchStrategy[tuple[DeviceShare, ...]]:
    """Devices as an annotation of anybody's may name them."""
    share = st.builds(
        DeviceShare, st.integers(0, 5), st.sampled_from([0, 3, 50, 500]), st.sampled_from([0, 250, 500, 1000])
    )
    return st.lists(share, max_size=3, unique_by=lambda share: share.index).map(tuple)


@st.composite
def nodes(draw: st.DrawFn) -> list[naive.Node]:
    """Nodes with things held on them, over-use included."""
    names = draw(st.permutations(NAMES))[: draw(st.integers(1, 5))]
    found = [naive.Node(draw(inventories(name))) for name in names]
    held = st.tuples(requests(), device_shares())
    for node in found:
        node.held = draw(st.lists(held, max_size=4))
    return found
