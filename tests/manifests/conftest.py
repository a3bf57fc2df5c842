"""A control plane of its own for this folder: its tests change policies that others rely on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.etcd import Etcd

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def plane(binaries: Binaries, etcd: Etcd, log_root: Path) -> Iterator[ControlPlane]:
    """A control plane on which the base is applied and its policies act."""
    with ExitStack() as stack:
        plane = ControlPlane(binaries, etcd, log_root)
        stack.callback(plane.stop)
        plane.start()
        plane.kube.create(
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "handler": "nvidia",
                "metadata": {"name": "nvidia"},
            }
        )
        installation.install(plane, installation.rendered(binaries))
        yield plane


@pytest.fixture
def kubectl(plane: ControlPlane, binaries: Binaries, tmp_path: Path) -> Kubectl:
    """kubectl with all rights on `plane`; its output. It fails the test when it fails."""

    def run(*arguments: str | Path) -> str:
        kubeconfig = f"--kubeconfig={plane.admin_kubeconfig}"
        command = [binaries.path("kubectl"), kubeconfig, f"--cache-dir={tmp_path}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
