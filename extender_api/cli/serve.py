"""`tangram serve`: the process beside kube-scheduler."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from extender_api import settings_flags
from extender_api.errors import TangramError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A flag for each setting."""
    settings_flags.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal."""
    from extender_api import app, core_settings, listeners, logs, settings_sources
    from extender_api.cluster.access import AccessError

    config = Path(arguments.config) if arguments.config else None
    settings = settings_sources.load(config, os.environ, settings_flags.given(arguments))
    try:
        core_settings.inventory_settings(settings)
    except ValueError as err:
        raise TangramError(f"settings: {err}") from None
    finish_logs = logs.configure(settings.log.level, settings.log.format)
    try:
        listeners.run(app.run(settings))
    except AccessError as err:
        raise TangramError(str(err)) from None
    finally:
        finish_logs()
    return 0
