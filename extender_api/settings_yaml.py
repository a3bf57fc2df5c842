"""The settings file: read without silence about what YAML lets pass, and written as a commented example."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from extender_api import settings_fields
from extender_api.errors import SettingsError
from extender_api.yaml_doubles import NoDoubles


class _Loader(NoDoubles, yaml.SafeLoader):
    """What PyYAML reads, without doubles."""


def read_mapping(path: Path) -> Mapping[str, Any]:
    """The document of a settings file; an empty file is an empty mapping. Raises SettingsError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
        raise SettingsError([f"file {path}: cannot be read: {reason}"]) from None
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        at = f" line {mark.line + 1}" if mark is not None else ""
        raise SettingsError([f"file {path}{at}: {getattr(err, 'problem', None) or err}"]) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError([f"file {path}: allowed: a mapping of settings"])
    return document


def example() -> str:
    """A settings file with every key at its default, commented out, and what it is for."""
    lines = ["# Settings of Tangram. Every key is optional; what stands here is the default.", ""]
    section = ""
    for field in settings_fields.fields().values():
        *parents, name = field.path
        indent = "  " if parents else ""
        if parents and parents[0] != section:
            section = parents[0]
            lines += ["", f"# {settings_fields.sections()[section]}", f"{section}:"]
        lines += [
            f"{indent}# {field.description}",
            f"{indent}# {field.allowed}; {field.env}, {field.flag}",
            f"{indent}# {name}: {_yaml(field.default)}",
        ]
    return "\n".join(lines) + "\n"


def _yaml(value: object) -> str:
    plain = list(value) if isinstance(value, tuple) else value
    return str(yaml.safe_dump(plain, default_flow_style=True, width=10_000)).removesuffix("...\n").strip()
