"""What the webhooks ask the decider and make of its answers."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from fastapi import FastAPI

from extender_api import extender_routes, metrics, text
from extender_api.extender_routes import Webhooks, extender_app, extender_router
from scheduler.pod import PodFacts
from scheduler.reason import Code
from scheduler.verdict import FilterVerdict
from tests.webhooks.fakes import OURS_UID, PATHS, FakeDecider, ask, drive, exchange, golden
from tests.webhooks.go_decoder import is_trouble

REQUESTS = {
    "/v1/filter": "filter_names_request",
    "/v1/prioritize": "filter_names_request",
    "/v1/preempt": "preempt_meta_request",
    "/v1/bind": "bind_request",
    "/advise/v1/filter": "filter_names_request",
    "/advise/v1/prioritize": "filter_names_request",
}


def request_for(path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(golden(REQUESTS[path]))
    return document


def errors_of(verb: str) -> float:
    return metrics.registry.get_sample_value("tangram_extender_errors_total", {"verb": verb}) or 0.0


def test_planned_pod_gets_its_node_and_no_reasons() -> None:
    answer = ask(extender_app(FakeDecider(planned="n3")), "/v1/filter", request_for("/v1/filter"))
    assert answer["NodeNames"] == ["n3"]
    assert answer["FailedNodes"] == answer["FailedAndUnresolvableNodes"] == {}


def test_refusals_are_unresolvable_and_constant() -> None:
    answer = ask(extender_app(FakeDecider(planned="n9")), "/v1/filter", request_for("/v1/filter"))
    assert answer["NodeNames"] == []
    assert answer["FailedNodes"] == {}
    assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(["n1", "n2", "n3"], "planned on another node")


def test_full_nodes_come_back_as_they_were() -> None:
    request = json.loads(golden("filter_nodes_request"))
    verdict = FilterVerdict(nodes=["n3", "n1"])
    answer = ask(extender_app(FakeDecider(verdict=verdict)), "/v1/filter", request)
    items = request["Nodes"]["items"]
    assert answer["Nodes"] == {"metadata": {}, "items": [items[0], items[2]]}
    assert answer["NodeNames"] is None


def test_both_forms_asked_are_both_answered() -> None:
    request = json.loads(golden("filter_nodes_request")) | {"NodeNames": ["n1", "n2", "n3"]}
    answer = ask(extender_app(FakeDecider()), "/v1/filter", request)
    assert answer["NodeNames"] == ["n2"]
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["n2"]


def test_nothing_offered_leaves_nothing_and_asks_nobody() -> None:
    decider = FakeDecider()
    app = extender_app(decider)
    for path in ("/v1/filter", "/advise/v1/filter"):
        answer = ask(app, path, request_for(path) | {"NodeNames": []})
        assert answer["NodeNames"] == []
        assert answer["Error"] == ""
    assert ask(app, "/v1/prioritize", request_for("/v1/prioritize") | {"NodeNames": []}) == []
    assert decider.asked == []


@pytest.mark.parametrize("form", ["filter_names_request", "filter_nodes_request"])
def test_foreign_pods_keep_all_their_nodes(form: str) -> None:
    decider = FakeDecider()
    app = extender_app(decider)
    request = json.loads(golden(form))
    request["Pod"]["spec"]["schedulerName"] = "default-scheduler"
    answer = ask(app, "/v1/filter", request)
    assert answer["NodeNames"] == request["NodeNames"]
    assert answer["Nodes"] == request["Nodes"]
    assert answer["Error"] == ""
    assert ask(app, "/v1/prioritize", request) == []
    assert decider.asked == []


def test_foreign_pods_keep_their_victims() -> None:
    decider = FakeDecider()
    app = extender_app(decider)
    for form in ("preempt_meta_request", "preempt_full_request"):
        request = json.loads(golden(form))
        request["Pod"]["spec"]["schedulerName"] = "default-scheduler"
        answer = ask(app, "/v1/preempt", request)
        assert answer == {"NodeNameToMetaVictims": json.loads(golden("preempt_meta_request"))["NodeNameToMetaVictims"]}
    assert decider.asked == []


def test_foreign_pods_are_asked_about_in_advise_mode() -> None:
    decider = FakeDecider()
    request = json.loads(golden("filter_foreign_request"))
    assert ask(extender_app(decider), "/advise/v1/filter", request)["NodeNames"] == ["n1", "n2", "n3"]
    assert [question[0] for question in decider.asked] == ["advise_filter"]


@pytest.mark.parametrize("path", PATHS)
def test_not_ready_is_trouble_and_never_an_empty_list(path: str) -> None:
    decider = FakeDecider(why_not_ready="caches are not synced")
    before = errors_of(verb_of(path))
    answer = ask(extender_app(decider), path, request_for(path))
    assert is_trouble(path, answer)
    if path.endswith(("filter", "bind")):
        assert answer["Error"] == "Tangram is not ready: caches are not synced"
    assert decider.asked == []
    assert errors_of(verb_of(path)) == before + 1


@pytest.mark.parametrize("path", PATHS)
def test_a_fault_of_ours_is_trouble_and_logged_with_the_pod(path: str, caplog: pytest.LogCaptureFixture) -> None:
    decider = FakeDecider(failure=RuntimeError("a fault"))
    before = errors_of(verb_of(path))
    answer = ask(extender_app(decider), path, request_for(path))
    assert is_trouble(path, answer)
    if path.endswith(("filter", "bind")):
        assert answer["Error"] == text.INTERNAL
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    fields = vars(record)
    assert (fields["namespace"], fields["pod"], fields["uid"]) == ("team-a", "train-0", OURS_UID)
    assert fields["verb"] == verb_of(path)
    assert record.exc_info is not None
    assert errors_of(verb_of(path)) == before + 1


def verb_of(path: str) -> str:
    return path.strip("/").replace("/v1/", "_").removeprefix("v1/")


def test_calls_are_timed() -> None:
    def count() -> float:
        sample = "tangram_extender_request_seconds_count"
        return metrics.registry.get_sample_value(sample, {"verb": "bind"}) or 0.0

    before = count()
    ask(extender_app(FakeDecider()), "/v1/bind", request_for("/v1/bind"))
    assert count() == before + 1


def test_trouble_of_the_engine_is_an_error() -> None:
    decider = FakeDecider(verdict=FilterVerdict(error="its queue no longer admits it"))
    answer = ask(extender_app(decider), "/v1/filter", request_for("/v1/filter"))
    assert answer["Error"] == "its queue no longer admits it"
    assert answer["NodeNames"] is None


def test_a_known_pod_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(document: object) -> PodFacts:
        raise AssertionError("read again")

    monkeypatch.setattr(extender_routes, "decode_pod", refuse)
    known = PodFacts(OURS_UID, "team-a", "train-0", scheduler_name="tangram")
    decider = FakeDecider(pods={OURS_UID: known})
    assert ask(extender_app(decider), "/v1/filter", request_for("/v1/filter"))["NodeNames"] == ["n2"]
    assert decider.asked[0][1] is known


def test_scores_are_whole_numbers() -> None:
    decider = FakeDecider(scores=[("n1", 10), ("n2", True), ("n3", 0)])
    answer = ask(extender_app(decider), "/v1/prioritize", request_for("/v1/prioritize"))
    assert answer == [{"Host": "n1", "Score": 10}, {"Host": "n2", "Score": 1}, {"Host": "n3", "Score": 0}]


def test_fewer_victims_violate_fewer_budgets() -> None:
    decider = FakeDecider(victims={"n1": [], "n2": ["uid-c"]})
    answer = ask(extender_app(decider), "/v1/preempt", request_for("/v1/preempt"))
    assert answer["NodeNameToMetaVictims"] == {
        "n1": {"Pods": [], "NumPDBViolations": 0},
        "n2": {"Pods": [{"UID": "uid-c"}], "NumPDBViolations": 1},
    }


def test_candidates_without_victims_are_understood() -> None:
    decider = FakeDecider()
    request = request_for("/v1/preempt") | {
        "NodeNameToMetaVictims": {"n1": None, "n2": {"Pods": None}, "n3": {"Pods": [], "NumPDBViolations": 0}}
    }
    answer = ask(extender_app(decider), "/v1/preempt", request)
    assert decider.asked[0][2] == {"n1": [], "n2": [], "n3": []}
    assert list(answer["NodeNameToMetaVictims"]) == ["n1", "n2", "n3"]


@pytest.mark.parametrize("path", PATHS)
def test_keys_in_any_case(path: str) -> None:
    request = request_for(path)
    lower = {key.lower(): value for key, value in request.items()} | {"unknown": [1]}
    app = extender_app(FakeDecider())
    assert ask(app, path, lower) == ask(app, path, request)


@pytest.mark.parametrize("path", ["/v1/filter", "/v1/prioritize", "/v1/preempt"])
def test_plan_mode_needs_a_uid(path: str) -> None:
    decider = FakeDecider()
    request = request_for(path)
    del request["Pod"]["metadata"]["uid"]
    assert is_trouble(path, ask(extender_app(decider), path, request))
    assert decider.asked == []


@pytest.mark.parametrize("key", ["PodName", "PodNamespace", "PodUID", "Node"])
@pytest.mark.parametrize("value", ["", None, 7, ["x"]])
def test_bind_needs_all_its_members(key: str, value: object) -> None:
    decider = FakeDecider()
    answer = ask(extender_app(decider), "/v1/bind", request_for("/v1/bind") | {key: value})
    assert key in answer["Error"]
    assert decider.asked == []


async def test_a_router_answers_the_same_as_the_application() -> None:
    app = FastAPI()
    app.include_router(extender_router(FakeDecider(), limit_bytes=1000))
    for path in PATHS:
        body = golden(REQUESTS[path])
        status, headers, answer = await exchange(app, path, body)
        assert status == 200
        assert headers["content-length"] == str(len(answer))
        assert answer == (await exchange(extender_app(FakeDecider()), path, body))[2]
    _, _, answer = await exchange(app, "/v1/bind", b" " * 1001)
    assert "MiB" in json.loads(answer)["Error"]


def test_endpoints_are_plain_functions() -> None:
    webhooks = Webhooks(FakeDecider())
    args = json.loads(golden("filter_names_request"))
    assert webhooks.filter(args)["NodeNames"] == ["n2"]


def test_other_paths_and_methods_are_not_ours() -> None:
    app = extender_app(FakeDecider())
    assert drive(exchange(app, "/v1/nothing", b"{}"))[0] == 404
    assert drive(exchange(app, "/v1/filter", b"", method="GET"))[0] == 405


def test_openapi_describes_the_wire_types() -> None:
    app = extender_app(FakeDecider())
    status, headers, page = drive(exchange(app, "/docs", b"", method="GET"))
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert b"/openapi.json" in page
    status, _, body = drive(exchange(app, "/openapi.json", b"", method="GET"))
    document = json.loads(body)
    assert status == 200
    assert sorted(document["paths"]) == sorted(PATHS)
    schemas = document["components"]["schemas"]
    references = [part.split('"')[0] for part in body.decode().split('"#/components/schemas/')[1:]]
    assert references
    assert set(references) <= set(schemas)
    assert list(schemas["ExtenderFilterResult"]["properties"]) == [
        "Nodes",
        "NodeNames",
        "FailedNodes",
        "FailedAndUnresolvableNodes",
        "Error",
    ]
    responses = document["paths"]["/v1/filter"]["post"]["responses"]
    assert list(responses) == ["200"]
    answer = responses["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/ExtenderFilterResult"}


def test_refusals_have_a_phrase_for_every_code() -> None:
    names = [f"n{at}" for at, _ in enumerate(Code)]
    verdict = FilterVerdict(refused=dict(zip(names, Code, strict=True)))
    answer = ask(extender_app(FakeDecider(verdict=verdict)), "/v1/filter", request_for("/v1/filter"))
    assert answer["FailedAndUnresolvableNodes"] == {
        name: text.phrase(code) for name, code in zip(names, Code, strict=True)
    }
