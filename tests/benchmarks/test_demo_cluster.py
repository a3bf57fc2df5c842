"""Sentences in short."""

from __future__ import annotations

import pytest

from benchmarks.demo_cluster import in_short
from extender_api.text import sentence
from scheduler.reason import Code, Reason


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        (Reason(Code.INSUFFICIENT_CPU, {"need_milli": 500}, {Code.INSUFFICIENT_CPU: 31}), "too little CPU"),
        (Reason(Code.UNTOLERATED_TAINT, {}, {Code.UNTOLERATED_TAINT: 1}), "untolerated taint"),
        (Reason(Code.INVALID_REQUEST, {"text": "it is wrong"}), "it is wrong"),
    ],
)
def test_the_first_reason_without_numbers(reason: Reason, short: str) -> None:
    assert in_short(sentence(reason)) == short
