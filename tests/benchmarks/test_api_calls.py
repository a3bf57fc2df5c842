"""Reading the API server's metrics."""

from __future__ import annotations

from benchmarks.api_calls import ApiCall, counted, per_pod

BEFORE = """\
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 10
apiserver_request_total_other{verb="POST",resource="pods",subresource=""} 99
"""
AFTER = """\
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 10
apiserver_request_total{code="409",resource="pods",subresource="binding",verb="POST"} 2
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 1.8e+01
apiserver_request_total{code="200",resource="nodes",subresource="",verb="LIST"} 1 1700000000
"""


def test_codes_are_added_up_and_other_metrics_left_out() -> None:
    assert counted(BEFORE) == {ApiCall("POST", "pods"): 10}
    assert counted(AFTER)[ApiCall("POST", "pods/binding")] == 20


def test_only_growth_counts() -> None:
    rates = per_pod(counted(BEFORE), counted(AFTER), 10)
    assert list(rates.items()) == [(ApiCall("POST", "pods/binding"), 2.0), (ApiCall("LIST", "nodes"), 0.1)]


def test_what_is_a_write() -> None:
    assert ApiCall("PATCH", "pods").writes
    assert not ApiCall("WATCH", "pods").writes
