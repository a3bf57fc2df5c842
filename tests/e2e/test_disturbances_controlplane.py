"""What happens to the pods on their way when a process around them ends."""

from __future__ import annotations

import json
import re
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
from tests.controlplane.readiness import ready
from tests.controlplane.resources import PODS, Objects
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.auditing import Audit
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, whole, within
from tests.e2e.watching import in_phase

pytestmark = pytest.mark.controlplane

NUMBER = 300


class Bench(NamedTuple):
    """A control plane of its own with an audit log, and all that works on it but for kube-scheduler."""

    plane: ControlPlane
    audit: Audit
    kubeconfig: Path
    nodes: FakeNodes
    tangram: TangramProcess

    def running(self) -> int:
        return len(in_phase(self.plane.kube, "default", "Running"))

    def all_run(self) -> None:
        """Waits until all run, and checks that the books are right."""
        eventually(lambda: self.running() == NUMBER, "all run", timeout_s=150, every_s=0.5)
        assert not self.nodes.refusals
        books.agree(self.plane.kube, Ops(self.tangram))

    def bound(self) -> int:
        """Bindings that the API server has taken."""
        return self.audit.writes(self.kubeconfig)["create pods/binding"]


@pytest.fixture
def bench(
    binaries: Binaries,
    new_control_plane: NewControlPlane,
    new_fake_nodes: NewFakeNodes,
    new_tangram: NewTangram,
    tmp_path: Path,
) -> Bench:
    """A backlog of pods is planned, and waits for a kube-scheduler."""
    audit = Audit(tmp_path)
    plane = new_control_plane(flags=audit.flags)
    kubeconfig = installation.install(plane, installation.rendered(binaries))
    nodes = new_fake_nodes(plane, lease_every_s=None)
    nodes.create(*(gpu_node(f"n{number:02}", A100) for number in range(30)))
    tangram = new_tangram(kubeconfig)
    plane.kube.create_all(within("default", *pods()))
    eventually(lambda: Ops(tangram).status()["pods"] == {"released": NUMBER}, "all are planned and released")
    return Bench(plane, audit, kubeconfig, nodes, tangram)


def pods() -> Objects:
    return [whole(f"p{number:03}") if number % 2 else fraction(f"p{number:03}", "0.4") for number in range(NUMBER)]


def scheduler_of(bench: Bench, new_kube_scheduler: NewKubeScheduler) -> KubeScheduler:
    return new_kube_scheduler(
        bench.kubeconfig,
        installation.SCHEDULER_CONFIGURATION,
        extender_address=bench.tangram.extender_address,
    )


def test_a_polite_end_loses_no_bind(bench: Bench, new_kube_scheduler: NewKubeScheduler) -> None:
    scheduler = scheduler_of(bench, new_kube_scheduler)
    eventually(lambda: bench.running() >= 20, "the work is in its middle", every_s=0.01)

    assert bench.tangram.stop() == 0

    said = _said(bench.tangram)
    stopping = next(place for place, words in enumerate(said) if words.startswith("stopping"))
    assert [words for words in said[stopping:] if words.startswith("bound ")], "some were on their way"
    done = bench.bound()
    assert sum(words.startswith("bound ") for words in said) == done, "it stayed until it knew what became of each"
    bound = [pod for pod in bench.plane.kube.list(PODS, "default") if pod["spec"].get("nodeName")]
    assert len(bound) == done
    assert not re.findall(r"Post \S+/bind\\?\": EOF", scheduler.process.log.read_text()), "every bind was answered"
    bench.tangram.start()
    bench.all_run()
    assert bench.bound() == NUMBER


def test_the_api_server_is_killed_and_comes_back(bench: Bench, new_kube_scheduler: NewKubeScheduler) -> None:
    scheduler_of(bench, new_kube_scheduler)
    eventually(lambda: bench.running() >= 20, "the work is in its middle", every_s=0.01)

    bench.plane.api_server.kill()
    bench.plane.api_server.start()
    bench.plane.api_server.wait_ready(lambda: ready(f"{bench.plane.server}/readyz", bench.plane.authority_pem))

    bench.all_run()
    assert bench.tangram.process.alive


def _said(tangram: TangramProcess) -> list[str]:
    """The messages in Tangram's log."""
    return [str(json.loads(line)["msg"]) for line in tangram.process.log.read_text().splitlines()]
