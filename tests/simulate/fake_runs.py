"""What the processes of a sweep do in tests, instead of simulating."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from scheduler.simulate.task import Task

FAILING_SEED = 13
DEADLY_SEED = 66


def noted(task: Task, folder: Path) -> dict[str, Any]:
    """Writes down that it ran."""
    with (folder / "ran.txt").open("a") as file:
        file.write(f"{task.key}\n")
    return {"seed": task.seed}


def failing(task: Task, folder: Path) -> dict[str, Any]:
    """The same, but one seed fails, and one takes its process with it."""
    if task.seed == FAILING_SEED:
        raise RuntimeError("thirteen\nis out of luck")
    if task.seed == DEADLY_SEED:
        os.kill(os.getpid(), signal.SIGKILL)
    return noted(task, folder)


def endless(task: Task, folder: Path) -> dict[str, Any]:
    """Notes its process, and never ends."""
    (folder / "pid.txt").write_text(str(os.getpid()))
    time.sleep(3600)
    return {}


def ran(folder: Path) -> list[str]:
    """The keys that ran, in their order."""
    path = folder / "ran.txt"
    return path.read_text().splitlines() if path.exists() else []
