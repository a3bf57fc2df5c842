"""Names that are looked for in the bytes: the same answers as from the list."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_api import wire_names, wire_read
from extender_api.errors import MalformedRequest

names = st.lists(st.text("abn1.-", min_size=1, max_size=6), min_size=1, max_size=12)
wild = st.lists(st.text(st.sampled_from('ab",\\]}{é\n'), max_size=6), min_size=1, max_size=8)


def body_of(listed: list[str], *, pod: object = None, ascii_only: bool = False) -> bytes:
    padding = {"metadata": {"uid": "u"}, "padding": "x" * wire_names.WORTHWHILE_BYTES}
    document = {"Pod": padding if pod is None else pod, "Nodes": None, "NodeNames": listed}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=ascii_only).encode()


@settings(deadline=None)
@given(listed=names, other=st.text("abn1.-,\"'", max_size=6))
def test_plain_names_are_split_off_and_found(listed: list[str], other: str) -> None:
    parts = wire_names.split(body_of(listed))
    assert parts is not None
    head, found = parts
    assert json.loads(head)["Pod"]["metadata"] == {"uid": "u"}
    assert all(name in found for name in listed)
    assert (other in found) == (other in listed)
    assert list(found) == listed
    assert len(found) == len(listed)
    assert found[0] == listed[0]
    assert found[1:] == listed[1:]
    assert found


@settings(deadline=None)
@given(listed=names | wild, ascii_only=st.booleans(), other=st.sampled_from(["a", ",", '"', "]", '","', "é"]))
def test_reading_gives_the_same_as_the_whole_document(listed: list[str], ascii_only: bool, other: str) -> None:
    body = body_of(listed, ascii_only=ascii_only)
    args = wire_read.read_args(body)
    assert args["NodeNames"] is not None
    assert (other in args["NodeNames"]) == (other in listed)
    assert list(args["NodeNames"]) == listed


@settings(deadline=None)
@given(listed=names, seam=st.sampled_from(['},"Nodes":null,"NodeNames":["a"]}', '}}],"NodeNames":["a']))
def test_pods_that_hold_something_like_the_seam(listed: list[str], seam: str) -> None:
    pad = "x" * wire_names.WORTHWHILE_BYTES
    pods: tuple[dict[str, object], ...] = (
        {"metadata": {"annotations": {seam: seam}}, "pad": pad},
        {"deep": {"er": {}, "Nodes": None, "NodeNames": ["a"]}, "pad": pad},
        {"pad": pad, "er": {}, "Nodes": None, "NodeNames": ["a"]},
    )
    for pod in pods:
        args = wire_read.read_args(body_of(listed, pod=pod))
        assert args["Pod"] == pod
        assert args["NodeNames"] is not None
        assert list(args["NodeNames"]) == listed


def test_short_bodies_are_read_as_a_whole() -> None:
    assert wire_names.split(b'{"Pod":{},"Nodes":null,"NodeNames":["n1"]}') is None


@pytest.mark.parametrize(
    "tail", ['["n1",]}', '["n1",7,"n2"]}', '["n1","n2]}', '["n1","a":"n2"]}', '["n1""n2"]}', '["n1"}', "null}"]
)
def test_lists_that_are_none_are_refused_when_read(tail: str) -> None:
    pad = "x" * wire_names.WORTHWHILE_BYTES
    body = f'{{"Pod":{{"pad":"{pad}"}},"Nodes":null,"NodeNames":{tail}'.encode()
    with pytest.raises(MalformedRequest):
        list(wire_read.read_args(body)["NodeNames"] or ())
