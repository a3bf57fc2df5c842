"""The webhook benchmark, small: it must keep running, and what it reports must be there."""

from __future__ import annotations

import uvloop

from benchmarks import webhooks


def test_every_call_is_measured_beside_the_echo() -> None:
    results = uvloop.run(webhooks.run([12], 20))
    calls = {row["call"]: row for row in results["calls"]}
    assert set(calls) == {"filter, planned", "filter, refused", "prioritize, advise", "bind"}
    for row in calls.values():
        assert row["nodes"] == 12
        assert row["tangram"]["times"]["calls"] == row["echo"]["times"]["calls"] == 20
        assert 0 < row["tangram"]["times"]["min_us"] <= row["tangram"]["times"]["p50_us"]
        assert row["ratio"] > 0
    assert set(results["bind_burst_s"]["12"]) == {"tangram", "echo"}
