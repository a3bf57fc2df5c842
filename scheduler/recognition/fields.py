"""Reading JSON and words that anybody may have written: what has the wrong type is not there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from topology.vocabulary import Word

_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


def section(value: object, *path: str) -> Mapping[str, Any]:
    """The object at a path, empty where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def text(value: object, *path: str) -> str:
    """The string at a path, "" where there is none."""
    found = section(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def texts(value: object, *path: str) -> dict[str, str]:
    """The strings of a map at a path, such as labels."""
    return {key: found for key, found in section(value, *path).items() if isinstance(found, str)}


def entries(value: object, *path: str) -> tuple[Mapping[str, Any], ...]:
    """The objects in the list at a path."""
    found = section(value, *path[:-1]).get(path[-1])
    return tuple(entry for entry in found if isinstance(entry, Mapping)) if isinstance(found, list) else ()


def count(value: object, *path: str) -> int | None:
    """The whole number from 0 on at a path; None where there is none."""
    found = section(value, *path[:-1]).get(path[-1])
    whole = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 31
    return found if whole else None


def said(words: Mapping[str, str], word: Word) -> str:
    """What labels or annotations say under a word, in its first spelling there; "" when they say nothing."""
    # Asked dozens of times about every pod.
    if not words:
        return ""
    value = words.get(word.key)
    if value:
        return value
    for others in (word.aliases, word.deprecated):
        for key in others:
            if value := words.get(key):
                return value
    return ""


def spelled(words: Mapping[str, str], word: Word) -> str:
    """The spelling that `said` takes, for people."""
    return next((key for key in word.spellings if words.get(key)), word.key)


def number(written: str) -> int | None:
    """A whole number from 0 on that stands in a label or annotation."""
    return int(written) if _COUNT.fullmatch(written) else None


def parsed(written: str) -> object:
    """JSON that stands in an annotation; None when it is none."""
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None
