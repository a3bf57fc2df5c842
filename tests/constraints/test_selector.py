"""Requirements of label selectors, after Kubernetes' rules."""

from __future__ import annotations

import pytest

from topology.selector import Requirement, holds, integer, matches, well_formed


@pytest.mark.parametrize(
    ("operator", "values", "value", "expected"),
    [
        ("In", ("a", "b"), "a", True),
        ("In", ("a", "b"), "c", False),
        ("In", ("a",), None, False),
        ("In", ("",), "", True),
        ("NotIn", ("a", "b"), "c", True),
        ("NotIn", ("a", "b"), "a", False),
        ("NotIn", ("a",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "a", False),
        ("Gt", ("4",), "5", True),
        ("Gt", ("4",), "4", False),
        ("Gt", ("4",), "10", True),
        ("Gt", ("4",), None, False),
        ("Gt", ("4",), "many", False),
        ("Gt", ("4",), "5.5", False),
        ("Gt", ("4", "5"), "9", False),
        ("Gt", ("x",), "9", False),
        ("Lt", ("4",), "3", True),
        ("Lt", ("4",), "-3", True),
        ("Lt", ("4",), "4", False),
        ("Lt", ("4",), None, False),
        ("Near", ("4",), "4", False),
    ],
)
def test_holds(operator: str, values: tuple[str, ...], value: str | None, expected: bool) -> None:
    assert holds(Requirement("key", operator, values), value) is expected


def test_requirements_are_all_needed_and_none_is_everything() -> None:
    both = (Requirement("a", "In", ("1",)), Requirement("b", "Exists"))
    assert matches(both, {"a": "1", "b": ""})
    assert not matches(both, {"a": "1"})
    assert matches((), {})


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("a",), True),
        ("In", (), False),
        ("NotIn", (), False),
        ("In", ("a", "not a label value"), False),
        ("NotIn", ("-a",), False),
        ("In", ("x" * 63,), True),
        ("In", ("x" * 64,), False),
        ("In", ("",), True),
        ("Exists", (), True),
        ("Exists", ("a",), False),
        ("DoesNotExist", ("a",), False),
        ("Gt", ("1",), True),
        ("Gt", ("one",), False),
        ("Lt", ("1", "2"), False),
        ("Lt", (), False),
        ("Lt", ("-1",), False),  # no label value begins with a dash
        ("Near", ("1",), False),
    ],
)
def test_well_formed(operator: str, values: tuple[str, ...], expected: bool) -> None:
    assert well_formed(Requirement("key", operator, values)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        (str((1 << 63) - 1), (1 << 63) - 1),
        (str(1 << 63), None),
        (str(-(1 << 63)), -(1 << 63)),
        ("1_000", None),
        (" 7", None),
        ("٧", None),
        ("0x7", None),
        ("", None),
        ("9" * 5000, None),
    ],
)
def test_integer_reads_what_go_reads(text: str, expected: int | None) -> None:
    assert integer(text) == expected
