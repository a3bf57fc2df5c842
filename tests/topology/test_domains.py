"""Levels, presets, and what nodes have at each level."""

from __future__ import annotations

import pytest

from topology import domains
from topology.domains import HOSTNAME, NVLINK_CLIQUE, NVLINK_CLUSTER, PRESETS, LevelError

CLUSTER = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_are_valid_and_end_at_the_host(name: str) -> None:
    levels = domains.preset(name)
    assert levels[-1] == HOSTNAME
    assert domains.resolve_levels([name]) == levels
    assert domains.resolve_levels(levels) == levels


# A small cluster of each naming scheme: nodes that share the broad level and differ at the narrow one. The order of
# levels is right exactly when the first level groups more nodes than the next.
def test_aws_counts_from_the_broadest_layer() -> None:
    spine = {"topology.k8s.aws/network-node-layer-1": "nn-1", "topology.k8s.aws/network-node-layer-2": "nn-21"}
    one = {**spine, "topology.k8s.aws/network-node-layer-3": "nn-311"}
    two = {**spine, "topology.k8s.aws/network-node-layer-3": "nn-312"}
    levels = domains.preset("aws")
    assert domains.domain_values(one, levels)[:3] == ("nn-1", "nn-21", "nn-311")
    assert domains.domain_values(two, levels)[:3] == ("nn-1", "nn-21", "nn-312")
    assert domains.preset("aws-4")[3] == "topology.k8s.aws/network-node-layer-4"


def test_topograph_and_nebius_count_from_the_nearest_tier() -> None:
    labels = {f"fabric.topograph.run/tier-{tier}": f"switch-{tier}" for tier in (0, 1, 2)}
    assert domains.domain_values(labels, domains.preset("topograph"))[:3] == ("switch-2", "switch-1", "switch-0")
    labels = {f"topology.nebius.com/tier-{tier}": f"n{tier}" for tier in (0, 1, 2)}
    labels["topology.nebius.com/gpu-cluster-id"] = "computegpucluster-1"
    values = domains.domain_values(labels, domains.preset("nebius"))
    assert values[:4] == ("computegpucluster-1", "n2", "n1", "n0")


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("generic", ["region", "zone"]),
        ("gke", ["topology-block", "topology-subblock", "topology-host"]),
        ("oci", ["hpc_island_id", "rdma.network_block_id", "local_block_id", "rdma.host_id"]),
        ("oci-host", ["host.network_block_id", "host.rack_id"]),
        ("coreweave-ib", ["ib.coreweave.cloud/fabric", "superpod", "leafgroup"]),
        ("coreweave-ethernet", ["backend.coreweave.cloud/fabric", "leafgroup"]),
        ("topograph-accelerator", ["/domain", "/sub-domain"]),
        ("topograph-old", ["/core", "/spine", "/leaf"]),
        ("aws-ultraserver", ["capacity-block-id", "ultraserver-id"]),
        ("example", ["topology-block", "topology-rack"]),
    ],
)
def test_presets_run_from_broad_to_narrow(name: str, ends: list[str]) -> None:
    levels = domains.preset(name)[:-1]
    assert len(levels) == len(ends)
    assert all(level.endswith(end) for level, end in zip(levels, ends, strict=True))


@pytest.mark.parametrize("placeholder", ["no-imds-data", "not-available", "none", "None", "", " "])
def test_placeholders_mean_missing(placeholder: str) -> None:
    levels = domains.preset("oci")
    labels = dict.fromkeys(levels, placeholder) | {HOSTNAME: "n1"}
    assert domains.domain_values(labels, levels) == (None, None, None, None, "n1")


def test_a_missing_label_is_no_value() -> None:
    levels = ("rack", HOSTNAME)
    assert domains.domain_values({}, levels) == (None, None)
    assert domains.domain_values({"rack": "r1"}, levels) == ("r1", None)
    assert domains.domain_values({"rack": "r1"}, ()) == ()


def test_the_nvlink_rack_is_the_front_of_the_clique() -> None:
    levels = domains.preset("nvlink")
    labels = {NVLINK_CLIQUE: f"{CLUSTER}.32766", HOSTNAME: "n1"}
    assert levels == (NVLINK_CLUSTER, NVLINK_CLIQUE, HOSTNAME)
    assert domains.domain_values(labels, levels) == (CLUSTER, f"{CLUSTER}.32766", "n1")


@pytest.mark.parametrize("clique", ["", CLUSTER, ".1", f"{CLUSTER}.", "00000000-0000-0000-0000-000000000000.0"])
def test_a_clique_that_names_no_fabric_is_missing(clique: str) -> None:
    assert domains.domain_values({NVLINK_CLIQUE: clique}, (NVLINK_CLUSTER, NVLINK_CLIQUE)) == (None, None)


def test_presets_and_keys_can_be_mixed() -> None:
    assert domains.resolve_levels(["generic", "gke"]) == (*PRESETS["generic"][:-1], *PRESETS["gke"])
    assert domains.resolve_levels(["example.com/hall", "rack", HOSTNAME]) == ("example.com/hall", "rack", HOSTNAME)
    assert domains.resolve_levels(["coreweave-rack", HOSTNAME]) == PRESETS["coreweave-rack"]
    assert domains.resolve_levels([]) == ()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["rack", "rack"], "the level rack stands twice"),
        (["generic", "topology.kubernetes.io/zone"], "stands twice"),
        ([HOSTNAME, "rack"], "can only be the last level"),
        (["not a key"], "neither a label key nor a preset"),
        (["example.com/"], "neither a label key"),
        (["/rack"], "neither a label key"),
        (["Example.com/rack"], "neither a label key"),
        (["a/b/c"], "neither a label key"),
        (["x" * 64], "neither a label key"),
        ([""], "neither a label key"),
        ([f"level-{number}" for number in range(17)], "17 levels, 16 are allowed"),
    ],
)
def test_wrong_levels_are_refused(words: list[str], why: str) -> None:
    with pytest.raises(LevelError, match=why):
        domains.resolve_levels(words)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(LevelError, match=r"no preset 'azure'; there are .*aws.*topograph"):
        domains.preset("azure")
