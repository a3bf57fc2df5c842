"""What the end-to-end tests measure is shown at the end of the run. Nothing there is asserted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

Measured = Callable[[str], None]
_LINES: Final = pytest.StashKey[list[str]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """Takes lines for the end of the run."""
    lines = request.config.stash.setdefault(_LINES, [])
    return lambda line: lines.append(f"{request.node.name}: {line}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(_LINES, [])
    if lines:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.line(line)
