"""Control planes of this folder's own: its tests change policies and roles that others rely on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.etcd import Etcd
from tests.controlplane.kube import Kube
from tests.controlplane.resources import NAMESPACES
from tests.manifests.pods import NAMESPACE

Kubectl = Callable[..., str]


@contextmanager
def installed(binaries: Binaries, etcd: Etcd, logs: Path) -> Iterator[ControlPlane]:
    """A control plane on which the base is applied and its policies act."""
    plane = ControlPlane(binaries, etcd, logs)
    try:
        plane.start()
        nvidia = {"name": "nvidia"}
        plane.kube.create(
            {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": nvidia, "handler": "nvidia"}
        )
        plane.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        installation.install(plane, installation.rendered(binaries))
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def plane(binaries: Binaries, etcd: Etcd, log_root: Path) -> Iterator[ControlPlane]:
    """One installation for all tests that leave it as they found it."""
    with installed(binaries, etcd, log_root) as plane:
        yield plane


@pytest.fixture(scope="module")
def doomed_plane(binaries: Binaries, etcd: Etcd, log_root: Path) -> Iterator[ControlPlane]:
    """An installation for tests that end it."""
    with installed(binaries, etcd, log_root) as plane:
        yield plane


@pytest.fixture
def kube(plane: ControlPlane) -> Iterator[Kube]:
    """A client of `plane` with all rights; pods, nodes and leases are gone after the test."""
    assert plane.kube.find(NAMESPACES, NAMESPACE) is not None
    yield plane.kube
    plane.wipe()


@pytest.fixture
def new_kubectl(binaries: Binaries, tmp_path: Path) -> Callable[[ControlPlane], Kubectl]:
    """kubectl with all rights on a control plane; its output. It fails the test when it fails."""

    def on(plane: ControlPlane) -> Kubectl:
        def run(*arguments: str | Path) -> str:
            kubeconfig = f"--kubeconfig={plane.admin_kubeconfig}"
            command = [binaries.path("kubectl"), kubeconfig, f"--cache-dir={tmp_path}", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run

    return on


@pytest.fixture
def kubectl(plane: ControlPlane, new_kubectl: Callable[[ControlPlane], Kubectl]) -> Kubectl:
    """kubectl on `plane`."""
    return new_kubectl(plane)
