"""Servers that the command line asks, in a thread of their own: commands run a loop of theirs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from aiohttp import web

from extender_api.listeners import Listener
from extender_api.ops_routes import ops_app
from extender_api.plan_service import PlanHere
from extender_api.settings import Address
from scheduler.claim import DEFAULT_RULES
from tests.controlplane.loop_thread import LoopThread
from tests.plan import documents
from tests.service.hands import Stage


class OpsServer:
    """A live Tangram's ops listener. `on_loop` is where the service may be touched."""

    def __init__(self, url: str, loop: LoopThread, stage: Stage) -> None:
        self.url = url
        self.stage = stage
        self._loop = loop

    def on_loop(self, work: Callable[[Stage], Any]) -> Any:
        """Does something with the service between two requests."""

        async def do() -> Any:
            result = work(self.stage)
            return await result if isinstance(result, Coroutine) else result

        return self._loop.run(do(), timeout_s=30)


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("servers")
    thread.start()
    yield thread
    thread.stop()


@pytest.fixture
def ops(loop: LoopThread) -> Iterator[OpsServer]:
    async def start() -> tuple[Listener, asyncio.Task[None], Stage]:
        stage = Stage()
        app = ops_app(PlanHere(documents.SETTINGS, DEFAULT_RULES), stage.service)
        listener = Listener("ops", app, Address("127.0.0.1", 0), drain_s=1)
        listener.open()
        return listener, asyncio.create_task(listener.serve()), stage

    async def stop(listener: Listener, serving: asyncio.Task[None]) -> None:
        listener.stop()
        await serving

    listener, serving, stage = loop.run(start(), timeout_s=30)
    yield OpsServer(f"http://{listener.address}", loop, stage)
    loop.run(stop(listener, serving), timeout_s=30)


@contextlib.contextmanager
def web_server(loop: LoopThread, handler: Callable[[web.Request], web.StreamResponse]) -> Iterator[str]:
    """A server that answers every GET with what `handler` gives; its URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return handler(request)

    async def start() -> tuple[web.AppRunner, int]:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, int(runner.addresses[0][1])

    runner, port = loop.run(start(), timeout_s=30)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.run(runner.cleanup(), timeout_s=30)


@pytest.fixture(autouse=True)
def _no_cluster_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No kubeconfig and no settings of the machine that runs the tests."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("KUBECONFIG", "TANGRAM_CONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
