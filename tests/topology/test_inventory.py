"""Machines with devices: what labels, annotations and numbers become, and that nothing in them makes us fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.catalogue import CatalogueError
from topology.domains import LevelError
from topology.inventory import MAX_DEVICES, InventorySettings, NodeInventory, ShareSupport, describe
from topology.node import NodeFacts, Taint

GPU = "nvidia.com/gpu"
H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "single",
}
SHARES = {"tangram.scheduler/shares": "true"}
PLAIN = InventorySettings()
NOTHING: Mapping[str, int] = {}


def machine(
    labels: dict[str, str] | None = None,
    devices: int = 8,
    resource: str = GPU,
    uuids: str | None = None,
    others: Mapping[str, int] = NOTHING,
) -> NodeFacts:
    return NodeFacts(
        name="n1",
        labels=H100 if labels is None else labels,
        annotations={} if uuids is None else {"tangram.scheduler/node-gpu-uuids": uuids},
        capacity={"cpu": 64000, resource: devices, **others},
        allocatable={"cpu": 64000, resource: devices, **others},
    )


def memory_of(node: NodeInventory) -> int:
    (memory,) = {device.memory_mib for device in node.devices}
    return memory


def test_a_plain_machine() -> None:
    node = describe(machine(), PLAIN)
    assert node.name == "n1"
    assert node.device_resource == GPU
    assert node.product == "H100-80GB-HBM3"
    assert [device.index for device in node.devices] == list(range(8))
    assert memory_of(node) == 81559
    assert all(device.healthy and device.uuid is None for device in node.devices)
    assert node.shares is ShareSupport.NO_AGENT
    assert node.warnings == ()
    assert not node.virtual


def test_a_machine_without_devices() -> None:
    node = describe(machine({}, devices=0), PLAIN)
    assert node.device_resource is None
    assert node.devices == ()
    assert node.shares is ShareSupport.NO_DEVICES
    assert node.warnings == ()


@pytest.mark.parametrize(
    ("label", "by_default", "shares", "warned"),
    [
        (None, False, ShareSupport.NO_AGENT, False),
        (None, True, ShareSupport.YES, False),
        ("true", False, ShareSupport.YES, False),
        ("false", True, ShareSupport.NO_AGENT, False),
        ("yes", False, ShareSupport.NO_AGENT, True),
        ("True", True, ShareSupport.YES, True),
    ],
)
def test_shares_on_machines(label: str | None, by_default: bool, shares: ShareSupport, warned: bool) -> None:
    labels = H100 | ({} if label is None else {"tangram.scheduler/shares": label})
    node = describe(machine(labels), InventorySettings(shares_by_default=by_default))
    assert node.shares is shares
    assert any("tangram.scheduler/shares" in warning for warning in node.warnings) is warned


# -- memory ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("labels", "resource", "product", "mib"),
    [
        # the label wins over the catalogue
        ({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15109"}, GPU, "T4", 15109),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, GPU, "T4", 15360),
        ({"nvidia.com/gpu.memory": "100"}, GPU, None, 100),
        # GKE's own plugin knows no feature discovery
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, GPU, "T4", 15360),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}, GPU, "H100-MEGA-80GB", 81559),
        (
            {"cloud.google.com/gke-accelerator": "nvidia-l4", "nvidia.com/gpu.product": "NVIDIA-L40S"},
            GPU,
            "L40S",
            46068,
        ),
        # AMD rounds to whole GiB; a known product says what is really there
        (
            {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"},
            "amd.com/gpu",
            "MI300X-OAM",
            196592,
        ),
        (
            {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "96G"},
            "amd.com/gpu",
            "MI300X-OAM",
            98304,
        ),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI210"}, "amd.com/gpu", "MI210", 65520),
        ({"beta.amd.com/gpu.vram": "64G"}, "amd.com/gpu", None, 65536),
        # Intel's memory is the sum over the cards of the node
        ({"gpu.intel.com/product": "Max_1550"}, "gpu.intel.com/i915", "MAX-1550", 131072),
        (
            {"gpu.intel.com/memory.max": str(32 << 30), "gpu.intel.com/device.count": "2"},
            "gpu.intel.com/xe",
            None,
            16384,
        ),
        (
            {"gpu.intel.com/memory.max": str(32 << 30), "gpu.intel.com/millicores": "2000"},
            "gpu.intel.com/i915",
            None,
            16384,
        ),
        # a maker we do not know, with NVIDIA's names
        ({"example.com/gpu.product": "X1", "example.com/gpu.memory": "4096"}, "example.com/gpu", "X1", 4096),
    ],
)
def test_product_and_memory(labels: dict[str, str], resource: str, product: str | None, mib: int) -> None:
    settings = InventorySettings(device_resources=(GPU, "amd.com/gpu", resource))
    node = describe(machine(labels, devices=2, resource=resource), settings)
    assert node.device_resource == resource
    assert node.product == product
    assert memory_of(node) == mib
    assert node.warnings == ()


def test_unknown_memory_is_zero_and_told() -> None:
    node = describe(machine({"nvidia.com/gpu.product": "NVIDIA-GB10"}, devices=1), PLAIN)
    assert memory_of(node) == 0
    assert any("GB10" in warning for warning in node.warnings)
    known = describe(node.facts, InventorySettings(catalogue={"gb10": 119000}))
    assert memory_of(known) == 119000
    assert known.warnings == ()


def test_intel_memory_is_unknown_without_a_number_of_cards() -> None:
    labels = {"gpu.intel.com/memory.max": str(32 << 30)}
    assert memory_of(describe(machine(labels, devices=2, resource="gpu.intel.com/i915"), PLAIN)) == 0


def test_the_reserve_is_never_given_away() -> None:
    node = describe(machine(), InventorySettings(reserve_mib=2447))
    assert memory_of(node) == 79112
    unknown = describe(machine({}), InventorySettings(reserve_mib=2447))
    assert memory_of(unknown) == 0


def test_a_reserve_that_leaves_nothing_is_told() -> None:
    node = describe(machine(H100 | {"nvidia.com/gpu.memory": "100"}), InventorySettings(reserve_mib=512))
    assert memory_of(node) == 100
    assert any("512 MiB" in warning for warning in node.warnings)


# -- health and order ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("capacity", "allocatable", "healthy"),
    [(8, 8, 8), (8, 6, 6), (8, 0, 0), (4, 8, 8)],
)
def test_what_is_not_allocatable_is_unhealthy(capacity: int, allocatable: int, healthy: int) -> None:
    facts = replace(machine(), capacity={GPU: capacity}, allocatable={GPU: allocatable})
    node = describe(facts, PLAIN)
    assert len(node.devices) == max(capacity, allocatable)
    assert [device.healthy for device in node.devices] == [index < healthy for index in range(len(node.devices))]
    assert node.device_resource == GPU


def test_the_first_configured_resource_is_modelled_and_the_others_counted() -> None:
    facts = machine(H100 | {"amd.com/gpu.vram": "64G"}, others={"amd.com/gpu": 2})
    node = describe(facts, PLAIN)
    assert (node.device_resource, len(node.devices)) == (GPU, 8)
    assert any("amd.com/gpu" in warning for warning in node.warnings)
    turned = describe(facts, InventorySettings(device_resources=("amd.com/gpu", GPU)))
    assert (turned.device_resource, len(turned.devices), memory_of(turned)) == ("amd.com/gpu", 2, 65536)
    assert describe(facts, InventorySettings(device_resources=())).device_resource is None


# -- UUIDs -----------------------------------------------------------------------------------------------------
def test_uuids_come_by_index() -> None:
    node = describe(machine(devices=2, uuids="GPU-aaaaaaaa-0000-4000-8000-000000000000, GPU-b"), PLAIN)
    assert [device.uuid for device in node.devices] == ["GPU-aaaaaaaa-0000-4000-8000-000000000000", "GPU-b"]
    assert node.warnings == ()


@pytest.mark.parametrize(
    ("uuids", "why"),
    [
        ("GPU-a", "1 UUIDs for 2 devices"),
        ("GPU-a,GPU-b,GPU-c", "3 UUIDs for 2 devices"),
        ("GPU-a,GPU-a", "stands twice"),
        ("GPU-a,", "'' is no device UUID"),
        ("GPU-a;GPU-b", "no device UUID"),
        ("0,1", "'0' is no device UUID"),
        ("GPU-a,all", "'all' is no device UUID"),
        ("none,GPU-b", "'none' is no device UUID"),
        ("GPU a,GPU-b", "no device UUID"),
        ("GPU-a,$(id)", "no device UUID"),
    ],
)
def test_uuids_that_cannot_be_right_are_ignored(uuids: str, why: str) -> None:
    node = describe(machine(devices=2, uuids=uuids), PLAIN)
    assert [device.uuid for device in node.devices] == [None, None]
    assert any(why in warning for warning in node.warnings)


# -- where the resource is only a number -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("labels", "shares"),
    [
        ({"nvidia.com/gpu.replicas": "4"}, ShareSupport.REPLICAS),
        ({"nvidia.com/gpu.sharing-strategy": "time-slicing"}, ShareSupport.REPLICAS),
        ({"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}, ShareSupport.REPLICAS),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}, ShareSupport.REPLICAS),
        ({"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}, ShareSupport.REPLICAS),
        ({"cloud.google.com/gke-max-shared-clients-per-gpu": "3"}, ShareSupport.REPLICAS),
        ({"nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-1g.5gb"}, ShareSupport.MIG),
        ({"nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-1g.5gb-SHARED"}, ShareSupport.MIG),
        ({"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}, ShareSupport.MIG),
    ],
)
def test_replicas_and_instances_are_only_counted(labels: dict[str, str], shares: ShareSupport) -> None:
    node = describe(machine(H100 | SHARES | labels), PLAIN)
    assert node.devices == ()
    assert node.shares is shares
    assert node.device_resource == GPU
    assert node.facts.allocatable[GPU] == 8


def test_mig_single_strategy_without_instances_is_a_plain_machine() -> None:
    node = describe(machine(H100 | SHARES | {"nvidia.com/mig.config": "all-disabled"}), PLAIN)
    assert node.shares is ShareSupport.YES
    assert len(node.devices) == 8


def test_mig_mixed_strategy_keeps_the_whole_devices() -> None:
    labels = H100 | SHARES | {"nvidia.com/mig.strategy": "mixed"}
    node = describe(
        machine(labels, devices=6, others={"nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-3g.40gb": 2}), PLAIN
    )
    assert len(node.devices) == 6
    assert node.shares is ShareSupport.YES
    assert node.facts.allocatable["nvidia.com/mig-1g.10gb"] == 7
    assert node.warnings == ()


def test_mig_on_every_device_leaves_only_instances() -> None:
    node = describe(machine(H100 | SHARES, devices=0, others={"nvidia.com/mig-1g.10gb": 56}), PLAIN)
    assert node.device_resource is None
    assert node.shares is ShareSupport.MIG
    assert node.product == "H100-80GB-HBM3"


def test_an_unreadable_mig_resource_is_counted_and_told() -> None:
    node = describe(machine(others={"nvidia.com/mig-big": 1}), PLAIN)
    assert node.facts.allocatable["nvidia.com/mig-big"] == 1
    assert any("nvidia.com/mig-big" in warning for warning in node.warnings)


def test_renamed_replicas_are_no_devices() -> None:
    node = describe(
        machine(H100 | {"nvidia.com/gpu.replicas": "4"}, devices=0, others={"nvidia.com/gpu.shared": 32}), PLAIN
    )
    assert node.device_resource is None
    assert node.shares is ShareSupport.REPLICAS


def test_amd_partitions_are_only_counted() -> None:
    labels = {"amd.com/gpu.vram": "192G", "amd.com/compute-memory-partition": "cpx_nps4"}
    node = describe(machine(labels, devices=64, resource="amd.com/gpu"), PLAIN)
    assert (node.devices, node.shares) == ((), ShareSupport.MIG)
    whole = describe(machine(labels | {"amd.com/compute-memory-partition": "spx_nps1"}, resource="amd.com/gpu"), PLAIN)
    assert len(whole.devices) == 8


def test_more_intel_devices_than_cards_are_replicas() -> None:
    labels = SHARES | {"gpu.intel.com/device.count": "2", "gpu.intel.com/product": "Flex_170"}
    assert describe(machine(labels, devices=2, resource="gpu.intel.com/i915"), PLAIN).shares is ShareSupport.YES
    shared = describe(machine(labels, devices=20, resource="gpu.intel.com/i915"), PLAIN)
    assert (shared.devices, shared.shares) == ((), ShareSupport.REPLICAS)


def test_an_absurd_number_of_devices_is_only_counted() -> None:
    most = describe(machine(H100 | {"nvidia.com/gpu.count": str(MAX_DEVICES)}, devices=MAX_DEVICES), PLAIN)
    assert len(most.devices) == MAX_DEVICES
    node = describe(machine(H100 | SHARES, devices=10**9), PLAIN)
    assert (node.devices, node.shares) == ((), ShareSupport.REPLICAS)
    assert any(str(10**9) in warning for warning in node.warnings)


# -- what cannot be believed -----------------------------------------------------------------------------------
def test_fewer_devices_on_the_label_than_in_the_resource() -> None:
    node = describe(machine(H100 | {"nvidia.com/gpu.count": "4"}), PLAIN)
    assert len(node.devices) == 8
    assert any("labels tell of 4 devices" in warning for warning in node.warnings)
    # MIG took two away, or the plugin is slow: fewer in the resource is normal
    assert describe(machine(devices=6), PLAIN).warnings == ()
    # replicas multiply what the label counts
    assert describe(machine(H100 | {"nvidia.com/gpu.replicas": "4"}, devices=32), PLAIN).warnings == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nvidia.com/gpu.memory", "640GB"),
        ("nvidia.com/gpu.memory", "80Gi"),
        ("nvidia.com/gpu.memory", "-1"),
        ("nvidia.com/gpu.memory", "85520809984"),
        ("nvidia.com/gpu.memory", "9" * 60),
        ("nvidia.com/gpu.memory", "٣"),
        ("nvidia.com/gpu.count", "eight"),
        ("nvidia.com/gpu.replicas", "2.0"),
        ("cloud.google.com/gke-max-shared-clients-per-gpu", "many"),
    ],
)
def test_malformed_labels_are_told_and_ignored(key: str, value: str) -> None:
    node = describe(machine(H100 | {key: value}), PLAIN)
    assert memory_of(node) == 81559
    assert len(node.devices) == 8
    (warning,) = node.warnings
    assert key in warning
    assert repr(value) in warning


@pytest.mark.parametrize("value", ["", "0"])
def test_a_label_without_memory_is_silence_and_not_a_mistake(value: str) -> None:
    node = describe(machine(H100 | {"nvidia.com/gpu.memory": value}), PLAIN)
    assert memory_of(node) == 81559
    assert node.warnings == ()


@given(
    labels=st.dictionaries(
        st.sampled_from(
            [
                *H100,
                *SHARES,
                "cloud.google.com/gke-accelerator",
                "cloud.google.com/gke-gpu-partition-size",
                "amd.com/gpu.vram",
                "amd.com/compute-memory-partition",
                "gpu.intel.com/memory.max",
                "gpu.intel.com/device.count",
                "gpu.intel.com/millicores",
                "liqo.io/type",
                "type",
                "vcluster.loft.sh/fake-node",
                "nvidia.com/gpu.clique",
            ]
        ),
        st.one_of(
            st.text(max_size=20), st.integers(-5, 10**9).map(str), st.sampled_from(["true", "virtual-node", "4G"])
        ),
    ),
    resource=st.sampled_from(
        [GPU, "amd.com/gpu", "gpu.intel.com/i915", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"]
    ),
    capacity=st.integers(0, 1 << 63),
    allocatable=st.integers(0, 1 << 63),
    uuids=st.text(max_size=30),
    islands=st.text(max_size=30),
    taint=st.text(max_size=10),
    reserve=st.integers(0, 1 << 20),
)
def test_no_node_makes_us_fail(
    labels: dict[str, str],
    resource: str,
    capacity: int,
    allocatable: int,
    uuids: str,
    islands: str,
    taint: str,
    reserve: int,
) -> None:
    facts = NodeFacts(
        name="n1",
        labels=labels,
        annotations={
            "tangram.scheduler/node-gpu-uuids": uuids,
            "tangram.scheduler/node-gpu-islands": islands,
            "hami.io/node-nvidia-register": "[" + islands,
        },
        taints=(Taint(taint, "", "NoSchedule"),),
        capacity={resource: capacity},
        allocatable={resource: allocatable},
    )
    settings = InventorySettings(reserve_mib=reserve, levels=("nvlink",))
    node = describe(facts, settings)
    assert describe(facts, settings) == node
    assert len(node.domains) == len(settings.levels)
    assert len(node.devices) in (0, max(capacity, allocatable))
    assert bool(node.devices) == (node.shares in (ShareSupport.YES, ShareSupport.NO_AGENT))
    assert sum(device.healthy for device in node.devices) == (allocatable if node.devices else 0)
    assert all(device.memory_mib >= 0 for device in node.devices)
    assert node.virtual == (node.shares is ShareSupport.VIRTUAL)


# -- settings --------------------------------------------------------------------------------------------------
def test_domains_follow_the_configured_levels() -> None:
    labels = H100 | {"topology.kubernetes.io/zone": "z1", "kubernetes.io/hostname": "n1"}
    node = describe(machine(labels), InventorySettings(levels=("generic",)))
    assert node.domains == (None, "z1", "n1")
    assert describe(machine(labels), PLAIN).domains == ()


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="reserve_mib must not be negative"):
        InventorySettings(reserve_mib=-1)
    with pytest.raises(ValueError, match="MIG instances are counted"):
        InventorySettings(device_resources=(GPU, "nvidia.com/mig-1g.5gb"))
    assert InventorySettings(device_resources=(GPU, "amd.com/gpu", GPU)).device_resources == (GPU, "amd.com/gpu")
    with pytest.raises(CatalogueError, match="positive number of MiB"):
        InventorySettings(catalogue={"T4": 0})
    with pytest.raises(LevelError, match="stands twice"):
        InventorySettings(levels=("rack", "rack"))
