"""Rules that kube-scheduler knows and Tangram learns from what it is offered; and pods that are not Tangram's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import NewKubeScheduler, NewTangram
from tests.controlplane import installation
from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_agent import ALLOCATION
from tests.controlplane.node_models import A100, cpu_node, gpu_node
from tests.controlplane.resources import PODS, Object
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.conftest import Measured
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, whole, within
from tests.e2e.pods import pod as new_pod
from tests.e2e.watching import in_phase, running

pytestmark = pytest.mark.controlplane

ZONE = "topology.kubernetes.io/zone"


def spread(pod: Object, key: str = ZONE) -> Object:
    """The pod, to be spread over the domains with all pods of its kind; a rule that Tangram does not model."""
    pod["metadata"]["labels"]["app"] = "spread"
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
    ]
    return pod


@pytest.mark.parametrize("nominate_from", [0, 1000], ids=["nominated", "plain"])
def test_pods_that_must_spread_do(
    kube: Kube,
    namespace: str,
    fake_nodes: FakeNodes,
    shipped_rights: Path,
    new_tangram: NewTangram,
    new_kube_scheduler: NewKubeScheduler,
    measured: Measured,
    nominate_from: int,
) -> None:
    """Packing plans them on one node; kube-scheduler does not offer it, and the plan follows what it offers."""
    tangram = new_tangram(shipped_rights, arguments=[f"--nomination-min-nodes={nominate_from}"])
    new_kube_scheduler(shipped_rights, installation.SCHEDULER_CONFIGURATION, extender_address=tangram.extender_address)
    zones = ("a", "b", "c")
    fake_nodes.create(*(gpu_node(f"n{number}", A100, labels={ZONE: zones[number % 3]}) for number in range(6)))
    ops = Ops(tangram)
    eventually(lambda: ops.status()["nodes"] == 6, "Tangram knows the nodes")
    names = [f"p{number:02}" for number in range(12)]
    pods = [spread(whole(name, 2) if number % 2 else fraction(name, "0.5")) for number, name in enumerate(names)]

    kube.create_all(within(namespace, *pods))

    placed = running(kube, namespace, *names)
    counts = Counter(zones[int(pod["spec"]["nodeName"][1:]) % 3] for pod in placed)
    assert max(counts.values()) - min(counts.values()) <= 1, counts
    books.agree(kube, ops)
    story = ops.workload(namespace, names[-1])["story"]
    measured(f"the last one took {story[-1]['atMs'] - story[0]['atMs']} ms and {len(story)} steps")


def test_a_process_that_serves_other_pods_too_binds_them_plainly(
    kube: Kube,
    namespace: str,
    fake_nodes: FakeNodes,
    shipped_rights: Path,
    new_tangram: NewTangram,
    new_kube_scheduler: NewKubeScheduler,
) -> None:
    """A bind entry serves every profile of its kube-scheduler."""
    configuration: dict[str, Any] = yaml.safe_load(installation.SCHEDULER_CONFIGURATION.read_text())
    configuration["profiles"].append({"schedulerName": "default-scheduler"})
    tangram = new_tangram(shipped_rights)
    new_kube_scheduler(shipped_rights, configuration, extender_address=tangram.extender_address)
    fake_nodes.create(gpu_node("n1", A100, devices=2), cpu_node("plain"))
    ops = Ops(tangram)

    kube.create_all(
        within(
            namespace,
            whole("theirs", scheduler="default-scheduler"),
            fraction("theirs-by-its-word", "0.5", scheduler="default-scheduler"),
            new_pod("theirs-plain", scheduler="default-scheduler"),
            fraction("ours", "0.5"),
        )
    )

    names = ("theirs", "theirs-by-its-word", "theirs-plain", "ours")
    for pod in running(kube, namespace, *names):
        ours = pod["metadata"]["name"] == "ours"
        assert (ALLOCATION in pod["metadata"].get("annotations", {})) is ours
    books.agree(kube, ops)
    kube.create(whole("late"), namespace)
    eventually(lambda: ops.status()["waiting"] == 1, "no device is left")
    kube.delete(PODS, "theirs", namespace)
    running(kube, namespace, "late")
    assert in_phase(kube, namespace, "Running") == {*names, "late"} - {"theirs"}
