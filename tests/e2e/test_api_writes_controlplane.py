"""What Tangram writes for a pod that goes its way: the least there is, counted by the API server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import NewControlPlane, NewFakeNodes, NewKubeScheduler, NewTangram
from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.node_models import A100, gpu_node
from tests.controlplane.resources import PODS
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.auditing import Audit
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, whole, within
from tests.e2e.watching import in_phase, told

pytestmark = pytest.mark.controlplane

NUMBER = 40


@pytest.mark.parametrize("nominate", [False, True], ids=["plain", "nominated"])
def test_a_pod_costs_its_release_and_its_binding(
    binaries: Binaries,
    new_control_plane: NewControlPlane,
    new_fake_nodes: NewFakeNodes,
    new_tangram: NewTangram,
    new_kube_scheduler: NewKubeScheduler,
    tmp_path: Path,
    nominate: bool,
) -> None:
    audit = Audit(tmp_path)
    plane = new_control_plane(flags=audit.flags)
    kube = plane.kube
    installation.install(plane, installation.rendered(binaries))
    ours = tmp_path / "tangram.kubeconfig"
    theirs = plane.service_account_kubeconfig(installation.NAMESPACE, installation.SERVICE_ACCOUNT)
    ours.write_text(theirs.read_text())
    theirs = plane.service_account_kubeconfig(installation.NAMESPACE, installation.SERVICE_ACCOUNT)
    nodes = new_fake_nodes(plane)
    nodes.create(*(gpu_node(f"n{number}", A100) for number in range(5)))
    tangram = new_tangram(ours, arguments=[f"--nomination-min-nodes={0 if nominate else 1000}"])
    pods = [whole(f"p{number:02}") if number % 2 else fraction(f"p{number:02}", "0.5") for number in range(NUMBER)]

    kube.create_all(within("default", *pods))
    eventually(lambda: Ops(tangram).status()["pods"] == {"released": NUMBER}, "all are planned and released")
    planned = {pod["status"].get("nominatedNodeName") for pod in kube.list(PODS)}
    assert (planned == {None}) is not nominate
    new_kube_scheduler(theirs, installation.SCHEDULER_CONFIGURATION, extender_address=tangram.extender_address)
    eventually(lambda: len(in_phase(kube, "default", "Running")) == NUMBER, "all run")

    books.agree(kube, Ops(tangram))
    wanted = Counter({"patch pods": NUMBER, "create pods/binding": NUMBER})
    if nominate:
        wanted["patch pods/status"] = NUMBER
    assert audit.writes(ours) == wanted

    kube.create(whole("too-large", 9), "default")
    told(kube, "default", "too-large", "too few whole GPUs")
    wanted += Counter({"patch pods/status": 1, "create events": 1})
    eventually(lambda: audit.writes(ours) == wanted, "one message and one event")
