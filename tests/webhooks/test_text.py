"""Words for reasons: constant for kube-scheduler, with numbers for people."""

from __future__ import annotations

import pytest

from extender_api import text
from scheduler.reason import Code, Reason


def test_every_code_has_a_short_constant_phrase_of_its_own() -> None:
    assert set(text.PHRASES) == set(Code)
    assert len(set(text.PHRASES.values())) == len(Code)
    for phrase in text.PHRASES.values():
        assert 0 < len(phrase) <= 48
        assert not any(sign.isdigit() or sign in ",:;%{}" for sign in phrase)
        assert phrase == phrase.strip().rstrip(".")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            Reason(
                Code.INSUFFICIENT_GPU_MEMORY,
                {"need_mib": 20480, "best_mib": 12288},
                {Code.UNTOLERATED_TAINT: 2, Code.INSUFFICIENT_GPU_MEMORY: 31},
            ),
            "no node fits: 31 nodes: too little GPU memory on any one device (needs 20,480 MiB, most free 12,288 MiB); "
            "2 nodes: untolerated taint",
        ),
        (
            Reason(Code.INSUFFICIENT_GPU_SHARE, {"need_milli": 500, "best_milli": 300, "devices": 2}),
            "too little left on any one GPU (needs 0.5 of a device, most free 0.3 of a device, on 2 devices)",
        ),
        (
            Reason(Code.INSUFFICIENT_CPU, {"need_milli": 2500, "best_milli": 0}, {Code.INSUFFICIENT_CPU: 1}),
            "no node fits: 1 node: too little CPU (needs 2.5 cores, most free 0 cores)",
        ),
        (
            Reason(Code.INSUFFICIENT_MEMORY, {"need_bytes": (3 << 20) + 1, "best_bytes": (3 << 20) - 1}),
            "too little memory (needs 4 MiB, most free 2 MiB)",
        ),
        (
            Reason(Code.INSUFFICIENT_EPHEMERAL_STORAGE, {"need_bytes": 5, "best_bytes": 0}),
            "too little ephemeral storage (needs 5 bytes, most free 0 bytes)",
        ),
        (
            Reason(Code.INSUFFICIENT_RESOURCE, {"resource": "example.com/nic", "need": 8, "free": 1}),
            "too little of an extended resource (example.com/nic: needs 8, most free 1)",
        ),
        (
            Reason(Code.INSUFFICIENT_WHOLE_GPUS, {"need": 1000, "on_node": 3, "zone": "z1"}),
            "too few whole GPUs (needs 1,000, on node 3, zone z1)",
        ),
        (
            Reason(Code.NEED_DISTINCT_DEVICES, {"need": 2, "have": 1}),
            "too few different GPUs with room (needs 2, at most 1)",
        ),
        (
            Reason(Code.INSUFFICIENT_GPU_MEMORY, {"need_mib": 2000, "most_free_mib": 1000}),
            "too little GPU memory on any one device (needs 2,000 MiB, most free 1,000 MiB)",
        ),
        (Reason(Code.NO_NODES), "the cluster has no nodes"),
        (Reason(Code.HELD_BY_OTHER_GATE), "held by another scheduling gate"),
        (
            Reason(Code.INVALID_REQUEST, {"problem": "BAD_FRACTION", "text": "gpu-fraction: write 0.5"}),
            "gpu-fraction: write 0.5",
        ),
        (Reason(Code.INVALID_REQUEST), "the pod's request contradicts itself"),
    ],
)
def test_sentences(reason: Reason, expected: str) -> None:
    assert text.sentence(reason) == expected


def test_equal_counts_are_told_in_a_fixed_order() -> None:
    one = {Code.UNTOLERATED_TAINT: 3, Code.NODE_AFFINITY: 3}
    two = dict(reversed(one.items()))
    assert text.sentence(Reason(Code.NODE_AFFINITY, {}, one)) == text.sentence(Reason(Code.NODE_AFFINITY, {}, two))


def test_document_for_programs() -> None:
    reason = Reason(
        Code.INVALID_REQUEST,
        {"problem": "BAD_FRACTION", "text": "write 0.5"},
    )
    assert text.reason_document(reason) == {
        "code": "INVALID_REQUEST",
        "message": "write 0.5",
        "details": {"problem": "BAD_FRACTION"},
    }
    counted = Reason(Code.NODE_SELECTOR, {"need": 1}, {Code.NODE_SELECTOR: 4})
    assert text.reason_document(counted)["details"] == {"need": 1, "nodes": {"NODE_SELECTOR": 4}}
