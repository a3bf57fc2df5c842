"""Domains between nodes: which label keys are levels, broad to narrow, and what a node has at each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"
NVLINK_CLIQUE: Final = "nvidia.com/gpu.clique"
NVLINK_CLUSTER: Final = "nvidia.com/gpu.clique/cluster"
"""A level that is no label: the part of `nvidia.com/gpu.clique` before the last dot, which is the rack."""
MAX_LEVELS: Final = 16

# What agents write where they know nothing; nodes that know nothing are not neighbours.
_PLACEHOLDERS: Final = frozenset({"", "no-imds-data", "not-available", "none"})
_NO_FABRIC: Final = "00000000-0000-0000-0000-000000000000"
_KEY: Final = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)

# Numbers run both ways: AWS counts from the broadest level, Topograph and Nebius from the nearest.
_PRESETS: Final = {
    "generic": ("topology.kubernetes.io/region", "topology.kubernetes.io/zone"),
    "gke": (
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-host",
    ),
    "aws": tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)),
    "aws-4": tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3, 4)),
    "aws-ultraserver": ("topology.k8s.aws/capacity-block-id", "topology.k8s.aws/ultraserver-id"),
    "oci": (
        "oci.oraclecloud.com/rdma.hpc_island_id",
        "oci.oraclecloud.com/rdma.network_block_id",
        "oci.oraclecloud.com/rdma.local_block_id",
        "oci.oraclecloud.com/rdma.host_id",
    ),
    "oci-host": ("oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"),
    "coreweave-ib": (
        "ib.coreweave.cloud/fabric",
        "ib.coreweave.cloud/superpod",
        "ib.coreweave.cloud/leafgroup",
    ),
    "coreweave-ethernet": ("backend.coreweave.cloud/fabric", "backend.coreweave.cloud/leafgroup"),
    "coreweave-rack": ("node.coreweave.cloud/rack",),
    "nebius": (
        "topology.nebius.com/gpu-cluster-id",
        "topology.nebius.com/tier-2",
        "topology.nebius.com/tier-1",
        "topology.nebius.com/tier-0",
    ),
    "topograph": tuple(f"fabric.topograph.run/tier-{tier}" for tier in (2, 1, 0)),
    "topograph-accelerator": (
        "accelerator.topograph.run/domain",
        "accelerator.topograph.run/sub-domain",
    ),
    "topograph-old": tuple(f"network.topology.nvidia.com/{level}" for level in ("core", "spine", "leaf")),
    "nvlink": (NVLINK_CLUSTER, NVLINK_CLIQUE),
    "alibaba": ("alibabacloud.com/hpn-zone",),
    "example": ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
}
PRESETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {name: (*levels, HOSTNAME) for name, levels in _PRESETS.items()}
)
"""Level keys by preset name, broad to narrow; the host is always the last level."""


class LevelError(ValueError):
    """A list of levels that cannot be used; the text says what is wrong."""


def preset(name: str) -> tuple[str, ...]:
    """The levels of a preset. Raises LevelError that names those there are."""
    if name not in PRESETS:
        raise LevelError(f"no preset {name!r}; there are {', '.join(sorted(PRESETS))}")
    return PRESETS[name]


def resolve_levels(words: Iterable[str]) -> tuple[str, ...]:
    """Level keys from a configured list of label keys and names of presets, in its order.

    Presets may follow each other (`generic`, `gke`): the host then comes from the last one. Resolving a result again
    changes nothing. Raises LevelError for a key that is no label key or stands twice, for more than MAX_LEVELS, and for
    the hostname anywhere but last.
    """
    levels: list[str] = []
    before = ""
    for word in words:
        if before in PRESETS:
            levels.pop()
        levels.extend(PRESETS.get(word, (word,)))
        before = word
    for key in levels:
        if key != NVLINK_CLUSTER and not _KEY.fullmatch(key):
            raise LevelError(f"{key!r} is neither a label key nor a preset ({', '.join(sorted(PRESETS))})")
        if levels.count(key) > 1:
            raise LevelError(f"the level {key} stands twice")
    if HOSTNAME in levels[:-1]:
        raise LevelError(f"{HOSTNAME} can only be the last level: nothing is narrower than a host")
    if len(levels) > MAX_LEVELS:
        raise LevelError(f"{len(levels)} levels, {MAX_LEVELS} are allowed")
    return tuple(levels)


def domain_values(labels: Mapping[str, str], levels: Sequence[str]) -> tuple[str | None, ...]:
    """What a node has at each level; None where the label is missing or a placeholder.

    A node without a value is in a domain of its own. The same value under different broader values is a different
    domain: it is the tuple up to a level that names one.
    """
    return tuple(_value(labels, level) for level in levels)


def _value(labels: Mapping[str, str], level: str) -> str | None:
    if level in (NVLINK_CLUSTER, NVLINK_CLIQUE):
        return _nvlink(labels.get(NVLINK_CLIQUE, ""), level)
    value = labels.get(level, "").strip()
    return None if value.lower() in _PLACEHOLDERS else value


def _nvlink(clique: str, level: str) -> str | None:
    cluster, _, number = clique.rpartition(".")
    if not cluster or not number or cluster == _NO_FABRIC:
        return None
    return clique if level == NVLINK_CLIQUE else cluster
