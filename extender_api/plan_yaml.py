"""YAML as kubectl reads it: JSON's types and no others."""

from __future__ import annotations

from typing import Any

import yaml

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIME = "tag:yaml.org,2002:timestamp"


class Loader(_BASE):  # type: ignore[misc]
    """A time stays text."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIME]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}
