"""The command line: one command, `tangram`, also found by kubectl as `kubectl tangram`."""

from __future__ import annotations

from extender_api.cli.main import main

__all__ = ["main"]
