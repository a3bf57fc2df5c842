"""Tangram as its users start it: the installed command in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.controlplane.processes import Process, free_port
from tests.controlplane.readiness import ready

COMMAND = Path(sys.executable).parent / "tangram"


class TangramProcess:
    """`tangram serve` on free loopback ports, which stay the same over restarts. `hostname`: see Process."""

    def __init__(
        self,
        kubeconfig: Path,
        logs: Path,
        *,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        hostname: str | None = None,
        name: str = "tangram",
    ) -> None:
        self.extender_address = f"127.0.0.1:{free_port()}"
        self.ops_address = f"127.0.0.1:{free_port()}"
        self.process = Process(
            name,
            [
                COMMAND,
                "serve",
                f"--kubeconfig={kubeconfig}",
                f"--extender-address={self.extender_address}",
                f"--ops-address={self.ops_address}",
                *arguments,
            ],
            logs / f"{name}.log",
            env=env,
            hostname=hostname,
        )

    @property
    def ops_url(self) -> str:
        return f"http://{self.ops_address}"

    @property
    def extender_url(self) -> str:
        return f"http://{self.extender_address}"

    def start(self, timeout_s: float = 120.0) -> None:
        """Starts it and waits until it says that it is ready (its first start compiles kernels)."""
        self.process.start()
        self.process.wait_ready(lambda: ready(f"{self.ops_url}/readyz"), timeout_s)

    def stop(self) -> int | None:
        """Asks it to end; its exit status."""
        return self.process.stop()

    def kill(self) -> None:
        """Ends it as kill -9 does."""
        self.process.kill()

    def restart(self) -> None:
        """Starts it again after it has ended or been ended; stops it first where it runs."""
        self.stop()
        self.start()
