"""Child processes of the tests: each has a log file, is ended by its id, and does not outlive the test run."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

_PORTS: Final = range(20000, 32000)
"""Below the ranges from which Linux and macOS take the ports of outgoing connections."""
_given_ports: set[int] = set()
_alive: set[Process] = set()


class ProcessError(RuntimeError):
    """A process ended early or did not become ready; the text ends with the end of its log."""


class Process:
    """A command with its log. `start` after `stop` or `kill` starts it again with the same arguments.

    With `hostname` it runs in a UTS namespace of its own and sees that name as its host's (Linux, root).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        hostname: str | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = [str(part) for part in command]
        if hostname is not None:
            self._command = [*_with_hostname(hostname), *self._command]
        self._env = {**os.environ, **(env or {})}
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the command in a session of its own, so that Ctrl-C reaches it only through us."""
        if self.alive:
            raise ProcessError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )
        _alive.add(self)

    @property
    def pid(self) -> int:
        """Process id; ProcessError before the first start."""
        if self._child is None:
            raise ProcessError(f"{self.name} was never started")
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def stop(self, timeout_s: float = 20.0) -> int | None:
        """Asks the process to end, insists after `timeout_s`; its exit status, None if it never ran."""
        if self._child is None:
            return None
        if self.alive:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return self.kill()
        _alive.discard(self)
        return self._child.returncode

    def kill(self) -> int | None:
        """Ends the process and its children at once, as kill -9 does; its exit status, None if it never ran."""
        if self._child is None:
            return None
        if self.alive:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        _alive.discard(self)
        return self._child.returncode

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Returns when `ready` is true. ProcessError when the process ends first or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.alive:
                raise ProcessError(f"{self.name} ended while it started:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} not ready after {timeout_s:.0f} s:\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self, lines: int = 30) -> str:
        """The end of the log with its place."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([*text.splitlines()[-lines:], f"(log: {self.log})"])

    def cpu_seconds(self) -> float:
        """CPU time that the running process has used so far, user and system."""
        if sys.platform == "linux":
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        shown = subprocess.run(["ps", "-o", "time=", "-p", str(self.pid)], capture_output=True, text=True, check=True)
        return _seconds(shown.stdout.strip())


def free_port() -> int:
    """A loopback port that nobody listens on and that this run has not been given before."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_ports.add(port)
        return port
    raise ProcessError("no free port on the loopback address")


def _with_hostname(hostname: str) -> list[str]:
    """What to put before a command so that it sees `hostname`; the process id stays that of the command."""
    if shutil.which("unshare") is None:
        raise ProcessError("a host name of its own needs `unshare` (Linux)")
    script = 'hostname "$0" && exec "$@"'
    return ["unshare", "--uts", "sh", "-c", script, hostname]


def _seconds(clock: str) -> float:
    """Seconds of a time that ps shows: [[days-]hours:]minutes:seconds."""
    days, _, rest = clock.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + int(days or 0) * 86400


@atexit.register
def _end_all() -> None:
    for process in list(_alive):
        process.kill()
