"""Bodies as Go writes them."""

from __future__ import annotations

import json

from benchmarks.go_client import args_body, bind_body, go_json, node_names
from benchmarks.pods import pod


def test_go_json_has_no_blanks_and_escapes_html() -> None:
    assert go_json({"b": "<&>é\u2028", "a": None}) == b'{"b":"\\u003c\\u0026\\u003e\xc3\xa9\\u2028","a":null}'


def test_args_have_gos_keys_in_gos_order() -> None:
    body = args_body(pod("p", "u"), node_names(3))
    assert body.startswith(b'{"Pod":{"metadata":{"name":"p",')
    assert b'"Nodes":null,"NodeNames":["gpu-pool-a100-europe-0000000",' in body
    assert list(json.loads(body)) == ["Pod", "Nodes", "NodeNames"]


def test_the_pod_is_as_large_as_those_of_real_clusters() -> None:
    assert 5_500 < len(go_json(pod("trainer-6d4cf56db6-abcde", "u"))) < 6_700
    assert {len(name) for name in node_names(5000)} == {28}


def test_bind_args() -> None:
    expected = b'{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n1"}'
    assert bind_body("p", "ns", "u", "n1") == expected
