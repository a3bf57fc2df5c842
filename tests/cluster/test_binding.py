from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from extender_api.actuator import BindOutcome
from extender_api.cluster.binding import bind, binding_body
from extender_api.cluster.client import ClientSettings, ClusterClient
from scheduler.instruction import BindOrder
from tests.cluster.conftest import Connect
from tests.cluster.fakeapi import FakeApi, answer, drop, hang
from tests.cluster.objects import gated_pod, pod

ORDER = BindOrder("uid-p", "default", "p", "n1", {"tangram.scheduler/allocation": "{}"})
POD = "default/p"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender_api.cluster.binding._PAUSE_S", 0.01)
    monkeypatch.setattr("extender_api.cluster.binding.CALL_S", 0.5)


@pytest.fixture
async def client(connect: Connect) -> ClusterClient:
    return await connect(ClientSettings(timeout_s=0.5))


def test_the_binding_has_the_uid_and_the_annotations() -> None:
    assert binding_body(ORDER) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "uid-p",
            "annotations": {"tangram.scheduler/allocation": "{}"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    assert "annotations" not in binding_body(BindOrder("u", "ns", "p", "n"))["metadata"]


async def test_one_write_binds(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", pod())
    result = await bind(client, ORDER)
    assert (result.outcome, result.text) == (BindOutcome.BOUND, "")
    bound = api.collection("pods").objects[POD]
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"tangram.scheduler/allocation": "{}"}
    assert len(api.calls) == 1
    assert api.calls[0].query == {"timeout": "0.500s"}, "the API server gives up when we do"


@pytest.mark.parametrize(
    ("found", "outcome", "text"),
    [
        (pod(spec={"nodeName": "n1"}), BindOutcome.ALREADY_THERE, ""),
        (pod(spec={"nodeName": "n2"}), BindOutcome.ELSEWHERE, "already assigned to node n2"),
        (pod(uid="another", spec={"nodeName": "n1"}), BindOutcome.GONE, "409: Precondition failed: UID"),
        (pod(uid="another"), BindOutcome.GONE, "409: Precondition failed: UID"),
        (
            pod(metadata={"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
            BindOutcome.GONE,
            "409: pod is being deleted",
        ),
        (gated_pod(), BindOutcome.RETRY, "409: pod has scheduling gates"),
        (None, BindOutcome.GONE, '404: pods "p" not found'),
    ],
)
async def test_refusals(api: FakeApi, client: ClusterClient, found: Any, outcome: BindOutcome, text: str) -> None:
    if found is not None:
        await api.put("pods", found)
    result = await bind(client, ORDER)
    assert (result.outcome, result.text) == (outcome, text)


@pytest.mark.parametrize("status", [400, 401, 403, 422])
async def test_what_looking_would_not_explain_is_not_repeated(api: FakeApi, client: ClusterClient, status: int) -> None:
    await api.put("pods", pod())
    api.fail("POST", "binding", answer(status, "no"), times=2)  # a refused token is tried twice by the client
    result = await bind(client, ORDER)
    assert (result.outcome, result.text) == (BindOutcome.RETRY, f"{status}: no")
    assert api.count("GET", "p") == 0


class TestLostAnswers:
    @staticmethod
    def bound_but_unheard(api: FakeApi, ending: Any) -> None:
        """The Binding takes effect, and then the answer is lost."""

        async def fault(request: web.Request) -> web.StreamResponse:
            await api._bind(api.collection("pods").objects[POD], await request.json())
            lost: web.StreamResponse = await ending(request)
            return lost

        api.fail("POST", "binding", fault)

    @pytest.mark.parametrize("ending", [drop, hang, answer(500, "etcd timed out"), answer(504)])
    async def test_a_binding_that_took_effect_is_found(self, api: FakeApi, client: ClusterClient, ending: Any) -> None:
        await api.put("pods", pod())
        self.bound_but_unheard(api, ending)
        assert (await bind(client, ORDER)).outcome is BindOutcome.ALREADY_THERE
        assert api.count("POST", "binding") == 1

    @pytest.mark.parametrize("fault", [drop, hang, answer(500)])
    async def test_one_that_did_not_is_posted_again(self, api: FakeApi, client: ClusterClient, fault: Any) -> None:
        await api.put("pods", pod())
        api.fail("POST", "binding", fault)
        assert (await bind(client, ORDER)).outcome is BindOutcome.BOUND
        assert [call.method for call in api.calls] == ["POST", "GET", "POST"]

    async def test_one_that_lands_late_is_found_by_the_second(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("pods", pod())
        api.fail("POST", "binding", drop)

        async def lands_after_the_look(request: web.Request) -> web.StreamResponse:
            look = web.json_response(api.collection("pods").objects[POD])
            order = binding_body(ORDER)
            await api._bind(api.collection("pods").objects[POD], order)
            return look

        api.fail("GET", "p", lands_after_the_look)
        assert (await bind(client, ORDER)).outcome is BindOutcome.ALREADY_THERE

    async def test_nothing_is_known_while_nothing_answers(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("pods", pod())
        api.fail("POST", "binding", answer(500, "no quorum"), times=2)
        api.fail("GET", "p", answer(500), times=2)
        result = await bind(client, ORDER)
        assert (result.outcome, result.text) == (BindOutcome.RETRY, "500: no quorum")
        assert len(api.calls) == 4


class Turn:
    """Whose turn it is: ours until `over`."""

    def __init__(self) -> None:
        self.ours = True

    def over(self, fault: Any) -> Any:
        """A fault during which another replica's turn begins."""

        async def meanwhile(request: web.Request) -> web.StreamResponse:
            self.ours = False
            answered: web.StreamResponse = await fault(request)
            return answered

        return meanwhile

    def __call__(self) -> bool:
        return self.ours


class TestAnotherReplicaActs:
    async def test_nothing_is_posted(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("pods", pod())
        result = await bind(client, ORDER, lambda: False)
        assert (result.outcome, result.text) == (BindOutcome.RETRY, "not active any more")
        assert api.calls == []

    @pytest.mark.parametrize("fault", [drop, hang, answer(500), answer(409, "conflict")])
    async def test_nothing_is_posted_again(self, api: FakeApi, client: ClusterClient, fault: Any) -> None:
        await api.put("pods", pod())
        turn = Turn()
        api.fail("POST", "binding", turn.over(fault))
        result = await bind(client, ORDER, turn)
        assert (result.outcome, result.text) == (BindOutcome.RETRY, "not active any more")
        assert [call.method for call in api.calls] == ["POST", "GET"]

    @pytest.mark.parametrize("status", [401, 429, 503])
    async def test_the_client_repeats_nothing_either(self, api: FakeApi, client: ClusterClient, status: int) -> None:
        await api.put("pods", pod())
        turn = Turn()
        api.fail("POST", "binding", turn.over(answer(status, headers={"Retry-After": "0"})))
        result = await bind(client, ORDER, turn)
        assert (result.outcome, result.text) == (BindOutcome.RETRY, "not active any more")
        assert api.count("POST", "binding") == 1

    async def test_one_that_waits_for_its_turn_to_write_is_not_posted(self, api: FakeApi, connect: Connect) -> None:
        client = await connect(ClientSettings(max_writes=1))
        await api.put("pods", pod())
        go_on = asyncio.Event()

        async def slow(_: web.Request) -> web.StreamResponse:
            await go_on.wait()
            return web.json_response({})

        api.fail("POST", "events", slow)
        first = asyncio.create_task(client.create("/events", {}))
        turn = Turn()
        binding = asyncio.create_task(bind(client, ORDER, turn))
        await asyncio.sleep(0.05)
        turn.ours = False
        go_on.set()
        await first
        assert (await binding).text == "not active any more"
        assert api.count("POST", "binding") == 0


async def test_a_bind_is_over_in_time(api: FakeApi, client: ClusterClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that takes over counts on it."""
    monkeypatch.setattr("extender_api.cluster.binding.BIND_S", 0.9)
    monkeypatch.setattr("extender_api.cluster.binding._ATTEMPTS", 100)
    await api.put("pods", pod())
    api.fail("POST", "binding", hang, times=100)
    api.fail("GET", "p", answer(500), times=100)
    started_s = asyncio.get_running_loop().time()
    assert (await bind(client, ORDER)).outcome is BindOutcome.RETRY
    assert asyncio.get_running_loop().time() - started_s < 3
    assert api.count("POST", "binding") == 2, "one with all its time, and one with what is left"
