"""Errors of this storey that people may see, in one tree:

    TangramError
    ├── SettingsError       settings that cannot be used; one line per problem
    ├── MalformedRequest    a webhook body that is not what kube-scheduler sends
    ├── NoAnswer            a question of kube-scheduler that cannot be answered now
    └── ListenError         an address that cannot be listened on

Objects from the API server that cannot be read have their own error, beside the decoders.
"""

from __future__ import annotations

from collections.abc import Sequence


class TangramError(Exception):
    """Trouble with a text that helps its reader without a traceback."""


class SettingsError(TangramError):
    """Settings that cannot be used. `problems` has one line each: key, source, what was given, what is allowed."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


class MalformedRequest(TangramError):
    """A webhook body that cannot be read; the text says what is wrong with it."""


class NoAnswer(TangramError):
    """A question that cannot be answered now; the text is given to kube-scheduler."""


class ListenError(TangramError):
    """An address that cannot be listened on; the text names it and the cause."""
