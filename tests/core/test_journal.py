from __future__ import annotations

import pytest

from scheduler.journal import Journal, JournalError


def test_nothing_is_recorded_while_no_mark_is_open() -> None:
    journal: Journal[str] = Journal()
    journal.note("before")
    mark = journal.open()
    journal.note("a")
    journal.note("b")
    assert journal.undo(mark) == ["b", "a"]
    assert not journal.recording


def test_an_inner_mark_is_undone_alone() -> None:
    journal: Journal[str] = Journal()
    outer = journal.open()
    journal.note("a")
    inner = journal.open()
    journal.note("b")
    assert journal.undo(inner) == ["b"]
    journal.note("c")
    assert journal.undo(outer) == ["c", "a"]


def test_a_closed_inner_mark_belongs_to_the_outer_one() -> None:
    journal: Journal[str] = Journal()
    outer = journal.open()
    inner = journal.open()
    journal.note("a")
    journal.close(inner)
    assert journal.recording
    assert journal.undo(outer) == ["a"]


def test_the_outer_mark_takes_the_inner_ones_with_it() -> None:
    journal: Journal[str] = Journal()
    journal.open()
    inner = journal.open()
    journal.note("a")
    journal.close()
    assert not journal.recording
    with pytest.raises(JournalError, match="mark 1 is not open, 0 are"):
        journal.undo(inner)


@pytest.mark.parametrize("mark", [-1, 1])
def test_a_mark_must_be_open(mark: int) -> None:
    journal: Journal[str] = Journal()
    journal.open()
    with pytest.raises(JournalError):
        journal.close(mark)
