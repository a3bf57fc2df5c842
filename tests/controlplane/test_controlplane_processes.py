"""Child processes end when they should, and say why when they end by themselves."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.controlplane.processes import Process, ProcessError, _seconds, free_port
from tests.controlplane.waiting import eventually

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
]


def started(command: list[str], tmp_path: Path, name: str = "child") -> Process:
    process = Process(name, command, tmp_path / f"{name}.log")
    process.start()
    process.wait_ready(lambda: "up" in process.log_tail().splitlines())
    return process


def test_stop_asks_first_and_insists_later(tmp_path: Path) -> None:
    polite = started(SLEEPER, tmp_path, "polite")
    assert polite.stop() == -15
    stubborn = started(STUBBORN, tmp_path, "stubborn")
    assert stubborn.stop(timeout_s=0.2) == -9
    assert not stubborn.alive


def test_kill_takes_the_children_along(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    process = Process("shell", ["sh", "-c", "sleep 600 & echo $!; wait"], log)
    process.start()
    eventually(lambda: log.exists() and log.read_text().strip(), "the shell names its child")
    child = int(log.read_text())

    process.kill()

    def gone() -> bool:
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        return state == "Z"

    if sys.platform == "linux":
        eventually(gone, "the shell's child is gone", timeout_s=10)
    else:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_it_starts_again_and_its_log_goes_on(tmp_path: Path) -> None:
    process = started(SLEEPER, tmp_path)
    first = process.pid
    process.stop()
    process.start()
    process.wait_ready(lambda: process.log.read_text().count("up") == 2)
    assert process.pid != first
    process.kill()


def test_an_early_end_is_reported_with_the_log(tmp_path: Path) -> None:
    process = Process("child", ["sh", "-c", "echo no such luck; exit 3"], tmp_path / "child.log")
    process.start()
    with pytest.raises(ProcessError, match="no such luck"):
        process.wait_ready(lambda: False)


def test_cpu_time_is_that_of_the_child(tmp_path: Path) -> None:
    process = Process("child", ["sh", "-c", "while :; do :; done"], tmp_path / "child.log")
    process.start()
    eventually(lambda: process.cpu_seconds() > 0.2, "the child works", timeout_s=30)
    before = time.process_time()
    process.kill()
    assert time.process_time() - before < 1


def test_times_of_ps_are_read() -> None:
    assert _seconds("0:01.50") == 1.5
    assert _seconds("02:03:04") == 7384
    assert _seconds("1-00:00:01") == 86401


def test_ports_are_given_once() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
