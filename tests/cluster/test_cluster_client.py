from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from extender_api.cluster import paths
from extender_api.cluster.answer import Refused, Silence, Unreachable
from extender_api.cluster.client import ClientSettings, ClusterClient, PatchKind
from extender_api.cluster.connection import environment_proxy
from tests.cluster.conftest import Connect, write_kubeconfig
from tests.cluster.fakeapi import FakeApi, answer, drop, hang, stream
from tests.cluster.objects import pod
from tests.cluster.waiting import until

POD = paths.pod("default", "p")


async def test_what_is_sent(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", pod())
    assert (await client.get(POD, {"a": "b c"})).ok
    assert (await client.patch(POD, {"metadata": {"labels": {"x": "y"}}}, PatchKind.MERGE)).ok
    read, written = api.calls
    assert (read.method, read.path, read.query) == ("GET", POD, {"a": "b c"})
    assert read.headers["Authorization"] == "Bearer secret"
    assert read.headers["User-Agent"] == "tangram"
    assert (written.method, written.content_type) == ("PATCH", "application/merge-patch+json")
    assert written.body == {"metadata": {"labels": {"x": "y"}}}
    assert client.calls == {("GET", 200): 1, ("PATCH", 200): 1}


async def test_every_status_is_an_answer(api: FakeApi, client: ClusterClient) -> None:
    missing = await client.get(POD)
    assert (missing.status, missing.ok, missing.message) == (404, False, 'pods "p" not found')
    for status in (403, 409, 422, 500):
        api.fail("DELETE", POD, answer(status, "because"))
        refused = await client.delete(POD)
        assert (refused.status, refused.message) == (status, "because")


async def test_an_answer_that_is_no_status_object(api: FakeApi, client: ClusterClient) -> None:
    async def proxy_page(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<html>bad gateway</html>")

    api.fail("GET", POD, proxy_page)
    got = await client.get(POD)
    assert (got.json(), got.message) == ({}, "<html>bad gateway</html>")


class TestRetryAfter:
    @pytest.mark.parametrize("status", [429, 503])
    async def test_the_call_is_repeated(self, api: FakeApi, client: ClusterClient, status: int) -> None:
        await api.put("pods", pod())
        api.fail("PATCH", POD, answer(status, headers={"Retry-After": "0"}), times=3)
        assert (await client.patch(POD, {}, PatchKind.MERGE)).status == 200
        assert api.count("PATCH", POD) == 4

    async def test_only_so_many_times(self, api: FakeApi, connect: Connect) -> None:
        client = await connect(ClientSettings(retries=2))
        api.fail("GET", POD, answer(429, headers={"Retry-After": "0"}), times=9)
        assert (await client.get(POD)).status == 429
        assert api.count("GET", POD) == 3

    async def test_not_without_being_asked(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("GET", POD, answer(503))
        assert (await client.get(POD)).status == 503
        api.fail("GET", POD, answer(429, headers={"Retry-After": "tomorrow"}))
        assert (await client.get(POD)).status == 429
        assert api.count("GET", POD) == 2

    async def test_a_wait_beyond_the_time_limit_gives_the_refusal(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("POST", "events", answer(429, headers={"Retry-After": "20"}))
        assert (await client.create(paths.events("default"), {}, timeout_s=0.2)).status == 429


class TestNoAnswer:
    async def test_hanging(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("POST", "binding", hang)
        with pytest.raises(Unreachable, match=r"no answer within 0\.2 s") as caught:
            await client.create(paths.pod("default", "p", "binding"), {}, timeout_s=0.2)
        assert caught.value.maybe_done

    async def test_a_dropped_connection(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("POST", "binding", drop)
        with pytest.raises(Unreachable, match="no answer") as caught:
            await client.create(paths.pod("default", "p", "binding"), {})
        assert caught.value.maybe_done

    async def test_nobody_there(self, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            server = f"http://127.0.0.1:{taken.getsockname()[1]}"
            kubeconfig = write_kubeconfig(tmp_path / "k", server, {})
            async with await ClusterClient.connect(ClientSettings(kubeconfig=kubeconfig)) as client:
                with pytest.raises(Unreachable, match="cannot connect") as caught:
                    await client.create(paths.events("x"), {})
        assert not caught.value.maybe_done

    async def test_waiting_for_a_turn_counts(self, api: FakeApi, connect: Connect) -> None:
        client = await connect(ClientSettings(max_writes=1, timeout_s=5.0))
        api.fail("DELETE", POD, hang)
        holding = asyncio.create_task(client.delete(POD))
        await until(lambda: bool(api.calls))
        with pytest.raises(Unreachable) as caught:
            await client.create(paths.events("x"), {}, timeout_s=0.1)
        assert not caught.value.maybe_done
        holding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await holding

    async def test_a_token_file_that_is_gone(self, api: FakeApi, client: ClusterClient) -> None:
        def gone(_: object) -> None:
            raise FileNotFoundError("token")

        client.access.configuration.refresh_api_key_hook = gone
        with pytest.raises(Unreachable, match=r"no credentials from kubeconfig.*token"):
            await client.get(POD)
        assert api.calls == []


async def test_writes_in_flight_are_bounded_and_reads_are_not(api: FakeApi, connect: Connect) -> None:
    client = await connect(ClientSettings(max_writes=3))
    now, most = 0, 0

    async def slow(_: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        return web.json_response({})

    api.fail("POST", "events", slow, times=12)
    await asyncio.gather(*(client.create(paths.events("x"), {"metadata": {"name": str(n)}}) for n in range(12)))
    assert most == 3
    most = 0
    api.fail("GET", POD, slow, times=12)
    await asyncio.gather(*(client.get(POD) for _ in range(12)))
    assert most > 3


class TestCredentials:
    async def test_a_refused_token_is_read_again_once(self, api: FakeApi, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old")
        kubeconfig = write_kubeconfig(tmp_path / "k", api.url, {"tokenFile": str(token)})
        await api.put("pods", pod())
        async with await ClusterClient.connect(ClientSettings(kubeconfig=kubeconfig)) as client:
            token.write_text("new")
            api.fail("GET", POD, answer(401))
            assert (await client.get(POD)).status == 200
            assert [call.headers["Authorization"] for call in api.calls] == ["Bearer old", "Bearer new"]
            api.fail("GET", POD, answer(401), times=2)
            assert (await client.get(POD)).status == 401

    async def test_a_watch_learns_of_a_new_token_for_the_next_time(self, api: FakeApi, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old")
        kubeconfig = write_kubeconfig(tmp_path / "k", api.url, {"tokenFile": str(token)})
        async with await ClusterClient.connect(ClientSettings(kubeconfig=kubeconfig)) as client:
            token.write_text("new")
            api.fail("WATCH", "pods", answer(401))
            with pytest.raises(Refused, match="401"):
                await first_lines(client, idle_s=1.0)
            assert await client.access.authorization() == "Bearer new"

    async def test_credentials_are_read_again_now_and_then(
        self, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("extender_api.cluster.connection._RENEW_EVERY_S", 0.01)
        monkeypatch.setattr("extender_api.cluster.connection._RENEW_AT_MOST_EVERY_S", 0.0)
        token = tmp_path / "token"
        token.write_text("old")
        kubeconfig = write_kubeconfig(tmp_path / "k", api.url, {"tokenFile": str(token)})
        async with await ClusterClient.connect(ClientSettings(kubeconfig=kubeconfig)) as client:
            key = client.access.configuration.api_key
            token.unlink()  # in the middle of being replaced: the old one must do
            await asyncio.sleep(0.05)
            assert key["BearerToken"] == "Bearer old"
            token.write_text("new")
            await until(lambda: bool(key["BearerToken"] == "Bearer new"))
        assert api.calls == []

    async def test_a_refused_token_that_cannot_be_read_again_stays_refused(self, api: FakeApi, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old")
        kubeconfig = write_kubeconfig(tmp_path / "k", api.url, {"tokenFile": str(token)})
        async with await ClusterClient.connect(ClientSettings(kubeconfig=kubeconfig)) as client:
            token.unlink()
            api.fail("GET", POD, answer(401))
            assert (await client.get(POD)).status == 401
        assert len(api.calls) == 1


async def test_a_proxy_of_the_kubeconfig(api: FakeApi, tmp_path: Path) -> None:
    path = tmp_path / "k"
    write_kubeconfig(path, "http://cluster.invalid", {})
    document = yaml.safe_load(path.read_text())
    document["clusters"][0]["cluster"]["proxy-url"] = api.url
    path.write_text(yaml.safe_dump(document))
    await api.put("pods", pod())
    async with await ClusterClient.connect(ClientSettings(kubeconfig=str(path))) as client:
        assert (await client.get(POD)).ok
    assert api.calls[0].headers["Host"] == "cluster.invalid"


async def first_lines(client: ClusterClient, *, idle_s: float) -> list[bytes]:
    async with client.watch(paths.PODS, version="1", timeout_s=60, idle_s=idle_s) as lines:
        async for batch in lines:
            return batch
    return []


class TestWatch:
    async def test_lines_come_whole_whatever_the_chunks(self, api: FakeApi, client: ClusterClient) -> None:
        big = b'{"a":"' + b"x" * 3_000_000 + b'"}'

        async def chunks(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in (b"one", b"\ntwo\n\nthr", b"ee\n", big + b"\n", b"unfinished"):
                await response.write(chunk)
                await asyncio.sleep(0.01)
            return response

        api.fail("WATCH", "pods", chunks)
        got: list[bytes] = []
        async with client.watch(
            paths.PODS, version="7", timeout_s=60, idle_s=5.0, selectors={"fieldSelector": "a!=b"}
        ) as lines:
            async for batch in lines:
                got += batch
        assert got == [b"one", b"two", b"three", big]
        assert api.calls[0].query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "7",
            "timeoutSeconds": "60",
            "fieldSelector": "a!=b",
        }

    async def test_silence(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("WATCH", "pods", stream(then="silent"))
        with pytest.raises(Silence, match=r"nothing heard for 0\.2 s"):
            await first_lines(client, idle_s=0.2)

    async def test_each_event_starts_the_patience_anew(self, api: FakeApi, client: ClusterClient) -> None:
        async def trickle(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for _ in range(6):
                await asyncio.sleep(0.1)
                await response.write(b"x\n")
            return response

        api.fail("WATCH", "pods", trickle)
        got = 0
        async with client.watch(paths.PODS, version="1", timeout_s=60, idle_s=0.4) as lines:
            async for batch in lines:
                got += len(batch)
        assert got == 6

    async def test_no_answer_at_all_is_not_silence(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("WATCH", "pods", hang)
        with pytest.raises(Unreachable, match="cannot watch") as caught:
            await first_lines(client, idle_s=0.2)
        assert not isinstance(caught.value, Silence)

    async def test_a_cut(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("WATCH", "pods", stream(b"one", then="cut"))
        got: list[bytes] = []

        async def read() -> None:
            async with client.watch(paths.PODS, version="1", timeout_s=60, idle_s=5.0) as lines:
                async for batch in lines:
                    got.extend(batch)

        with pytest.raises(Unreachable, match="broken off"):
            await read()
        assert got == [b"one"]

    async def test_a_refusal(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("WATCH", "pods", answer(429, "later", headers={"Retry-After": "3"}))
        with pytest.raises(Refused, match="429: later") as caught:
            await first_lines(client, idle_s=1.0)
        assert caught.value.answer.retry_after_s == 3.0

    async def test_closing_from_outside_ends_the_reading(self, api: FakeApi, client: ClusterClient) -> None:
        api.fail("WATCH", "pods", stream(then="silent"))
        async with client.watch(paths.PODS, version="1", timeout_s=60, idle_s=30.0) as lines:
            asyncio.get_running_loop().call_later(0.1, lines.close)
            with pytest.raises(Unreachable):
                await anext(lines)


def test_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.1,.internal")
    monkeypatch.setenv("no_proxy", "10.0.0.1,.internal")
    assert environment_proxy("https://api.example.com:6443") == "http://proxy:3128"
    assert environment_proxy("https://10.0.0.1:443") is None
    assert environment_proxy("https://api.internal:6443") is None


# -- TLS -------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, as small installations have it."""
    key, cert = folder / f"{name}.key", folder / f"{name}.crt"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return key, cert


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificates with openssl")
async def test_tls_with_authority_and_client_certificate(tmp_path: Path) -> None:
    server_key, server_cert = certificate(tmp_path, "server")
    client_key, client_cert = certificate(tmp_path, "client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(client_cert))
    context.load_cert_chain(server_cert, server_key)
    context.verify_mode = ssl.CERT_REQUIRED
    seen: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        seen.append(dict(part[0] for part in request.transport.get_extra_info("peercert")["subject"]))
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/version", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    path = tmp_path / "kubeconfig"
    write_kubeconfig(
        path, f"https://127.0.0.1:{port}", {"client-certificate": str(client_cert), "client-key": str(client_key)}
    )
    document = yaml.safe_load(path.read_text())
    try:
        async with await ClusterClient.connect(ClientSettings(kubeconfig=str(path))) as stranger:
            with pytest.raises(Unreachable, match="certificate"):
                await stranger.get("/version")
        document["clusters"][0]["cluster"]["certificate-authority"] = str(server_cert)
        path.write_text(yaml.safe_dump(document))
        async with await ClusterClient.connect(ClientSettings(kubeconfig=str(path))) as client:
            assert (await client.get("/version")).ok
            document["clusters"][0]["cluster"]["server"] = f"https://localhost:{port}"
            path.write_text(yaml.safe_dump(document))
            async with await ClusterClient.connect(ClientSettings(kubeconfig=str(path))) as misnamed:
                with pytest.raises(Unreachable, match="localhost"):
                    await misnamed.get("/version")
            document["clusters"][0]["cluster"]["tls-server-name"] = "127.0.0.1"
            path.write_text(yaml.safe_dump(document))
            async with await ClusterClient.connect(ClientSettings(kubeconfig=str(path))) as named:
                assert (await named.get("/version")).ok
            certificate(tmp_path, "client")  # renewed in its place; the server still wants the first one
            assert await client._connection.renew(refused=True)
            with pytest.raises(Unreachable):
                await client.get("/version")
    finally:
        await runner.cleanup()
    assert seen == [{"commonName": "client"}] * 2
