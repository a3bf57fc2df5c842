"""Answers of the API server, and what may come instead of one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API server."""

    status: int
    body: bytes = b""
    retry_after_s: float | None = None

    @property
    def ok(self) -> bool:
        """Any 2xx."""
        return 200 <= self.status < 300

    def json(self) -> dict[str, Any]:
        """The body as an object; an empty one when it is none."""
        try:
            document = json.loads(self.body)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}

    @property
    def message(self) -> str:
        """What a Status object says, else the beginning of the body."""
        said = self.json().get("message")
        return said if isinstance(said, str) else self.body[:200].decode(errors="replace")


class Unreachable(Exception):
    """No answer. `maybe_done` says that the call may have reached the API server and may still take effect."""

    def __init__(self, text: str, *, maybe_done: bool) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done


class Withheld(Unreachable):
    """A write was not sent (any more), since who asked for it may not write now."""

    def __init__(self) -> None:
        super().__init__("not active any more", maybe_done=False)


class Silence(Unreachable):
    """A watch on which nothing was heard for too long; the connection may be half open."""

    def __init__(self, idle_s: float) -> None:
        super().__init__(f"nothing heard for {idle_s:g} s", maybe_done=False)


class Refused(Exception):
    """A watch was answered with an error instead of a stream."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status}: {answer.message}")
        self.answer = answer
