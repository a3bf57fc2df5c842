"""A fake API server, and a client that found it through a kubeconfig."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from extender_api.cluster.client import ClientSettings, ClusterClient
from tests.cluster.fakeapi import FakeApi

Connect = Callable[[ClientSettings], Awaitable[ClusterClient]]


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    fake = FakeApi()
    await fake.start()
    yield fake
    await fake.stop()


def write_kubeconfig(path: Path, server: str, user: Mapping[str, object], name: str = "test") -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": dict(user)}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture
async def connect(api: FakeApi, tmp_path: Path) -> AsyncIterator[Connect]:
    """Clients of the fake API server, closed after the test."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url, {"token": "secret"})
    async with AsyncExitStack() as stack:

        async def make(settings: ClientSettings) -> ClusterClient:
            client = await ClusterClient.connect(replace(settings, kubeconfig=kubeconfig))
            return await stack.enter_async_context(client)

        yield make


@pytest.fixture
async def client(connect: Connect) -> ClusterClient:
    return await connect(ClientSettings(timeout_s=5.0))
