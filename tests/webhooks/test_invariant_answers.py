"""Whatever the extender is sent, it answers with HTTP 200 and a well-formed result of the verb."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_api.extender_routes import extender_app
from tests.webhooks.fakes import PATHS, FakeDecider, drive, exchange, golden
from tests.webhooks.go_decoder import check_answer, is_trouble

APP = extender_app(FakeDecider(), limit_bytes=1 << 20)
REQUESTS = [json.loads(golden(name)) for name in (
    "filter_names_request", "filter_nodes_request", "filter_foreign_request",
    "bind_request", "preempt_meta_request", "preempt_full_request",
)]  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["n1", "1e999", "5Gi", "-3", "tangram", "2026-11-30T12:00:00Z"])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


def answered(path: str, body: bytes) -> Any:
    """The answer, checked to be one that kube-scheduler can read."""
    status, headers, raw = drive(exchange(APP, path, body))
    assert status == 200
    assert int(headers["content-length"]) == len(raw)
    answer = json.loads(raw, parse_constant=refuse_constant)
    check_answer(path, answer)
    return answer


def refuse_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every place in a document where a value stands: its container and key."""
    found: list[tuple[Any, Any]] = []
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        found.append((document, key))
        found.extend(places(document[key]))
    return found


@settings(deadline=None)
@given(path=st.sampled_from(PATHS), body=st.binary(max_size=200))
def test_any_bytes(path: str, body: bytes) -> None:
    assert is_trouble(path, answered(path, body))


@settings(deadline=None)
@given(path=st.sampled_from(PATHS), document=values)
def test_any_json(path: str, document: Any) -> None:
    assert is_trouble(path, answered(path, json.dumps(document).encode()))


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_real_requests_with_something_changed(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(PATHS))
    request = copy.deepcopy(data.draw(st.sampled_from(REQUESTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = places(request)
        if not at:
            break
        container, key = at[data.draw(st.integers(0, len(at) - 1))]
        if isinstance(container, dict) and data.draw(st.booleans()):
            del container[key]
        else:
            container[key] = data.draw(values)
    answered(path, json.dumps(request).encode())


@settings(max_examples=300, deadline=None)
@given(
    path=st.sampled_from(PATHS),
    request=st.sampled_from(REQUESTS),
    cut=st.floats(0, 1),
    junk=st.binary(max_size=6),
    padded=st.booleans(),
)
def test_real_requests_cut_or_spoilt(path: str, request: Any, cut: float, junk: bytes, padded: bool) -> None:
    if padded and request.get("NodeNames"):
        request = request | {"NodeNames": [*request["NodeNames"], *(f"node-{at:05}" for at in range(2000))]}
    body = json.dumps(request, separators=(",", ":")).encode()
    at = int(cut * len(body))
    answered(path, body[:at] + junk)
    answered(path, body[:at] + junk + body[at:])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"Pod":' * 5_000,
        b'{"Pod":{"metadata":{"uid":"\\ud800"}}}',
        b"9" * 10_000,
        b" " * (2 << 20),
        b'{"Pod":{},"Nodes":null,"NodeNames":null}',
        b'{"Pod":null,"Nodes":null,"NodeNames":["n1"]}',
        b'{"Pod":{"metadata":{"uid":"u"}},"NodeNames":["n1",null]}',
        b'{"Pod":{"metadata":{"uid":"u"}},"Nodes":{"items":[{}]}}',
        b'{"Pod":{"metadata":{"uid":"u"}},"Nodes":{"items":7}}',
        b'{"Pod":{"metadata":{"uid":"u"},"spec":{"containers":7}},"NodeNames":["n1"]}',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_known_bad_bodies_are_trouble(path: str, body: bytes) -> None:
    assert is_trouble(path, answered(path, body))


def test_numbers_beyond_json_come_back_readable() -> None:
    request = json.loads(golden("filter_nodes_request"))
    body = json.dumps(request).replace('"64"', "1e999", 1).encode()
    answered("/advise/v1/filter", body)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
async def test_bodies_in_any_pieces(chunk: int) -> None:
    _, _, raw = await exchange(APP, "/v1/filter", golden("filter_names_request"), chunk=chunk)
    assert raw == golden("filter_names_answer")


def test_too_large_is_said_and_the_next_call_is_fine() -> None:
    body = b'{"Pod":"' + b"x" * (1 << 20) + b'"}'
    assert answered("/v1/filter", body)["Error"] == "Tangram cannot read the request: more than 1 MiB"
    assert answered("/v1/bind", golden("bind_request"))["Error"] == ""
