from __future__ import annotations

import json
from typing import Any

import pytest

from extender_api.cluster import decode
from extender_api.cluster.codec import Event
from extender_api.cluster.decode import (
    DecodeError,
    LeaseFacts,
    NamespaceFacts,
    decode_lease,
    decode_namespace,
    decode_node,
)
from tests.cluster.objects import Object, node, pod
from topology import vocabulary
from topology.node import NodeFacts, Taint


def test_a_node() -> None:
    raw = {
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "uid": "u1",
            "labels": {"nvidia.com/gpu.product": "A100"},
            "annotations": {vocabulary.NODE_GPU_UUIDS: "GPU-1", "node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
                {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ],
        },
        "status": {
            "capacity": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110"},
            "allocatable": {"cpu": "63500m", "memory": "500Gi", "nvidia.com/gpu": "7", "pods": "110"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
            ],
            "images": [{"names": ["x"], "sizeBytes": 3}],
        },
    }
    expected = NodeFacts(
        name="n1",
        uid="u1",
        labels={"nvidia.com/gpu.product": "A100"},
        annotations={vocabulary.NODE_GPU_UUIDS: "GPU-1"},
        taints=(Taint("nvidia.com/gpu", "", "NoSchedule"), Taint("k", "v", "NoExecute")),
        unschedulable=True,
        ready=True,
        capacity={"cpu": 64000, "memory": 512 << 30, "nvidia.com/gpu": 8, "pods": 110},
        allocatable={"cpu": 63500, "memory": 500 << 30, "nvidia.com/gpu": 7, "pods": 110},
    )
    assert decode_node(raw) == expected
    assert decode_node(json.dumps(raw)) == expected


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        (None, True),
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "True"}], True),
    ],
)
def test_readiness(conditions: Any, ready: bool) -> None:
    assert decode_node(node(status={"conditions": conditions})).ready is ready


def test_a_heartbeat_changes_nothing() -> None:
    def heartbeat(second: int) -> Object:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{second:02}Z"}
        meta = {"resourceVersion": str(second), "annotations": {"volumes.kubernetes.io/attach": str(second)}}
        return node(metadata={"name": "n", **meta}, status={"conditions": [condition]})

    assert decode_node(heartbeat(1)) == decode_node(heartbeat(2))


def test_capacity_and_allocatable_stand_in_for_each_other() -> None:
    facts = decode_node(node(status={"capacity": {"cpu": "2"}}))
    assert facts.allocatable == facts.capacity == {"cpu": 2000}
    assert decode_node(node(status={"allocatable": {"cpu": "3"}})).capacity == {"cpu": 3000}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (node(status={"allocatable": {"memory": "lots"}}), "Node n: status.allocatable.memory: "),
        (node(spec={"taints": [{"key": "k"}]}), "Node n: spec.taints[0].effect: Field required"),
    ],
)
def test_node_errors_name_the_field(raw: Object, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_node(raw)
    assert str(caught.value).startswith(text)


def test_a_namespace() -> None:
    raw = {"metadata": {"name": "team-a", "labels": {"tier": "gold"}}, "status": {"phase": "Active"}}
    assert decode_namespace(raw) == NamespaceFacts("team-a", {"tier": "gold"})


def test_a_lease() -> None:
    spec = {"holderIdentity": "host_1234", "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:00:01.234567Z"}
    assert decode_lease({"metadata": {"name": "l"}, "spec": spec}) == LeaseFacts("l", "host_1234", 1234, 15_000)
    held = {**spec, "acquireTime": "1970-01-01T00:00:00.5Z"}
    assert decode_lease({"metadata": {"name": "l"}, "spec": held}).acquired_ms == 500
    assert decode_lease({"metadata": {"name": "l"}}) == LeaseFacts("l")
    with pytest.raises(DecodeError, match=r"Lease l: spec\.renewTime: "):
        decode_lease({"metadata": {"name": "l"}, "spec": {"renewTime": "soon"}})


# -- pages and events ------------------------------------------------------------------------------------------


def page(*items: Any, **meta: str) -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "9", **meta}, "items": list(items)}).encode()


def test_a_page() -> None:
    found = decode.PODS.page(
        page(pod("a", metadata={"name": "a", "uid": "ua", "resourceVersion": "4"}), **{"continue": "t"})
    )
    (item,) = found.items
    assert (found.version, found.token) == ("9", "t")
    assert (item.key, item.version, item.error) == ("ua", "4", None)
    assert item.facts is not None
    assert item.facts.name == "a"


def test_an_empty_page_may_have_null_items() -> None:
    assert decode.NODES.page(b'{"metadata":{"resourceVersion":"3"},"items":null}').items == []


@pytest.mark.parametrize(
    "bad",
    [
        pod("bad", spec={"priority": "high"}),  # validation refuses it
        pod("bad", spec={"overhead": {"cpu": "much"}}),  # a closer look refuses it
    ],
)
def test_a_bad_object_does_not_spoil_its_page(bad: Object) -> None:
    found = decode.PODS.page(page(pod("a"), bad, pod("b")))
    assert [item.key for item in found.items] == ["uid-a", "uid-bad", "uid-b"]
    assert [item.facts is None for item in found.items] == [False, True, False]
    assert str(found.items[1].error).startswith("Pod default/bad: spec.")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"metadata":{},"items":{}}', b'{"items":[]}'])
def test_what_is_no_list(body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode.PODS.page(body)


def event(kind: str, item: Any, **more: Any) -> bytes:
    return json.dumps({**more, "type": kind, "object": item}, separators=(",", ":")).encode()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event(kind: str) -> None:
    got = decode.PODS.event(event(kind, pod("a", metadata={"name": "a", "uid": "ua", "resourceVersion": "5"})))
    assert (got.type, got.version) == (kind, "5")
    assert got.found is not None
    assert got.found.facts is not None
    assert got.found.key == "ua"


@pytest.mark.parametrize("more", [{}, {"first": 1}])
def test_a_bookmark_has_only_a_version(more: dict[str, Any]) -> None:
    item = {
        "kind": "Pod",
        "metadata": {"resourceVersion": "8", "creationTimestamp": None},
        "spec": {"containers": None},
    }
    assert decode.PODS.event(event("BOOKMARK", item, **more)) == Event("BOOKMARK", "8")


@pytest.mark.parametrize("more", [{}, {"first": 1}])
def test_an_error_has_code_and_text(more: dict[str, Any]) -> None:
    got = decode.PODS.event(event("ERROR", {"kind": "Status", "code": 410, "message": "too old"}, **more))
    assert (got.type, got.status, got.found) == ("ERROR", (410, "too old"), None)


def test_an_event_with_a_bad_object_still_says_which() -> None:
    bad = pod("a", spec={"priority": "x"})
    bad["metadata"]["resourceVersion"] = "6"
    got = decode.PODS.event(event("MODIFIED", bad))
    assert got.found is not None
    assert (got.found.key, got.version, got.found.facts) == ("uid-a", "6", None)
    assert "spec.priority" in str(got.found.error)


@pytest.mark.parametrize("line", [b"garbage", b"[]", b'{"type":"ADDED"}', b'{"type":3,"object":{}}'])
def test_what_is_no_event(line: bytes) -> None:
    with pytest.raises(DecodeError):
        decode.PODS.event(line)
