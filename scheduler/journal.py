"""What was done since a checkpoint, so that it can be undone."""

from __future__ import annotations

from typing import Generic, TypeVar

Change = TypeVar("Change")


class JournalError(RuntimeError):
    """A mark that is not open (any more)."""


class Journal(Generic[Change]):
    """Changes in order, under nested marks. Records nothing while no mark is open."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._marks: list[int] = []

    @property
    def recording(self) -> bool:
        """Whether a mark is open."""
        return bool(self._marks)

    def open(self) -> int:
        """Opens a mark inside those already open and returns it."""
        self._marks.append(len(self._changes))
        return len(self._marks) - 1

    def note(self, change: Change) -> None:
        """Remembers a change if a mark is open."""
        if self._marks:
            self._changes.append(change)

    def undo(self, mark: int) -> list[Change]:
        """Closes the mark and those inside it; returns the changes since, newest first. Raises JournalError."""
        begin = self._begin(mark)
        undone = self._changes[begin:]
        del self._changes[begin:]
        del self._marks[mark:]
        undone.reverse()
        return undone

    def close(self, mark: int = 0) -> None:
        """Closes the mark and those inside it; their changes stand, unless an enclosing mark is undone.

        Raises JournalError.
        """
        self._begin(mark)
        del self._marks[mark:]
        if not self._marks:
            self._changes.clear()

    def _begin(self, mark: int) -> int:
        if not 0 <= mark < len(self._marks):
            raise JournalError(f"mark {mark} is not open, {len(self._marks)} are")
        return self._marks[mark]
