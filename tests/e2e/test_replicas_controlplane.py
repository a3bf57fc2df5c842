"""Two replicas, each a kube-scheduler with its Tangram on a host of its own: one acts, the other takes over."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import NewControlPlane, NewFakeNodes, NewKubeScheduler, NewTangram
from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube_scheduler import KubeScheduler
from tests.controlplane.node_models import A100, gpu_node
from tests.controlplane.resources import LEASES, Objects
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.auditing import Audit
from tests.e2e.conftest import Measured
from tests.e2e.installing import TANGRAM_CONFIGURATION
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, memory, whole, within
from tests.e2e.watching import in_phase

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None,
        reason="host names of their own need unshare and root",
    ),
]


class Replica(NamedTuple):
    """One pod of the shipped Deployment."""

    scheduler: KubeScheduler
    tangram: TangramProcess
    kubeconfig: Path
    """Of Tangram; kube-scheduler has another token."""

    def kill(self) -> None:
        self.scheduler.kill()
        self.tangram.kill()


def mixed(prefix: str, number: int) -> Objects:
    kinds = (
        lambda name: whole(name, 1),
        lambda name: fraction(name, "0.3"),
        lambda name: memory(name, 20_000),
        lambda name: fraction(name, "0.5", devices=2),
    )
    return [kinds[index % len(kinds)](f"{prefix}-{index:03}") for index in range(number)]


def kubeconfig(plane: ControlPlane, folder: Path, name: str) -> Path:
    """The shipped service account with a token of its own."""
    fresh = plane.service_account_kubeconfig(installation.NAMESPACE, installation.SERVICE_ACCOUNT)
    return Path(shutil.copy(fresh, folder / f"{name}.kubeconfig"))


def test_the_leader_is_killed_in_the_middle_of_work(
    binaries: Binaries,
    new_control_plane: NewControlPlane,
    new_fake_nodes: NewFakeNodes,
    new_kube_scheduler: NewKubeScheduler,
    new_tangram: NewTangram,
    tmp_path: Path,
    measured: Measured,
) -> None:
    audit = Audit(tmp_path)
    plane = new_control_plane(flags=audit.flags)
    installation.install(plane, installation.rendered(binaries))
    nodes = new_fake_nodes(plane)
    nodes.create(*(gpu_node(f"n{number:02}", A100) for number in range(25)))

    def replica(host: str) -> Replica:
        own = kubeconfig(plane, tmp_path, f"tangram-{host}")
        tangram = new_tangram(
            own, hostname=host, arguments=[f"--config={TANGRAM_CONFIGURATION}"], name=f"tangram-{host}"
        )
        scheduler = new_kube_scheduler(
            kubeconfig(plane, tmp_path, f"kube-scheduler-{host}"),
            installation.SCHEDULER_CONFIGURATION,
            extender_address=tangram.extender_address,
            leader_election=True,
            hostname=host,
            name=f"kube-scheduler-{host}",
        )
        return Replica(scheduler, tangram, own)

    first = replica("tangram-0")
    eventually(lambda: Ops(first.tangram).status()["active"], "the first one leads")
    second = replica("tangram-1")
    kube, standby = plane.kube, Ops(second.tangram)
    lease = kube.get(LEASES, "tangram", installation.NAMESPACE)
    assert lease["spec"]["holderIdentity"].startswith("tangram-0_")

    creation = kube.loop.submit(kube.client.create_all(within("default", *mixed("p", 240))))
    eventually(lambda: len(in_phase(kube, "default", "Running")) >= 40, "the work is in its middle", every_s=0.01)
    assert not standby.status()["active"]
    first.kill()
    killed = time.monotonic()
    assert len(in_phase(kube, "default", "Running")) < 240
    assert not audit.writes(second.kubeconfig), "the standby only watches"
    assert audit.writes(first.kubeconfig)["create pods/binding"] >= 40

    creation.result(timeout=120)
    eventually(lambda: standby.status()["active"], "the standby acts", timeout_s=120)
    measured(f"the standby acts {time.monotonic() - killed:.1f} s after the leader was killed")
    eventually(lambda: len(in_phase(kube, "default", "Running")) == 240, "all run", timeout_s=200)
    measured(f"all pods run {time.monotonic() - killed:.1f} s after the leader was killed")

    assert not nodes.refusals
    books.agree(kube, standby)
    bound = (
        audit.writes(first.kubeconfig)["create pods/binding"] + audit.writes(second.kubeconfig)["create pods/binding"]
    )
    assert bound == 240, "each pod was bound once"
