"""Messages as Go writes them: what kube-scheduler sends is understood, what we answer is what Go would write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender_api.extender_routes import extender_app
from scheduler.reason import Code
from scheduler.verdict import FilterVerdict
from tests.webhooks.fakes import GOLDEN, FakeDecider, drive, exchange, golden
from tests.webhooks.go_decoder import check_answer

REFUSED = FilterVerdict(
    refused={
        "n1": Code.INSUFFICIENT_WHOLE_GPUS,
        "n2": Code.INSUFFICIENT_WHOLE_GPUS,
        "n3": Code.UNTOLERATED_TAINT,
    }
)


@pytest.mark.parametrize(
    ("path", "request_name", "decider", "answer_name"),
    [
        ("/v1/filter", "filter_names", {}, "filter_names"),
        ("/v1/filter", "filter_nodes", {}, "filter_nodes"),
        ("/v1/filter", "filter_foreign", {}, "filter_foreign"),
        ("/v1/filter", "filter_names", {"verdict": REFUSED}, "filter_refused"),
        ("/v1/filter", "filter_names", {"why_not_ready": "caches are not synced"}, "filter_error"),
        ("/advise/v1/filter", "filter_names", {"verdict": FilterVerdict(nodes=["n2"])}, "filter_names"),
        ("/advise/v1/filter", "filter_nodes", {"verdict": FilterVerdict(nodes=["n2"])}, "filter_nodes"),
        ("/advise/v1/filter", "filter_names", {"verdict": REFUSED}, "filter_refused"),
        ("/v1/prioritize", "filter_names", {}, "prioritize"),
        ("/v1/prioritize", "filter_nodes", {}, "prioritize"),
        ("/v1/prioritize", "filter_foreign", {}, "prioritize_trouble"),
        ("/v1/prioritize", "filter_names", {"why_not_ready": "no"}, "prioritize_trouble"),
        ("/advise/v1/prioritize", "filter_names", {}, "prioritize"),
        ("/v1/preempt", "preempt_meta", {"victims": {"n1": ["uid-a", "uid-b"]}}, "preempt"),
        ("/v1/preempt", "preempt_full", {"victims": {"n1": ["uid-a", "uid-b"]}}, "preempt"),
        ("/v1/preempt", "preempt_meta", {"why_not_ready": "no"}, "preempt_trouble"),
        ("/v1/bind", "bind", {}, "bind"),
        ("/v1/bind", "bind", {"bind_error": "planned on n1, not on n2"}, "bind_error"),
    ],
)
def test_go_could_have_written_the_answer(
    path: str, request_name: str, decider: dict[str, Any], answer_name: str
) -> None:
    app = extender_app(FakeDecider(**decider))
    status, headers, body = drive(exchange(app, path, golden(f"{request_name}_request")))
    assert status == 200
    assert body == golden(f"{answer_name}_answer")
    assert headers["content-length"] == str(len(body))


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*_answer.json")), ids=lambda file: file.stem)
def test_the_checker_of_the_fuzz_tests_agrees_with_go(file: Any) -> None:
    check_answer(f"/v1/{file.stem.partition('_')[0]}", json.loads(file.read_bytes()))


def test_what_was_understood() -> None:
    decider = FakeDecider()
    app = extender_app(decider)
    drive(exchange(app, "/v1/filter", golden("filter_names_request")))
    drive(exchange(app, "/v1/filter", golden("filter_nodes_request")))
    drive(exchange(app, "/v1/preempt", golden("preempt_meta_request")))
    drive(exchange(app, "/v1/preempt", golden("preempt_full_request")))
    drive(exchange(app, "/v1/bind", golden("bind_request")))
    (_, pod, names), (_, _, from_nodes), (_, _, meta), (_, _, full), bind = decider.asked
    assert (pod.namespace, pod.name, pod.scheduler_name) == ("team-a", "train-0", "tangram")
    assert list(names) == list(from_nodes) == ["n1", "n2", "n3"]
    assert meta == full == {"n1": ["uid-a", "uid-b"], "n2": ["uid-c"]}
    assert bind == ("bind", "team-a", "train-0", "0b0f8a5e-1111-4222-8333-444455556666", "n2")
