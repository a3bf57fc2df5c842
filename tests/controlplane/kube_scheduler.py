"""The stock kube-scheduler with a configuration file, as it runs beside Tangram in a cluster."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.controlplane.binaries import Binaries
from tests.controlplane.etcd import data_folder
from tests.controlplane.processes import Process, free_port
from tests.controlplane.readiness import ready

PLAIN_CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"qps": 5000, "burst": 10000},
}
"""The default profile without extenders, and without a client limit that would hide its speed."""


class KubeScheduler:
    """The kube-scheduler binary.

    `configuration` is a KubeSchedulerConfiguration, as a file or parsed. Only what a machine decides is replaced in
    it: the kubeconfig, the address of the extenders (where `extender_address`, host:port, is given), and leader
    election, which is off unless `leader_election`. `hostname`: see Process.
    """

    def __init__(
        self,
        binaries: Binaries,
        kubeconfig: Path,
        configuration: Path | dict[str, Any],
        logs: Path,
        *,
        extender_address: str | None = None,
        leader_election: bool = False,
        hostname: str | None = None,
        name: str = "kube-scheduler",
    ) -> None:
        self._data = data_folder(name)
        self._port = free_port()
        config = self._data / "config.yaml"
        document = _parsed(configuration)
        config.write_text(yaml.safe_dump(_fitted(document, kubeconfig, extender_address, leader_election)))
        self.process = Process(
            name,
            [
                binaries.path("kube-scheduler"),
                f"--config={config}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._port}",
                f"--cert-dir={self._data}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--authentication-tolerate-lookup-failure=true",
                "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
            ],
            logs / f"{name}.log",
            hostname=hostname,
        )

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts it and waits until it is healthy (as a standby it is healthy before it leads)."""
        self.process.start()
        self.process.wait_ready(lambda: ready(f"https://127.0.0.1:{self._port}/healthz"), timeout_s)

    def stop(self) -> None:
        self.process.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    def kill(self) -> None:
        """Ends it as kill -9 does."""
        self.process.kill()


def _parsed(configuration: Path | dict[str, Any]) -> dict[str, Any]:
    if isinstance(configuration, dict):
        return configuration
    document = yaml.safe_load(configuration.read_text())
    if not isinstance(document, dict) or document.get("kind") != "KubeSchedulerConfiguration":
        raise ValueError(f"{configuration} is no KubeSchedulerConfiguration")
    return document


def _fitted(
    document: dict[str, Any], kubeconfig: Path, extender_address: str | None, leader_election: bool
) -> dict[str, Any]:
    """The configuration with what differs on this machine."""
    fitted = {
        **document,
        "clientConnection": {**document.get("clientConnection", {}), "kubeconfig": str(kubeconfig)},
        "leaderElection": {**document.get("leaderElection", {}), "leaderElect": leader_election},
    }
    if extender_address is not None:
        fitted["extenders"] = [
            {**entry, "urlPrefix": _moved(entry["urlPrefix"], extender_address)}
            for entry in document.get("extenders", [])
        ]
    return fitted


def _moved(url: str, address: str) -> str:
    """`url` at another host:port."""
    return urlsplit(url)._replace(netloc=address).geturl()
