"""etcd for the tests: one server for any number of API servers, its data in memory where that is possible."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import Binaries
from tests.controlplane.processes import Process, free_port
from tests.controlplane.readiness import ready

_MEMORY: Final = Path("/dev/shm")
_ENOUGH_BYTES: Final = 2 << 30


class Etcd:
    """An etcd server on free loopback ports. `logs` is a folder that exists; the data folder is removed at stop."""

    def __init__(self, binaries: Binaries, logs: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._data = data_folder("etcd")
        peers = f"http://127.0.0.1:{free_port()}"
        self.process = Process(
            "etcd",
            [
                binaries.path("etcd"),
                f"--data-dir={self._data}",
                f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--log-level=warn",
                "--unsafe-no-fsync",
            ],
            logs / "etcd.log",
        )

    def start(self) -> None:
        self.process.start()
        self.process.wait_ready(lambda: ready(f"{self.url}/readyz"))

    def stop(self) -> None:
        """Ends etcd; to be called after the API servers have ended."""
        self.process.stop()
        shutil.rmtree(self._data, ignore_errors=True)


def data_folder(name: str) -> Path:
    """A new empty folder for data that need not outlive the run: in memory where there is room for it."""
    base: Path | None = None
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH_BYTES:
        base = _MEMORY
    return Path(tempfile.mkdtemp(prefix=f"tangram-{name}-", dir=base))
