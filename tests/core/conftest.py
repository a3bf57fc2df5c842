"""Kernels are compiled before the first test, and counted after the last one."""

from __future__ import annotations

import pytest
from hypothesis import settings

from scheduler.kernels.warm import warm

# what a machine compiles or swaps in between says nothing about the code
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

LAST = "test_each_kernel_was_compiled_for_one_set_of_types"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The count of specialisations belongs behind every test that may have added one."""
    items.sort(key=lambda item: item.name == LAST)


@pytest.fixture(scope="session", autouse=True)
def warm_kernels() -> None:
    """No test's time-out runs while kernels are compiled."""
    warm()
