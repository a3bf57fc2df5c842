"""Thousands of offered node names, as text until somebody wants to see them all.

kube-scheduler asks about a planned pod with every feasible name, and the answer needs to know only whether one of them
is there. Looking for it in the bytes costs a fifth of making thousands of strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, overload

from pydantic_core import from_json

from extender_api.errors import MalformedRequest

WORTHWHILE_BYTES: Final = 16_384
"""Shorter bodies are read as a whole."""
_SEAM: Final = b'},"Nodes":null,"NodeNames":["'
_END: Final = b'"]}'


def split(body: bytes) -> tuple[bytes, NameList] | None:
    """The bytes up to the pod as an object of its own, and the names; None when the body is not plainly of that form.

    The form is what Go's encoder writes: pod, null, names, and nothing after them. When the first part is valid JSON,
    the pod ended at the seam. No bracket before the last two bytes means that the list goes to the end, no backslash
    that its quotes are all delimiters.
    """
    if len(body) < WORTHWHILE_BYTES:
        return None
    seam = body.find(_SEAM)
    start = seam + len(_SEAM) - 2
    if seam < 0 or not body.endswith(_END):
        return None
    if body.find(b"]", start) != len(body) - 2 or body.find(b"\\", start) >= 0:
        return None
    return body[: seam + 1] + b"}", NameList(body, start)


class NameList(Sequence[str]):
    """Names in a JSON list, at least one. Reading them all may raise MalformedRequest; a name that is found may not."""

    __slots__ = ("_body", "_names", "_start")

    def __init__(self, body: bytes, start: int) -> None:
        self._body = body
        self._start = start
        self._names: list[str] | None = None

    def __contains__(self, name: object) -> bool:
        if self._names is None and isinstance(name, str) and self._stands(name):
            return True
        return name in self._all()

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._all()[index]

    def _stands(self, name: str) -> bool:
        """Whether the name stands between delimiters. Names that JSON would write otherwise are not found here."""
        if '"' in name or "\\" in name:
            return False
        quoted = b'"%b"' % name.encode()
        at = self._body.find(quoted, self._start)
        return at > 0 and self._body[at - 1] in b"[," and self._body[at + len(quoted)] in b",]"

    def _all(self) -> list[str]:
        if self._names is None:
            self._names = check_names(_parsed(self._body[self._start : -1]))
        return self._names


def check_names(names: list[object]) -> list[str]:
    """The same list, known to hold only texts. Raises MalformedRequest."""
    try:
        "".join(names)  # type: ignore[arg-type]  # the cheapest way to look at every type
    except TypeError:
        raise MalformedRequest("NodeNames is not a list of texts") from None
    return names  # type: ignore[return-value]


def _parsed(text: bytes) -> list[object]:
    try:
        names: list[object] = from_json(text, allow_inf_nan=False, cache_strings=False)
    except ValueError as err:
        raise MalformedRequest(f"NodeNames is not JSON: {err}") from None
    return names
