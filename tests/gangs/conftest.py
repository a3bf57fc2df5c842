"""Kernels are compiled before the first test, and no generated example has a deadline."""

from __future__ import annotations

import pytest
from hypothesis import settings

from scheduler.kernels.warm import warm

# what a machine compiles or swaps in between says nothing about the code
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def warm_kernels() -> None:
    """No test's time-out runs while kernels are compiled."""
    warm()
