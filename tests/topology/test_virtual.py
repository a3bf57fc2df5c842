"""Each kind of node as its project makes it: what it is, and what may be used of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from topology import quantity
from topology.inventory import InventorySettings, NodeInventory, ShareSupport, describe
from topology.node import NodeFacts, Taint
from topology.virtual import LOCAL_CLUSTER, NodeKind, cluster_identity, kind_of

LIQO = """
metadata:
  name: gcp-spot-h100
  labels: {liqo.io/type: virtual-node, liqo.io/remote-cluster-id: gcp-eu, type: virtual-kubelet,
    kubernetes.io/role: agent, kubernetes.io/hostname: gcp-spot-h100, topology.kubernetes.io/region: europe-west4}
spec: {taints: [{key: virtual-node.liqo.io/not-allowed, value: "true", effect: NoExecute}]}
status:
  capacity: {cpu: "512", memory: 4Ti, pods: "1000", ephemeral-storage: 2Ti, nvidia.com/gpu: "64"}
  allocatable: {cpu: "512", memory: 4Ti, pods: "1000", ephemeral-storage: 2Ti, nvidia.com/gpu: "64"}
"""
VCLUSTER_SYNCED = """
metadata: {name: gpu-7, labels: {vcluster.loft.sh/managed-by: team-a, nvidia.com/gpu.present: "true",
  nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "8", nvidia.com/gpu.memory: "81559"}}
status: {capacity: {cpu: "96", nvidia.com/gpu: "8"}, allocatable: {cpu: "40", nvidia.com/gpu: "8"}}
"""
VCLUSTER_FAKE = """
metadata: {name: gpu-7, labels: {vcluster.loft.sh/fake-node: "true", kubernetes.io/hostname: fake-gpu-7}}
status: {allocatable: {cpu: "16", memory: 32Gi, ephemeral-storage: 100Gi, pods: "110"}}
"""
ADMIRALTY = """
metadata: {name: admiralty-c2, labels: {type: virtual-kubelet, virtual-kubelet.io/provider: admiralty}}
spec: {taints: [{key: virtual-kubelet.io/provider, value: admiralty, effect: NoSchedule}]}
"""
INTERLINK = """
metadata: {name: hpc-site, labels: {type: virtual-kubelet, virtual-node.interlink/type: virtual-kubelet}}
spec: {taints: [{key: virtual-node.interlink/no-schedule, value: "true", effect: NoSchedule}]}
status: {allocatable: {cpu: "1000", nvidia.com/gpu: "100"}}
"""
ACI = """
metadata: {name: virtual-node-aci, labels: {type: virtual-kubelet, kubernetes.io/role: agent}}
spec: {taints: [{key: virtual-kubelet.io/provider, value: azure, effect: NoSchedule}]}
status: {allocatable: {cpu: "10000", memory: 4Ti, pods: "5000"}}
"""
K3K = """
metadata: {name: k3k-agent-0, labels: {type: virtual-kubelet}}
status: {allocatable: {cpu: "16", nvidia.com/gpu: "4"}}
"""
ACK = """
metadata: {name: virtual-kubelet-cn-beijing-h, labels: {type: virtual-kubelet, alibabacloud.com/gpu-model-series: L20}}
spec: {taints: [{key: virtual-kubelet.io/provider, value: alibabacloud, effect: NoSchedule}]}
status: {allocatable: {cpu: "5000", nvidia.com/gpu: "500"}}
"""
KWOK = """
metadata: {name: kwok-0, labels: {type: kwok}, annotations: {kwok.x-k8s.io/node: fake}}
spec: {taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]}
status: {allocatable: {cpu: "256", nvidia.com/gpu: "8"}}
"""
KARPENTER = """
metadata: {name: ip-10-0-1-7, labels: {karpenter.sh/nodepool: gpu, karpenter.sh/capacity-type: spot,
  node.kubernetes.io/instance-type: p5.48xlarge}}
spec: {taints: [{key: karpenter.sh/unregistered, effect: NoExecute}]}
status: {allocatable: {cpu: "190"}}
"""
KARPENTER_READY = """
metadata: {name: ip-10-0-1-7, labels: {karpenter.sh/nodepool: gpu, karpenter.sh/initialized: "true"}}
status: {allocatable: {cpu: "190", nvidia.com/gpu: "8"}}
"""
REAL = """
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, nvidia.com/gpu.product: Tesla-T4}}
status: {allocatable: {cpu: "16", nvidia.com/gpu: "1"}}
"""


def facts_of(text: str) -> NodeFacts:
    document: dict[str, Any] = yaml.safe_load(text)
    status, taints = document.get("status", {}), document.get("spec", {}).get("taints", [])
    return NodeFacts(
        name=document["metadata"]["name"],
        labels=document["metadata"].get("labels", {}),
        annotations=document["metadata"].get("annotations", {}),
        taints=tuple(Taint(taint["key"], taint.get("value", ""), taint["effect"]) for taint in taints),
        capacity=quantity.amounts(status.get("capacity", {})),
        allocatable=quantity.amounts(status.get("allocatable", {})),
    )


def inventory_of(text: str) -> NodeInventory:
    return describe(facts_of(text), InventorySettings(shares_by_default=True))


@pytest.mark.parametrize(
    ("text", "kind", "cluster", "shares", "devices"),
    [
        (LIQO, NodeKind.LIQO, "gcp-eu", ShareSupport.VIRTUAL, 0),
        (VCLUSTER_SYNCED, NodeKind.VCLUSTER_SYNCED, LOCAL_CLUSTER, ShareSupport.YES, 8),
        (VCLUSTER_FAKE, NodeKind.VCLUSTER_FAKE, "gpu-7", ShareSupport.VIRTUAL, 0),
        (ADMIRALTY, NodeKind.ADMIRALTY, "admiralty-c2", ShareSupport.VIRTUAL, 0),
        (INTERLINK, NodeKind.INTERLINK, "hpc-site", ShareSupport.VIRTUAL, 0),
        (ACI, NodeKind.VIRTUAL_KUBELET, "virtual-node-aci", ShareSupport.VIRTUAL, 0),
        (K3K, NodeKind.VIRTUAL_KUBELET, "k3k-agent-0", ShareSupport.VIRTUAL, 0),
        (ACK, NodeKind.ACK, "virtual-kubelet-cn-beijing-h", ShareSupport.VIRTUAL, 0),
        (KWOK, NodeKind.KWOK, LOCAL_CLUSTER, ShareSupport.YES, 8),
        (KARPENTER, NodeKind.KARPENTER, LOCAL_CLUSTER, ShareSupport.NO_DEVICES, 0),
        (KARPENTER_READY, NodeKind.REAL, LOCAL_CLUSTER, ShareSupport.YES, 8),
        (REAL, NodeKind.REAL, LOCAL_CLUSTER, ShareSupport.YES, 1),
    ],
)
def test_every_kind_of_node(text: str, kind: NodeKind, cluster: str, shares: ShareSupport, devices: int) -> None:
    node = inventory_of(text)
    assert node.kind is kind
    assert node.cluster == cluster
    assert node.shares is shares
    assert len(node.devices) == devices
    assert node.virtual is (shares is ShareSupport.VIRTUAL)


def test_a_virtual_node_offers_whole_devices_as_a_number() -> None:
    node = inventory_of(LIQO)
    assert node.device_resource == "nvidia.com/gpu"
    assert node.facts.allocatable["nvidia.com/gpu"] == 64
    assert node.product is None
    assert node.warnings == ()


def test_a_virtual_node_may_name_its_product() -> None:
    node = inventory_of(LIQO.replace("liqo.io/type", "nvidia.com/gpu.product: NVIDIA-H200, liqo.io/type"))
    assert node.product == "H200"
    assert node.devices == ()


def test_devices_of_a_fake_node_are_not_believed() -> None:
    node = inventory_of(VCLUSTER_FAKE.replace("pods:", 'nvidia.com/gpu: "4", pods:'))
    assert node.device_resource is None
    assert node.facts.allocatable == quantity.amounts(
        {"cpu": "16", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    )
    assert any("nvidia.com/gpu" in warning for warning in node.warnings)


def test_the_label_of_shares_changes_nothing_on_a_virtual_node() -> None:
    node = inventory_of(LIQO.replace("liqo.io/type", 'tangram.scheduler/shares: "true", liqo.io/type'))
    assert node.shares is ShareSupport.VIRTUAL


@pytest.mark.parametrize("text", [LIQO, ADMIRALTY, INTERLINK, ACK, ACI])
def test_a_virtual_node_stays_virtual_when_it_is_synced(text: str) -> None:
    synced = facts_of(text.replace("labels: {", "labels: {vcluster.loft.sh/managed-by: team-a, "))
    assert kind_of(synced) is kind_of(facts_of(text))


@pytest.mark.parametrize(
    ("labels", "taint", "kind"),
    [
        ({"virtual-kubelet.io/provider": "admiralty"}, None, NodeKind.ADMIRALTY),
        ({}, Taint("virtual-kubelet.io/provider", "admiralty", "NoSchedule"), NodeKind.ADMIRALTY),
        ({}, Taint("virtual-kubelet.io/provider", "", "NoSchedule"), NodeKind.VIRTUAL_KUBELET),
        ({"virtual-node.interlink/type": "virtual-kubelet"}, None, NodeKind.INTERLINK),
        ({"type": "kwok"}, None, NodeKind.KWOK),
        ({"karpenter.sh/nodepool": "gpu"}, None, NodeKind.KARPENTER),
        ({"liqo.io/type": "something-else"}, None, NodeKind.REAL),
        ({"vcluster.loft.sh/fake-node": "false"}, None, NodeKind.REAL),
        ({"type": "gpu"}, Taint("example.com/x", "", "NoSchedule"), NodeKind.REAL),
    ],
)
def test_single_marks(labels: dict[str, str], taint: Taint | None, kind: NodeKind) -> None:
    assert kind_of(NodeFacts(name="n1", labels=labels, taints=(taint,) if taint else ())) is kind


def test_cluster_identity() -> None:
    named = {"tangram.scheduler/cluster": " site-b "}
    site = NodeFacts(name="hpc", annotations=named)
    assert cluster_identity(site, NodeKind.INTERLINK) == "site-b"
    assert cluster_identity(NodeFacts(name="hpc"), NodeKind.INTERLINK) == "hpc"
    assert cluster_identity(site, NodeKind.REAL) == LOCAL_CLUSTER
    liqo = NodeFacts(name="hpc", labels={"liqo.io/remote-cluster-id": "eu"}, annotations=named)
    assert cluster_identity(liqo, NodeKind.LIQO) == "eu"
