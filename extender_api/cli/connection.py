"""Options that say which cluster is meant, and settings from them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from extender_api.errors import TangramError

if TYPE_CHECKING:
    from extender_api.cluster.client import ClusterClient
    from extender_api.settings import Settings

Result = TypeVar("Result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The cluster, as kubectl has it."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig file (default: $KUBECONFIG, ~/.kube/config)")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig file")


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """The settings file."""
    parser.add_argument("--config", metavar="FILE", help="settings file of Tangram; also $TANGRAM_CONFIG")


def settings_of(arguments: argparse.Namespace, **flags: object) -> Settings:
    """The settings of file and environment, with the options and `flags` over them. Raises SettingsError."""
    from extender_api import settings_sources

    given = {
        "kubeconfig": getattr(arguments, "kubeconfig", None),
        "context": getattr(arguments, "context", None),
        **{key.replace("__", "."): value for key, value in flags.items()},
    }
    config = Path(arguments.config) if arguments.config else None
    return settings_sources.load(config, os.environ, given)


async def with_client(settings: Settings, work: Callable[[ClusterClient], Awaitable[Result]]) -> Result:
    """Does something with a client of the cluster that the settings name. Raises TangramError."""
    from extender_api.cluster.access import AccessError
    from extender_api.cluster.answer import Unreachable
    from extender_api.cluster.client import ClientSettings, ClusterClient

    kubeconfig = None if settings.kubeconfig is None else str(settings.kubeconfig)
    try:
        async with await ClusterClient.connect(
            ClientSettings(kubeconfig=kubeconfig, context=settings.context)
        ) as client:
            return await work(client)
    except (AccessError, Unreachable) as err:
        raise TangramError(str(err)) from None
