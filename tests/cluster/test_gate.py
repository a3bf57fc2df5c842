from __future__ import annotations

from typing import Any

import pytest

from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.cluster.gate import Fate, Step, hand_over
from scheduler.instruction import Nominate, Release
from tests.cluster.conftest import Connect
from tests.cluster.fakeapi import FakeApi, answer, drop, hang
from tests.cluster.objects import GATE, gated_pod, pod

POD = "default/p"


@pytest.fixture
async def client(connect: Connect) -> ClusterClient:
    return await connect(ClientSettings(timeout_s=0.5))


def order(*gates: str, nominate: bool = False) -> Release:
    return Release("uid-p", "default", "p", "n1", gates or (GATE,), nominate)


def gates_left(api: FakeApi) -> list[str]:
    return [gate["name"] for gate in api.collection("pods").objects[POD]["spec"]["schedulingGates"]]


async def test_one_write_takes_our_gate(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod())
    assert await hand_over(client, order()) == Step(Fate.DONE, 200)
    assert gates_left(api) == []
    (call,) = api.calls
    assert call.content_type == "application/json-patch+json"
    assert call.body == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-p"},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]


async def test_gates_of_others_stay(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod(gates=("a/a", GATE, "b/b")))
    assert (await hand_over(client, order("a/a", GATE, "b/b"))).fate is Fate.DONE
    assert gates_left(api) == ["a/a", "b/b"]
    assert len(api.calls) == 1


@pytest.mark.parametrize("known", [("a/a", GATE), (GATE, "c/c"), ("a/a",)])
async def test_a_gate_that_moved_is_found(api: FakeApi, client: ClusterClient, known: tuple[str, ...]) -> None:
    await api.put("pods", gated_pod(gates=("x/x", "y/y", GATE)))
    assert (await hand_over(client, order(*known))).fate is Fate.DONE
    assert gates_left(api) == ["x/x", "y/y"]


@pytest.mark.parametrize("found", [pod(), gated_pod(gates=("a/a",))])
async def test_a_gate_that_is_gone_counts_as_done(api: FakeApi, client: ClusterClient, found: Any) -> None:
    await api.put("pods", found)
    assert (await hand_over(client, order())).fate is Fate.DONE
    assert api.count("PATCH", "p") == 1


@pytest.mark.parametrize("nominate", [False, True])
@pytest.mark.parametrize(
    "found", [None, {**gated_pod(), "metadata": {"name": "p", "namespace": "default", "uid": "new"}}]
)
async def test_a_pod_that_is_gone_or_replaced(api: FakeApi, client: ClusterClient, found: Any, nominate: bool) -> None:
    if found is not None:
        await api.put("pods", found)
    step = await hand_over(client, order(nominate=nominate))
    assert (step.fate, step.status) == (Fate.FAILED, 404)
    if found is not None:
        assert gates_left(api) == [GATE]
        assert "nominatedNodeName" not in api.collection("pods").objects[POD]["status"]


async def test_nomination_comes_first(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod())
    assert (await hand_over(client, order(nominate=True))).fate is Fate.DONE
    assert [(call.path.rsplit("/", 1)[-1], call.content_type) for call in api.calls] == [
        ("status", "application/merge-patch+json"),
        ("p", "application/json-patch+json"),
    ]
    assert api.collection("pods").objects[POD]["status"]["nominatedNodeName"] == "n1"
    assert gates_left(api) == []


async def test_a_forbidden_nomination_does_not_hold_the_pod_up(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod())
    api.fail("PATCH", "status", answer(403, "forbidden"))
    assert (await hand_over(client, order(nominate=True))).fate is Fate.DONE
    assert gates_left(api) == []


async def test_nomination_alone(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", pod())
    assert (await hand_over(client, Nominate("uid-p", "default", "p", "n2"))).fate is Fate.DONE
    assert api.collection("pods").objects[POD]["status"]["nominatedNodeName"] == "n2"
    assert (await hand_over(client, Nominate("other", "default", "p", "n3"))).fate is Fate.FAILED


@pytest.mark.parametrize("fault", [answer(500), answer(503), answer(429), drop, hang])
@pytest.mark.parametrize("path", ["status", "p"])
async def test_passing_trouble_is_worth_another_try(api: FakeApi, client: ClusterClient, fault: Any, path: str) -> None:
    await api.put("pods", gated_pod())
    api.fail("PATCH", path, fault)
    assert (await hand_over(client, order(nominate=True))).fate is Fate.AGAIN
    assert (await hand_over(client, order(nominate=True))).fate is Fate.DONE


async def test_a_missing_right_is_not(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod())
    api.fail("PATCH", "p", answer(403, "pods is forbidden"))
    assert await hand_over(client, order()) == Step(Fate.FAILED, 403, "403: pods is forbidden")


async def test_looking_may_fail_too(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod(gates=("x/x", GATE)))
    api.fail("GET", "p", answer(500))
    assert (await hand_over(client, order())).fate is Fate.AGAIN


async def test_a_pod_that_changes_faster_than_we_look(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod(gates=("x/x", GATE)))
    api.fail("PATCH", "p", answer(409, "changed"), times=2)
    assert (await hand_over(client, order())).fate is Fate.AGAIN
