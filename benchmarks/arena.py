"""A real control plane with nodes, and one way of scheduling on it: what throughput is measured on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.etcd import Etcd
from tests.controlplane.kube_scheduler import PLAIN_CONFIGURATION, KubeScheduler
from tests.controlplane.node_models import A100, H100, L4, gpu_node
from tests.controlplane.processes import Process
from tests.controlplane.tangram_process import TangramProcess
from topology import vocabulary

PODS_IN: Final = "default"
NEVER: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Side:
    """A way of scheduling. `nominate` None is kube-scheduler alone, with its defaults and no extender."""

    name: str
    nominate: bool | None

    @property
    def tangram(self) -> bool:
        """Whether Tangram takes part."""
        return self.nominate is not None

    @property
    def scheduler_name(self) -> str:
        """What pods must ask for."""
        return vocabulary.DEFAULT_SCHEDULER_NAME if self.tangram else "default-scheduler"


STOCK: Final = Side("stock", None)
PLAIN: Final = Side("tangram", False)
NOMINATED: Final = Side("tangram, nominating", True)
SIDES: Final = {side.name: side for side in (STOCK, PLAIN, NOMINATED)}


class Arena:
    """One side's processes.

    kube-scheduler runs; Tangram is started by `start_tangram`, where it takes part.
    """

    def __init__(self, side: Side, plane: ControlPlane, etcd: Etcd, binaries: Binaries, logs: Path) -> None:
        self.side = side
        self.plane = plane
        self._etcd = etcd
        self.tangram: TangramProcess | None = None
        kubeconfig, configuration, address = plane.scheduler_kubeconfig, PLAIN_CONFIGURATION, None
        if side.tangram:
            kubeconfig = installation.install(plane, installation.rendered(binaries))
            minimum = 0 if side.nominate else NEVER
            env = {"TANGRAM_NOMINATION__MIN_NODES": str(minimum), "TANGRAM_LOG__LEVEL": "warning"}
            self.tangram = TangramProcess(kubeconfig, logs, env=env)
            configuration = yaml.safe_load(installation.SCHEDULER_CONFIGURATION.read_text())
            address = self.tangram.extender_address
        self.scheduler = KubeScheduler(binaries, kubeconfig, configuration, logs, extender_address=address)

    def add_nodes(self, count: int) -> None:
        """Creates nodes of three models, most of them with eight devices."""
        models = (A100, A100, H100, L4)
        nodes = [gpu_node(f"node-{number:05d}", models[number % 4]).document for number in range(count)]
        self.plane.kube.create_all(nodes)

    def start_tangram(self) -> None:
        """Starts Tangram, if it takes part and does not run; returns when it is ready."""
        if self.tangram is not None and not self.tangram.process.alive:
            self.tangram.start()

    def processes(self) -> dict[str, Process]:
        """By name, those that run."""
        found = {
            "etcd": self._etcd.process,
            "kube-apiserver": self.plane.api_server,
            "kube-scheduler": self.scheduler.process,
        }
        if self.tangram is not None:
            found["tangram"] = self.tangram.process
        return {name: process for name, process in found.items() if process.alive}


@contextmanager
def arena(side: Side, binaries: Binaries, logs: Path) -> Iterator[Arena]:
    """Starts everything but Tangram on an empty cluster; ends everything."""
    with ExitStack() as stack:
        etcd = Etcd(binaries, logs)
        stack.callback(etcd.stop)
        etcd.start()
        # without that admission plugin a node needs no second write to lose its not-ready taint
        flags = ("--disable-admission-plugins=TaintNodesByCondition",)
        plane = ControlPlane(binaries, etcd, logs, flags=flags)
        stack.callback(plane.stop)
        plane.start()
        built = Arena(side, plane, etcd, binaries, logs)
        stack.callback(built.scheduler.stop)
        if built.tangram is not None:
            stack.callback(built.tangram.stop)
        built.scheduler.start()
        yield built
