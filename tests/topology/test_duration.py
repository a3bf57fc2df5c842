from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import duration
from topology.duration import DurationError


def problem(text: str) -> str:
    """What is said about a text, "" where it is read."""
    try:
        assert duration.parse_ms(text) >= 0
    except DurationError as err:
        return str(err)
    return ""


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("90s", 90_000),
        ("5m", 300_000),
        ("5m0s", 300_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w1d", 691_200_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("0.0001s", 1),
        ("0s", 0),
        (" 5m ", 300_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert duration.parse_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", "5min", "1h 30m", "1e3s", ".5h", "٣s", "1" * 70 + "s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(DurationError, match="is not a duration such as 90s"):
        duration.parse_ms(text)


def test_whoever_means_for_ever_is_told_so() -> None:
    with pytest.raises(DurationError, match="longer than ten years"):
        duration.parse_ms("522w6d1s")
    with pytest.raises(DurationError, match="longer than ten years"):
        duration.parse_ms("9" * 60 + "d")
    assert duration.parse_ms("522w6d") == duration.MOST_MS


@given(st.from_regex(duration.PATTERN, fullmatch=True).filter(lambda text: len(text) <= 64 and text.isascii()))
def test_what_the_pattern_of_the_api_takes_is_read(text: str) -> None:
    assert problem(text) == "" or "longer than ten years" in problem(text)


@given(st.text(alphabet="0123456789.smhdw -", max_size=12))
def test_what_is_read_is_what_the_pattern_takes(text: str) -> None:
    form = "is not a duration" not in problem(text)
    assert form is bool(re.fullmatch(duration.PATTERN, text.strip()))
