"""The settings as a flat table: one row per key, for error messages, flags and the commented example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from extender_api.settings import Settings

ENV_PREFIX: Final = "TANGRAM_"
ENV_NESTING: Final = "__"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting. `allowed` says in words what it may be; `schema` is its JSON schema, references resolved."""

    path: Path
    description: str
    default: Any
    allowed: str
    schema: Mapping[str, Any]

    @property
    def key(self) -> str:
        """`lease.mode`"""
        return ".".join(self.path)

    @property
    def env(self) -> str:
        """`TANGRAM_LEASE__MODE`"""
        return ENV_PREFIX + ENV_NESTING.join(self.path).upper()

    @property
    def flag(self) -> str:
        """`--lease-mode`"""
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def is_switch(self) -> bool:
        """True or false, nothing else."""
        return self.schema.get("type") == "boolean"


@cache
def fields() -> Mapping[Path, SettingField]:
    """All settings, in the order in which they are written down."""
    document = Settings.model_json_schema()
    return {row.path: row for row in _rows(Settings, document, document["$defs"], ())}


@cache
def sections() -> Mapping[str, str]:
    """Section name → what it is about."""
    return {name: section.__doc__ or "" for name, section in _sections(Settings)}


def default_of(field: FieldInfo) -> Any:
    """The default value, made when it is made by a function."""
    return field.get_default(call_default_factory=True)


def _sections(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield name, field.annotation


def _rows(
    model: type[BaseModel], document: Mapping[str, Any], definitions: Mapping[str, Any], path: Path
) -> Iterator[SettingField]:
    nested = dict(_sections(model))
    for name, field in model.model_fields.items():
        if name in nested:
            section = nested[name]
            yield from _rows(section, definitions[section.__name__], definitions, (*path, name))
        else:
            schema = document["properties"][name]
            yield SettingField((*path, name), field.description or "", default_of(field), _allowed(schema), schema)


def _allowed(schema: Mapping[str, Any]) -> str:
    if "allowed" in schema:
        return str(schema["allowed"])
    if "anyOf" in schema:
        return " or ".join(_allowed(option) for option in schema["anyOf"] if option.get("type") != "null")
    if "enum" in schema:
        return " or ".join(str(value) for value in schema["enum"])
    match schema.get("type"):
        case "boolean":
            return "true or false"
        case "integer" | "number" as kind:
            return ("a whole number" if kind == "integer" else "a number") + _range(schema)
        case _ if schema.get("format") == "path":
            return "a file name"
        case _ if "pattern" in schema:
            return "lower-case letters, digits, '-' and '.'"
        case _:
            return "a text"


def _range(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None and "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']:g}" + (f", at most {most:g}" if most is not None else "")
    if least is not None and most is not None:
        return f" from {_number(least)} to {_number(most)}"
    return f" from {_number(least)} on" if least is not None else ""


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
