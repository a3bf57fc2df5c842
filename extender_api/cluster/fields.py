"""What the decoders of every kind share: errors that name the field, times, and amounts of resources."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from topology import quantity

Path = tuple[str | int, ...]


class DecodeError(ValueError):
    """An object that cannot be read. `where` names it, `path` is the field; str() has both and the problem."""

    def __init__(self, where: str, path: Path, problem: str) -> None:
        self.where = where
        self.path = path_text(path)
        self.problem = problem
        super().__init__(": ".join(part for part in (where, self.path, problem) if part))


class FieldError(ValueError):
    """A field of an object whose name the raiser does not know; decoders turn it into DecodeError."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path_text(path)}: {problem}")


def path_text(path: Path) -> str:
    """A path as people write it: `spec.containers[0].resources.limits['nvidia.com/gpu']`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"['{part}']"
    return text


def first_problem(error: ValidationError) -> FieldError:
    """The first thing that validation complains about."""
    problem = error.errors(include_url=False, include_context=False)[0]
    return FieldError(tuple(problem["loc"]), problem["msg"])


NOTHING: Final[Mapping[str, int]] = {}
_CACHED: Final = 1 << 13
_cache: dict[tuple[tuple[str, Any], ...], Mapping[str, int]] = {}


def amounts(quantities: Mapping[str, Any] | None, *path: str | int) -> Mapping[str, int]:
    """Kubernetes quantities as integers (`cpu` in millicores), read-only: equal input shares one answer.

    Pods come in series with equal resources, so sharing saves time and memory. Raises FieldError with the path of the
    quantity that is none.
    """
    if not quantities:
        return NOTHING
    items = tuple(quantities.items())
    try:
        known = _cache.get(items)
    except TypeError:  # a list or an object where a quantity belongs
        known = None
    if known is not None:
        return known
    try:
        found = quantity.amounts(quantities)
    except quantity.QuantityError:
        raise _bad_quantity(quantities, path) from None
    # Only texts are remembered: True equals 1, but is no quantity.
    if all(type(value) is str for value in quantities.values()):
        if len(_cache) >= _CACHED:
            _cache.clear()
        _cache[items] = found
    return found


def _bad_quantity(quantities: Mapping[str, Any], path: Path) -> FieldError:
    for name, value in quantities.items():
        try:
            quantity.amount(name, value)
        except quantity.QuantityError as err:
            return FieldError((*path, name), str(err))
    raise AssertionError("every quantity can be read alone, but not all together")


def epoch_ms(value: Any, *path: str | int) -> int | None:
    """An RFC 3339 time (text, or datetime as YAML readers make it) as epoch milliseconds; None stays None.

    Times without a zone are UTC. Raises FieldError.
    """
    if value is None:
        return None
    moment = value
    if isinstance(value, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(value)
    if not isinstance(moment, datetime):
        raise FieldError(path, f"{value!r} is not a time such as 2026-01-31T12:00:00Z")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
