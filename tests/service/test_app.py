"""The process as users start it, against a fake API server: early listeners, readiness, work, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from tests.cluster.conftest import write_kubeconfig
from tests.cluster.fakeapi import FakeApi, Object
from tests.cluster.objects import gated_pod, node
from tests.controlplane.processes import free_port

COMMAND = Path(sys.executable).parent / "tangram"
WAIT_S = 60.0


class Tangram:
    """`tangram serve` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, extender: str, ops: str) -> None:
        self.process = process
        self.extender = httpx.AsyncClient(base_url=f"http://{extender}", timeout=30)
        self.ops = httpx.AsyncClient(base_url=f"http://{ops}", timeout=30)

    async def readiness(self) -> tuple[int, str]:
        answer = await self.ops.get("/readyz")
        return answer.status_code, answer.text

    async def until_ready(self, status: int = 200) -> None:
        await self._until(lambda found, _: found == status)

    async def until_answering(self) -> None:
        await self._until(lambda found, _: found > 0)

    async def until_it_says(self, why: str) -> None:
        await self._until(lambda _, text: text == why)

    async def _until(self, good: Callable[[int, str], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while True:
                assert self.process.returncode is None, "it has ended"
                try:
                    found = await self.readiness()
                except httpx.TransportError:
                    found = (0, "")
                if good(*found):
                    return
                await asyncio.sleep(0.02)

    async def filter(self, pod: Object, *names: str) -> Any:
        answer = await self.extender.post("/v1/filter", json={"Pod": pod, "NodeNames": list(names)})
        assert answer.status_code == 200
        return answer.json()

    async def bind(self, pod: Object, node_name: str) -> str:
        meta = pod["metadata"]
        args = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node_name}
        answer = await self.extender.post("/v1/bind", json=args)
        assert answer.status_code == 200
        return str(answer.json()["Error"])

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ends it; its exit status."""
        self.process.send_signal(number)
        async with asyncio.timeout(WAIT_S):
            return await self.process.wait()


@asynccontextmanager
async def tangram(tmp_path: Path, server: str, *arguments: str) -> AsyncIterator[Tangram]:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server, {"token": "secret"})
    extender, ops = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with (tmp_path / "log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            COMMAND, "serve", f"--kubeconfig={kubeconfig}", f"--extender-address={extender}", f"--ops-address={ops}",
            *arguments, stdout=log, stderr=log,
        )  # fmt: skip
    found = Tangram(process, extender, ops)
    try:
        yield found
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await found.extender.aclose()
        await found.ops.aclose()
        print((tmp_path / "log").read_text())


def gpu_node(name: str, gpus: int = 2) -> Object:
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = [{"type": "Ready", "status": "True"}]
    return node(name, status={"allocatable": resources, "capacity": resources, "conditions": ready})


def gpu_pod(name: str) -> Object:
    pod = gated_pod(name)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return pod


async def ungated(api: FakeApi, name: str) -> Object:
    """The pod once its gate is off."""
    async with asyncio.timeout(WAIT_S):
        while True:
            pod = api.collection("pods").objects[f"default/{name}"]
            if not pod["spec"].get("schedulingGates"):
                return pod
            await asyncio.sleep(0.01)


async def test_from_start_to_a_stop_in_the_middle_of_a_bind(api: FakeApi, tmp_path: Path) -> None:
    await api.put("nodes", gpu_node("n1"))
    await api.put("pods", gpu_pod("a"))
    async with tangram(tmp_path, api.url) as process:
        await process.until_answering()
        status, why = await process.readiness()
        if status != 200:  # on a quick machine it may be ready by now
            assert why in ("kernels are being compiled", "caches are not in sync yet")
            assert why in (await process.filter(gpu_pod("a"), "n1"))["Error"]
        await process.until_ready()

        free = await ungated(api, "a")
        answer = await process.filter(free, "n1")
        assert (answer["NodeNames"], answer["Error"]) == (["n1"], "")

        # the API server takes its time to bind, and meanwhile Tangram is told to end
        arrived, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: web.Request) -> web.StreamResponse:
            arrived.set()
            await go_on.wait()
            return await api._one("POST", request.path.strip("/").split("/"), json.loads(await request.read()))

        api.fail("POST", "/binding", slow)
        binding = asyncio.create_task(process.bind(free, "n1"))
        await arrived.wait()
        process.process.send_signal(signal.SIGTERM)
        await process.until_ready(503)
        assert (await process.readiness())[1] == "Tangram is stopping"
        assert "stopping" in (await process.filter(free, "n1"))["Error"]
        go_on.set()
        assert await binding == ""
        async with asyncio.timeout(WAIT_S):
            assert await process.process.wait() == 0
    bound = api.collection("pods").objects["default/a"]
    assert bound["spec"]["nodeName"] == "n1"
    assert json.loads(bound["metadata"]["annotations"]["tangram.scheduler/allocation"])["node"] == "n1"


async def test_without_an_api_server_it_waits_unready_and_starts_when_there_is_one(tmp_path: Path) -> None:
    api = FakeApi()
    await api.start()
    port = int(api.url.rpartition(":")[2])
    await api.stop()
    async with tangram(tmp_path, f"http://127.0.0.1:{port}") as process:
        await process.until_answering()
        await process.until_it_says("caches are not in sync yet")
        assert (await process.ops.get("/healthz")).status_code == 200
        await api.start(port)
        try:
            await process.until_ready()
            metrics = (await process.ops.get("/metrics")).text
            assert 'tangram_api_calls_total{call="list_nodes",code="none"}' in metrics
            assert 'tangram_api_calls_total{call="list_nodes",code="200"}' in metrics
            assert await process.end() == 0
        finally:
            await api.stop()


async def test_a_stop_before_it_is_ready(tmp_path: Path) -> None:
    async with tangram(tmp_path, f"http://127.0.0.1:{free_port()}") as process:
        await process.until_answering()
        assert await process.end(signal.SIGINT) == 0


async def test_with_a_lease_of_another_host_it_stands_by_until_it_is_its_turn(api: FakeApi, tmp_path: Path) -> None:
    def lease(holder: str) -> Object:
        spec = {"holderIdentity": f"{holder}_1234", "leaseDurationSeconds": 3600, "renewTime": "2099-01-01T00:00:00Z"}
        return {"metadata": {"name": "tangram", "namespace": "kube-system"}, "spec": spec}

    await api.put("leases", lease("elsewhere"))
    await api.put("nodes", gpu_node("n1"))
    await api.put("pods", gpu_pod("a"))
    async with tangram(tmp_path, api.url, "--lease-mode=follow", "--lease-hostname=here") as process:
        await process.until_ready()
        assert "standby" in (await process.filter(gpu_pod("a"), "n1"))["Error"]
        await asyncio.sleep(0.3)
        assert not [call for call in api.calls if call.method not in ("GET", "WATCH")], "a standby writes nothing"
        lists = api.count("GET", "/pods")
        await api.put("leases", lease("here"))
        await ungated(api, "a")
        assert api.count("GET", "/pods") > lists, "it has read what the former one wrote"
        assert await process.end() == 0


async def test_planning_on_the_ops_listener_in_another_process(api: FakeApi, tmp_path: Path) -> None:
    async with tangram(tmp_path, api.url) as process:
        await process.until_ready()
        answer = await process.ops.post("/api/v1/plan", json={"objects": [gpu_node("n1"), gpu_pod("a")]})
        # objects of an API server that does not repeat their kind
        assert answer.status_code == 400
        kinds = [{**gpu_node("n1"), "kind": "Node"}, {**gpu_pod("a"), "kind": "Pod"}]
        answer = await process.ops.post("/api/v1/plan", json={"objects": kinds})
        assert [item["name"] for item in answer.json()["placements"]] == ["a"]
        assert await process.end() == 0


async def test_offline(tmp_path: Path) -> None:
    async with tangram(tmp_path, "http://127.0.0.1:1", "--offline") as process:
        await process.until_ready()
        answer = await process.ops.post("/api/v1/plan", json={"objects": []})
        assert answer.json()["placements"] == []
        assert (await process.ops.get("/api/v1/nodes")).status_code == 409
        assert await process.end() == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gate-max-released=0"], "gate.max_released"),
        (["--kubeconfig=/nowhere/kubeconfig"], "/nowhere/kubeconfig"),
        (["--config=/nowhere/tangram.yaml"], "/nowhere/tangram.yaml"),
    ],
)
async def test_trouble_at_the_start_is_said_in_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    environ = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": ""}
    process = await asyncio.create_subprocess_exec(
        COMMAND, "serve", "--extender-address=127.0.0.1:0", "--ops-address=127.0.0.1:0", *arguments,
        stderr=asyncio.subprocess.PIPE, env=environ,
    )  # fmt: skip
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert said in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_an_address_that_is_taken(tmp_path: Path) -> None:
    async def nobody(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(nobody, "127.0.0.1", 0)
    taken = server.sockets[0].getsockname()[1]
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", {"token": "secret"})
    async with server:
        process = await asyncio.create_subprocess_exec(
            COMMAND, "serve", f"--kubeconfig={kubeconfig}", f"--extender-address=127.0.0.1:{taken}",
            "--ops-address=127.0.0.1:0", stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, errors = await process.communicate()
    assert process.returncode == 2
    assert f"127.0.0.1:{taken}" in errors.decode()
    assert "Traceback" not in errors.decode()
