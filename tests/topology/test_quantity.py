"""Quantities and shares against a naive reading with Fraction."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import quantity
from topology.quantity import MAX, QuantityError

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A quantity as text, with its value read in the slow and obvious way."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.text("0123456789", max_size=12))
    part = draw(st.text("0123456789", min_size=0 if whole else 1, max_size=12))
    dot = draw(st.booleans()) or not whole
    number = whole + ("." + part if dot else "")
    if draw(st.booleans()):
        suffix = draw(st.sampled_from(sorted(SUFFIXES)))
        factor = SUFFIXES[suffix]
    else:
        exponent = draw(st.integers(-30, 30))
        suffix = (
            draw(st.sampled_from("eE")) + draw(st.sampled_from(["", "+"] if exponent >= 0 else [""])) + str(exponent)
        )
        factor = Fraction(10) ** exponent
    value = Fraction(Decimal((whole or "0") + ("." + part if dot and part else ""))) * factor
    return sign + number + suffix, -value if sign == "-" else value


def away_from_zero(value: Fraction) -> int:
    size = min(math.ceil(abs(value)), MAX)
    return size if value >= 0 else -size


@given(written())
def test_reads_like_fractions(sample: tuple[str, Fraction]) -> None:
    text, value = sample
    assert quantity.parse(text) == value
    assert quantity.whole(text) == away_from_zero(value)
    assert quantity.cpu_milli(text) == away_from_zero(value * 1000)


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "Ki", "Mi", "Gi"]))
def test_common_forms_read_the_same_as_rare_ones(number: int, suffix: str) -> None:
    # a leading plus takes the general way, without it the text takes the short one
    text = f"{number}{suffix}"
    assert quantity.whole(text) == quantity.whole("+" + text)
    assert quantity.cpu_milli(text) == quantity.cpu_milli("+" + text)


def reads(text: str) -> bool:
    try:
        quantity.parse(text)
    except QuantityError:
        return False
    return True


@given(st.one_of(st.text(max_size=12), st.text("0123456789.eEimkKMn+-", max_size=8)))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    if reads(text):
        assert quantity.whole(text) == away_from_zero(quantity.parse(text))
        return
    for read in (quantity.parse, quantity.whole, quantity.cpu_milli):
        with pytest.raises(QuantityError) as caught:
            read(text)
        assert repr(text) in str(caught.value)


NO_QUANTITIES = (
    *("", " ", "1 ", " 1", ".", "+", "m", "Ki", "1K", "1ki", "1mi", "1e", "1e+", "1.5.5", "--1", "1Kim"),
    *("0x10", "1_000", "٣", "nan", "inf", "1e1000", "9" * 300),
)


@pytest.mark.parametrize("text", NO_QUANTITIES)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a Kubernetes quantity"):
        quantity.parse(text)
    with pytest.raises(QuantityError):
        quantity.whole(text)
    with pytest.raises(QuantityError):
        quantity.cpu_milli(text)


@pytest.mark.parametrize(
    "value", [True, None, float("nan"), float("inf"), [], 10**400, pytest.param(10**5000, id="huge")]
)
def test_refuses_what_is_no_number(value: object) -> None:
    with pytest.raises(QuantityError, match="is not a Kubernetes quantity"):
        quantity.whole(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("0.1", 1, 100),
        ("1.0001", 2, 1001),
        ("0", 0, 0),
        ("1n", 1, 1),
        ("-0.5", -1, -500),
        ("12E", MAX, MAX),
        ("12e3", 12_000, 12_000_000),
        ("12E3", 12_000, 12_000_000),
        ("1e-3", 1, 1),
        ("0.1Gi", 107_374_183, 107_374_182_400),
        ("1.5Ki", 1536, 1_536_000),
        ("9223372036854775807", MAX, MAX),
        ("9223372036854775808", MAX, MAX),
        ("-9E", -9 * 10**18, -MAX),
        (2, 2, 2000),
        (0.1, 1, 100),
        (1e-7, 1, 1),
        (1e20, MAX, MAX),
    ],
)
def test_rounds_up_and_stays_in_64_bits(text: str | int | float, whole: int, milli: int) -> None:
    assert quantity.whole(text) == whole
    assert quantity.cpu_milli(text) == milli


def test_numbers_and_texts_do_not_share_a_cached_answer() -> None:
    assert quantity.whole(1) == quantity.whole("1") == quantity.whole(1.0) == 1
    with pytest.raises(QuantityError):
        quantity.whole(True)


def test_texts_of_other_types_are_texts() -> None:
    class Text(str):
        __slots__ = ()

    assert quantity.whole(Text("2Ki")) == 2048
    with pytest.raises(QuantityError):
        quantity.whole(Text("2ki"))


def test_amounts_use_millicores_for_cpu_only() -> None:
    read = quantity.amounts({"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": 8, "pods": "110"})
    assert read == {"cpu": 1500, "memory": 2 << 30, "nvidia.com/gpu": 8, "pods": 110}
    assert quantity.amount("cpu", "2") == 2000
    assert quantity.amount("memory", "2") == 2


def test_amounts_name_the_resource_that_is_wrong() -> None:
    with pytest.raises(QuantityError, match=r"^memory: '12Xi' is not"):
        quantity.amounts({"cpu": "1", "memory": "12Xi"})


def test_a_long_text_is_quoted_shortly() -> None:
    with pytest.raises(QuantityError) as caught:
        quantity.parse("z" * 10_000)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0.29", 290), ("0.57", 570), ("0.58", 580), ("0.5", 500), (".5", 500), ("0.001", 1), ("0.999", 999),
        ("00.125", 125), ("0.50", 500), ("0.500", 500),
    ],
)  # fmt: skip
def test_shares_are_read_as_decimals(text: str, milli: int) -> None:
    assert quantity.share_milli(text) == milli


@given(st.integers(1, 999))
def test_every_share_of_three_decimals_is_exact(milli: int) -> None:
    assert quantity.share_milli(f"0.{milli:03d}") == milli
    assert quantity.share_milli(str(Decimal(milli) / 1000)) == milli


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0.1234", "more than three decimals"),
        ("0.5000", "more than three decimals"),
        ("0", "not above 0"),
        ("0.000", "not above 0"),
        ("1", "not below 1"),
        ("1.0", "not below 1"),
        ("2.5", "not below 1"),
        ("-0.5", "no plain decimal"),
        ("+0.5", "no plain decimal"),
        ("5e-1", "no plain decimal"),
        ("0,5", "no plain decimal"),
        ("50%", "no plain decimal"),
        ("500m", "no plain decimal"),
        (" 0.5", "no plain decimal"),
        ("0.5\n", "no plain decimal"),
        ("half", "no plain decimal"),
        (".", "no plain decimal"),
        ("", "no plain decimal"),
        ("0.٣", "no plain decimal"),
        ("0." + "5" * 5000, "no plain decimal"),
    ],
)
def test_refuses_what_is_no_share_and_says_what_is(text: str, why: str) -> None:
    with pytest.raises(QuantityError, match=why) as caught:
        quantity.share_milli(text)
    assert "above 0 and below 1 with at most three decimals" in str(caught.value)


def test_share_memory_is_rounded_down() -> None:
    assert quantity.share_memory_mib(500, 79112) == 39556
    assert quantity.share_memory_mib(290, 100) == 29
    assert quantity.share_memory_mib(500, 15) == 7
    assert quantity.share_memory_mib(500, 0) == 0


@given(st.lists(st.integers(1, 999), min_size=1, max_size=30), st.integers(0, 300_000))
def test_shares_that_add_up_to_a_device_fit_into_its_memory(shares: list[int], usable_mib: int) -> None:
    fitting = [milli for index, milli in enumerate(shares) if sum(shares[: index + 1]) <= 1000]
    assert sum(quantity.share_memory_mib(milli, usable_mib) for milli in fitting) <= usable_mib
