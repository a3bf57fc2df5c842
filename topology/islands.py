"""Which devices of a node are near one another: on one NUMA node, or on one NVLink island."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from topology.vocabulary import HAMI_NVIDIA_REGISTER, NODE_GPU_ISLANDS

MOST_ISLAND: Final = 9999
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_CSV_FIELDS: Final = 9
_CSV_OLD_FIELDS: Final = 7
_CSV_NUMA, _CSV_INDEX = 5, 7


class _Unreadable(ValueError):
    """An annotation that does not say for each device where it is."""


def islands(annotations: Mapping[str, str], rows: int, warnings: list[str]) -> Sequence[int]:
    """The island of each device by index; all 0 where nothing tells.

    Our annotation, else HAMi's register. What cannot be believed is ignored and told in `warnings`.
    """
    for key, read in ((NODE_GPU_ISLANDS, _listed), (HAMI_NVIDIA_REGISTER, _registered)):
        text = annotations.get(key, "").strip()
        if not text:
            continue
        try:
            return read(text, rows)
        except _Unreadable as problem:
            warnings.append(f"annotation {key}: {problem}; its islands are ignored")
    return [0] * rows


def _listed(text: str, rows: int) -> list[int]:
    """Numbers by index of the device, as in `0,0,1,1`."""
    words = [word.strip() for word in text.split(",")]
    if len(words) != rows:
        raise _Unreadable(f"{len(words)} islands for {rows} devices")
    return [_number(word) for word in words]


def _registered(text: str, rows: int) -> list[int]:
    """HAMi's register: JSON, or lines of fields that end with a colon; either has an index and a NUMA node."""
    pairs = _from_json(text) if text.startswith("[") else _from_csv(text)
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Unreadable("an index stands twice")
    if sorted(found) != list(range(rows)):
        raise _Unreadable(f"it lists {len(found)} devices, not those with index 0 to {rows - 1}")
    return [found[index] for index in range(rows)]


def _from_json(text: str) -> list[tuple[int, int]]:
    try:
        devices = json.loads(text)
    except (ValueError, RecursionError):
        raise _Unreadable("it is no JSON") from None
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        raise _Unreadable("it is no list of devices")
    # zeros are left out
    return [(_plain(device.get("index", 0)), _plain(device.get("numa", 0))) for device in devices]


def _from_csv(text: str) -> list[tuple[int, int]]:
    lines = [line.split(",") for line in text.split(":") if line.strip()]
    if any(len(fields) == _CSV_OLD_FIELDS for fields in lines):
        raise _Unreadable("this old form has no index of the device")
    if any(len(fields) != _CSV_FIELDS for fields in lines):
        raise _Unreadable(f"a device has other than {_CSV_FIELDS} fields")
    return [(_number(fields[_CSV_INDEX]), _number(fields[_CSV_NUMA])) for fields in lines]


def _plain(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_ISLAND:
        raise _Unreadable(f"{str(value)[:32]!r} is no number from 0 to {MOST_ISLAND}")
    return value


def _number(word: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise _Unreadable(f"{word[:32]!r} is no number from 0 to {MOST_ISLAND}")
    return int(word)
