"""Two replicas, each a kube-scheduler with its Tangram on a host of its own: one acts, the other takes over."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import NewControlPlane, NewFakeNodes, NewKubeScheduler, NewTangram
from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.fake_nodes import FakeNodes
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

NUMBER = 240


class Replica(NamedTuple):
    """One pod of the shipped Deployment."""

    scheduler: KubeScheduler
    tangram: TangramProcess
    kubeconfig: Path
    """Of Tangram; kube-scheduler has another token."""


def mixed() -> Objects:
    """NUMBER pods of four kinds."""
    kinds = (
        lambda name: whole(name, 1),
        lambda name: fraction(name, "0.3"),
        lambda name: memory(name, 20_000),
        lambda name: fraction(name, "0.5", devices=2),
    )
    return [kinds[index % len(kinds)](f"p{index:03}") for index in range(NUMBER)]


def kubeconfig(plane: ControlPlane, folder: Path, name: str) -> Path:
    """The shipped service account with a token of its own."""
    fresh = plane.service_account_kubeconfig(installation.NAMESPACE, installation.SERVICE_ACCOUNT)
    return Path(shutil.copy(fresh, folder / f"{name}.kubeconfig"))


class Cluster(NamedTuple):
    """A control plane with an audit log and what is shipped, and 25 nodes."""

    plane: ControlPlane
    audit: Audit
    nodes: FakeNodes
    replica: Callable[[str], Replica]
    """Starts a replica on a host of this name."""

    def running(self) -> int:
        return len(in_phase(self.plane.kube, "default", "Running"))

    def all_run(self, *replicas: Replica) -> None:
        """Waits for the pods of `mixed`, bound by one replica or the other; the last one's books agree."""
        eventually(lambda: self.running() == NUMBER, "all run", timeout_s=200)
        assert not self.nodes.refusals
        books.agree(self.plane.kube, Ops(replicas[-1].tangram))
        # a Binding whose sender was killed before the answer is there, but not as a success
        writes = [self.audit.writes(replica.kubeconfig)["create pods/binding"] for replica in replicas]
        assert sum(writes) <= NUMBER
        assert all(writes), "both had their part"


@pytest.fixture
def cluster(
    binaries: Binaries,
    new_control_plane: NewControlPlane,
    new_fake_nodes: NewFakeNodes,
    new_kube_scheduler: NewKubeScheduler,
    new_tangram: NewTangram,
    tmp_path: Path,
) -> Cluster:
    audit = Audit(tmp_path)
    plane = new_control_plane(flags=audit.flags)
    installation.install(plane, installation.rendered(binaries))
    nodes = new_fake_nodes(plane)
    nodes.create(*(gpu_node(f"n{number:02}", A100) for number in range(25)))

    def start(host: str) -> Replica:
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

    return Cluster(plane, audit, nodes, start)


@pytest.mark.parametrize("whole_replica", [True, False], ids=["both processes", "kube-scheduler alone"])
def test_the_leader_is_killed_in_the_middle_of_work(cluster: Cluster, measured: Measured, whole_replica: bool) -> None:
    kube, audit = cluster.plane.kube, cluster.audit
    first = cluster.replica("tangram-0")
    eventually(lambda: Ops(first.tangram).status()["active"], "the first one leads")
    second = cluster.replica("tangram-1")
    standby = Ops(second.tangram)
    lease = kube.get(LEASES, "tangram", installation.NAMESPACE)
    assert lease["spec"]["holderIdentity"].startswith("tangram-0_")

    pods = within("default", *mixed())
    creation = kube.loop.submit(kube.client.create_all(pods[: NUMBER * 2 // 3]))
    eventually(lambda: cluster.running() >= 40, "the work is in its middle", every_s=0.01)
    assert not standby.status()["active"]
    first.scheduler.kill()
    if whole_replica:
        first.tangram.kill()
    killed = time.monotonic()
    assert cluster.running() < NUMBER
    assert not audit.writes(second.kubeconfig), "the standby only watches"

    creation.result(timeout=120)
    # the rest comes when nobody acts, so that there is work for the second one however fast the first was
    kube.loop.submit(kube.client.create_all(pods[NUMBER * 2 // 3 :])).result(timeout=120)
    eventually(lambda: standby.status()["active"], "the standby acts", timeout_s=120)
    measured(f"the standby acts {time.monotonic() - killed:.1f} s after the leader was killed")
    cluster.all_run(first, second)
    measured(f"all pods run {time.monotonic() - killed:.1f} s after the leader was killed")
    if not whole_replica:
        assert not Ops(first.tangram).status()["active"]
        assert not Ops(first.tangram).status()["inFlight"], "it has given back what it had planned"
