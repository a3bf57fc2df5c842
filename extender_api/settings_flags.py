"""One flag per setting, for the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from extender_api import settings_fields
from extender_api.settings_fields import SettingField

SHORTER: Final[Mapping[str, tuple[str, ...]]] = {"queues.file": ("--queues",)}
"""Flags that are written often, beside the one that follows from the key."""
_DEST: Final = "setting "
"""Prefix of the names under which argparse keeps settings: no other option has a blank in its name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--config` and a flag for each setting, grouped by section."""
    parser.add_argument(
        "--config", metavar="FILE", help="settings file (YAML); also $TANGRAM_CONFIG. Environment and flags win over it"
    )
    groups: dict[str, argparse._ArgumentGroup] = {}
    for field in settings_fields.fields().values():
        section = field.path[0] if len(field.path) > 1 else ""
        if section not in groups:
            about = settings_fields.sections().get(section)
            groups[section] = parser.add_argument_group(section or "settings", about)
        _add(groups[section], field)


def _add(group: argparse._ArgumentGroup, field: SettingField) -> None:
    about = f"{field.description} ({field.allowed})".replace("%", "%%")
    dest = _DEST + field.key
    if field.is_switch:
        group.add_argument(field.flag, dest=dest, default=None, action=argparse.BooleanOptionalAction, help=about)
    else:
        metavar = field.path[-1].upper()
        group.add_argument(
            *SHORTER.get(field.key, ()), field.flag, dest=dest, default=None, metavar=metavar, help=about
        )


def given(arguments: argparse.Namespace) -> Mapping[str, object]:
    """The settings that were given as flags: key → value as `settings_sources.load` takes them."""
    return {
        dest.removeprefix(_DEST): value
        for dest, value in vars(arguments).items()
        if dest.startswith(_DEST) and value is not None
    }
