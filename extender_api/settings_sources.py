"""Where settings come from: defaults < file < environment < flags. Each mistake names its key and its source."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from extender_api import settings_fields
from extender_api.errors import SettingsError
from extender_api.settings import Settings
from extender_api.settings_fields import ENV_NESTING, ENV_PREFIX
from extender_api.settings_yaml import read_mapping

CONFIG_ENV: Final = "TANGRAM_CONFIG"
"""Names the file where no flag does."""

SERVICE_LINK: Final = re.compile(
    r"TANGRAM(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes puts into the environment of every container beside a Service named tangram or tangram-…"""

SHOWN: Final = 80


class Given(NamedTuple):
    """A value and the words for where it was given."""

    value: Any
    source: str


Layer = Mapping[tuple[str, ...], Given]


def load(
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """The settings in force. `flags` maps keys such as `lease.mode` to values; None means not given.

    Without `config` the file is the one that $TANGRAM_CONFIG names, if any. Raises SettingsError with all problems.
    """
    environ = environ or {}
    if config is None and environ.get(CONFIG_ENV):
        config = Path(environ[CONFIG_ENV])
    problems: list[str] = []
    given = {
        **_file_layer(config, problems),
        **_env_layer(environ, problems),
        **_flag_layer(flags or {}, problems),
    }
    settings = _validated(given, problems)
    if settings is None or problems:
        raise SettingsError(problems)
    return settings


def _validated(given: Layer, problems: list[str]) -> Settings | None:
    document: dict[str, Any] = {}
    for path, value in given.items():
        section = document
        for name in path[:-1]:
            section = section.setdefault(name, {})
        section[path[-1]] = value.value
    try:
        return Settings.model_validate(document)
    except ValidationError as err:
        seen: set[tuple[str, ...]] = set()
        for detail in err.errors(include_url=False):
            problems.extend(_lines(detail, given, seen))
        return None


def _lines(detail: ErrorDetails, given: Layer, seen: set[tuple[str, ...]]) -> Iterator[str]:
    """One line for the first complaint about a key; the whole model's complaints as they are."""
    where = tuple(str(part) for part in detail["loc"])
    for length in range(len(where), 0, -1):
        field = settings_fields.fields().get(where[:length])
        if field is None:
            continue
        if field.path not in seen:
            seen.add(field.path)
            value, source = given[field.path]
            inner = "".join(f"[{part}]" for part in where[length:] if part != "[key]")
            problem = f" ({detail['ctx']['error']})" if detail["type"] == "value_error" else ""
            yield f"{field.key}{inner} ({source}): given {_shown(value)}{problem}; allowed: {field.allowed}"
        return
    yield str(detail["msg"]).removeprefix("Value error, ")


def _file_layer(path: Path | None, problems: list[str]) -> Layer:
    if path is None:
        return {}
    source = f"file {path}"
    try:
        document = read_mapping(path)
    except SettingsError as err:
        problems.extend(err.problems)
        return {}
    return dict(_walk(document, (), source, problems))


def _walk(
    document: Mapping[str, Any], path: tuple[str, ...], source: str, problems: list[str]
) -> Iterator[tuple[tuple[str, ...], Given]]:
    for name, value in document.items():
        here = (*path, str(name))
        if value is None and (here in settings_fields.fields() or _is_section(here)):
            continue  # a key whose values are all commented out
        if here in settings_fields.fields():
            yield here, Given(value, source)
        elif not _is_section(here):
            problems.append(_unknown(".".join(here), source, _keys()))
        elif isinstance(value, Mapping):
            yield from _walk(value, here, source, problems)
        else:
            keys = [field.path[-1] for field in settings_fields.fields().values() if field.path[:-1] == here]
            problems.append(f"{'.'.join(here)} ({source}): given {_shown(value)}; allowed: the keys {', '.join(keys)}")


def _env_layer(environ: Mapping[str, str], problems: list[str]) -> Layer:
    by_name = {field.env: field for field in settings_fields.fields().values()}
    layer: dict[tuple[str, ...], Given] = {}
    for name, value in environ.items():
        if not name.startswith(ENV_PREFIX) or name == CONFIG_ENV or not value:
            continue
        if name in by_name:
            layer[by_name[name].path] = Given(value, f"environment {name}")
        elif not SERVICE_LINK.fullmatch(name):
            key = name.removeprefix(ENV_PREFIX).lower().replace(ENV_NESTING, ".")
            problems.append(_unknown(key, f"environment {name}", _keys()))
    return layer


def _flag_layer(flags: Mapping[str, object], problems: list[str]) -> Layer:
    by_key = {field.key: field for field in settings_fields.fields().values()}
    layer: dict[tuple[str, ...], Given] = {}
    for key, value in flags.items():
        if value is None:
            continue
        if key in by_key:
            layer[by_key[key].path] = Given(value, f"flag {by_key[key].flag}")
        else:
            problems.append(_unknown(key, "flags", _keys()))
    return layer


def _is_section(path: tuple[str, ...]) -> bool:
    return len(path) == 1 and path[0] in settings_fields.sections()


def _keys() -> Sequence[str]:
    return [field.key for field in settings_fields.fields().values()]


def _unknown(key: str, source: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"allowed: {', '.join(known)}"
    return f"{key} ({source}): no such setting; {hint}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
