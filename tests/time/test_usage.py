"""Usage over time on its way: to a ConfigMap and back, from a Prometheus, into the queues' books."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web

from extender_api import prometheus_usage
from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.cluster.usage_store import KEY, UsageStore
from extender_api.prometheus_usage import PrometheusError
from extender_api.settings import Usage
from extender_api.usage import UsageFollower
from queues.amounts import Amounts
from queues.spec import QueueSpec
from tests.cluster.waiting import until
from tests.engine.world import node, pod
from tests.service.hands import Stage

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
QUEUE = "tangram.scheduler/queue"


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


class ConfigMaps:
    """One ConfigMap of an API server."""

    def __init__(self) -> None:
        self.data: dict[str, str] | None = None
        self.refuse = False
        self.writes: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = "/api/v1/namespaces/tangram-system/configmaps"
        named = request.path == f"{path}/tangram-usage"
        if self.refuse:
            return web.json_response({"message": "forbidden"}, status=403)
        if request.method == "POST" and request.path == path:
            document = await request.json()
            assert document["metadata"]["name"] == "tangram-usage"
            self.data = document["data"]
            self.writes.append("POST")
            return web.json_response(document, status=201)
        if not named or self.data is None:
            return web.json_response({"message": "not found"}, status=404)
        if request.method == "PATCH":
            self.data |= (await request.json())["data"]
            self.writes.append("PATCH")
        return web.json_response({"data": self.data})


@pytest.fixture
async def maps() -> ConfigMaps:
    return ConfigMaps()


@pytest.fixture
async def store(maps: ConfigMaps, tmp_path: Any) -> AsyncIterator[UsageStore]:
    async with server(maps.answer) as url:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1", "kind": "Config", "current-context": "t",
                    "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
                    "clusters": [{"name": "t", "cluster": {"server": url}}],
                    "users": [{"name": "t", "user": {"token": "secret"}}],
                }
            )
        )  # fmt: skip
        async with await ClusterClient.connect(ClientSettings(kubeconfig=str(kubeconfig), timeout_s=5)) as client:
            yield UsageStore(client, "tangram-system", "tangram-usage")


async def test_a_text_is_kept_in_a_config_map_that_is_made_when_it_is_not_there(
    maps: ConfigMaps, store: UsageStore
) -> None:
    assert await store.load() is None
    assert await store.save("first")
    assert await store.save("second")
    assert maps.writes == ["POST", "PATCH"]
    assert maps.data == {KEY: "second"}
    assert await store.load() == "second"


async def test_trouble_is_said_once_until_it_goes_well(
    maps: ConfigMaps, store: UsageStore, caplog: pytest.LogCaptureFixture
) -> None:
    maps.refuse = True
    assert await store.load() is None
    assert not await store.save("x")
    assert [record.message for record in caplog.records if "forbidden" in record.message].__len__() == 1
    maps.refuse = False
    assert await store.save("x")


# -- Prometheus ------------------------------------------------------------------------------------------------------


def vector(*series: tuple[dict[str, str], str]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [1, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


async def test_usage_is_read_by_queue_and_resource() -> None:
    asked: list[str] = []

    async def prometheus(request: web.Request) -> web.Response:
        asked.append(f"{request.path} {(await request.post())['query']!s}")
        return web.json_response(
            vector(
                ({"queue": "a", "resource": "gpu"}, "0.25"),
                ({"queue": "a", "resource": "cpu"}, "0.5"),
                ({"queue_name": "b"}, "0.125"),
                ({"queue": "c"}, "NaN"),
                ({"queue": "d", "resource": "disks"}, "1"),
                ({"job": "other"}, "1"),
            )
        )

    async with server(prometheus) as url:
        found = await prometheus_usage.read(url + "/", "my_usage")
    assert found == {"a": Amounts(500_000, 0, 250_000), "b": Amounts(0, 0, 125_000)}
    assert asked == ["/api/v1/query my_usage"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("<html>", 200, "no JSON"),
        ('{"status":"error","error":"parse error at char 1"}', 400, "parse error at char 1"),
        ('{"status":"success","data":{"resultType":"matrix","result":[]}}', 200, "instant vector"),
        ("[]", 200, "refuses the query"),
    ],
)
async def test_answers_that_say_nothing_are_told_apart(answer: str, status: int, words: str) -> None:
    async def prometheus(_: web.Request) -> web.Response:
        return web.Response(text=answer, status=status)

    async with server(prometheus) as url:
        with pytest.raises(PrometheusError, match=words):
            await prometheus_usage.read(url, "q")


async def test_a_prometheus_that_is_not_there_is_said() -> None:
    with pytest.raises(PrometheusError, match="cannot be asked"):
        await prometheus_usage.read("http://127.0.0.1:1", "q")


# -- into the books --------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        self.now_ms += 30_000
        return self.now_ms


def fast(**given: Any) -> Usage:
    """Settings with samples that follow each other at once."""
    return Usage(**given).model_copy(update={"sample_s": 0.001})


def stage() -> Stage:
    made = Stage()
    made.service.on_node(None, node("big", gpus=8))
    made.service.set_queues((QueueSpec("a"), QueueSpec("b")))
    made.create(pod("holds", whole=4, node_name="big", labels={QUEUE: "a"}))
    return made


async def following(follower: UsageFollower, holds: Callable[[], bool]) -> None:
    task = asyncio.create_task(follower.run())
    await until(holds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_samples_reach_the_shares_and_outlive_a_restart(maps: ConfigMaps, store: UsageStore) -> None:
    first, clock = stage(), Clock()
    accounts = first.engine.cluster.accounts
    settings = fast(source="own", k=2)
    follower = UsageFollower(first.service, settings, store, clock=clock)
    await following(follower, lambda: len(maps.writes) >= 2)
    assert accounts.usage_k_milli == 2000
    part = accounts.usage["a"].gpu_milli
    assert part == 4000 * 1_000_000 // accounts.capacity.gpu_milli
    second = stage()
    second.service.on_pod(pod("holds"), None)
    again = UsageFollower(second.service, settings, store, clock=clock)
    await following(again, lambda: bool(second.engine.cluster.accounts.usage))
    assert second.engine.cluster.accounts.usage["a"].gpu_milli > 0


async def test_a_standby_neither_samples_nor_saves(maps: ConfigMaps, store: UsageStore) -> None:
    made = stage()
    made.service.set_active(False)
    follower = UsageFollower(made.service, fast(source="own"), store, clock=Clock())
    task = asyncio.create_task(follower.run())
    await asyncio.sleep(0.1)
    task.cancel()
    assert maps.writes == []
    assert made.engine.cluster.accounts.usage == {}


async def test_what_prometheus_says_is_used_and_kept_while_it_is_silent(store: UsageStore) -> None:
    answers = [vector(({"queue": "a"}, "0.5"))]

    async def prometheus(_: web.Request) -> web.Response:
        return web.json_response(answers.pop()) if answers else web.Response(status=500, text="down")

    made = stage()
    async with server(prometheus) as url:
        settings = fast(source="prometheus", prometheus_url=url)
        follower = UsageFollower(made.service, settings, store, clock=Clock())
        await following(follower, lambda: not answers and bool(made.engine.cluster.accounts.usage))
    assert made.engine.cluster.accounts.usage == {"a": Amounts(0, 0, 500_000)}


async def test_nothing_is_done_where_usage_does_not_count(store: UsageStore) -> None:
    await UsageFollower(stage().service, Usage(), store, clock=Clock()).run()
