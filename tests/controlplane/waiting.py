"""Waiting for something to become true. Times are generous limits, never what a test measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], what: str, timeout_s: float = 60.0, every_s: float = 0.05) -> T:
    """The first true value that `probe` gives. AssertionError, naming `what` and the last value, when time is over."""
    deadline = time.monotonic() + timeout_s
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not so after {timeout_s:.0f} s, but {value!r}")
        time.sleep(every_s)
    return value
