"""`tangram demo`: see extender_api.demo."""

from __future__ import annotations

from extender_api.demo.command import add_arguments, run

__all__ = ["add_arguments", "run"]
