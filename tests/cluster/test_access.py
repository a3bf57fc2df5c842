from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from extender_api.cluster.access import Access, AccessError, find_access
from tests.cluster.conftest import write_kubeconfig

SERVER = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cluster around: neither a kubeconfig nor a service account."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


async def test_a_path_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    path = write_kubeconfig(tmp_path / "mine", SERVER, {"token": "t"})
    access = await find_access(path)
    assert access.host == SERVER
    assert await access.authorization() == "Bearer t"
    assert path in access.source


async def test_the_environment_wins_over_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    write_kubeconfig(tmp_path / "home" / ".kube" / "config", "http://home", {"token": "home"})
    assert (await find_access()).host == "http://home"
    monkeypatch.setenv("KUBECONFIG", write_kubeconfig(tmp_path / "env", "http://env", {"token": "env"}))
    assert (await find_access()).host == "http://env"


async def test_several_files_and_a_context(tmp_path: Path) -> None:
    first = write_kubeconfig(tmp_path / "a", "http://a", {"token": "a"})
    second = write_kubeconfig(tmp_path / "b", "http://b", {"token": "b"}, name="other")
    access = await find_access(os.pathsep.join([first, str(tmp_path / "absent"), second]), "other")
    assert access.host == "http://b"
    assert await access.authorization() == "Bearer b"


async def test_no_cluster_says_what_to_do() -> None:
    with pytest.raises(AccessError, match=r"KUBECONFIG.*\.kube/config does not exist"):
        await find_access()


@pytest.mark.parametrize("text", ["", "{}", "clusters: 3", "- x", ":::"])
async def test_a_broken_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(AccessError, match="broken"):
        await find_access(str(path))


async def test_an_absent_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"no kubeconfig at .*absent"):
        await find_access(str(tmp_path / "absent"))


async def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    access = await find_access(write_kubeconfig(tmp_path / "k", SERVER, {"tokenFile": str(token)}))
    assert await access.authorization() == "Bearer one"
    token.write_text("two\n")
    await access.renew(refused=False)
    assert await access.authorization() == "Bearer two"


def plugin(tmp_path: Path, *, expiry: str | None) -> dict[str, Any]:
    """An exec plug-in that counts its calls: the token is the number of the call."""
    count, script = tmp_path / "count", tmp_path / "plugin"
    count.write_text("0")
    stamp = f',"expirationTimestamp":"{expiry}"' if expiry else ""
    script.write_text(
        "#!/bin/sh\n"
        f"n=$(($(cat {count})+1)); echo $n >{count}\n"
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"'
        f"{stamp}}}}}' $n\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}}


async def bearer(access: Access) -> str | None:
    return await access.authorization()


async def test_a_plugin_with_expiry_runs_when_it_is_due(tmp_path: Path) -> None:
    access = await find_access(
        write_kubeconfig(tmp_path / "k", SERVER, plugin(tmp_path, expiry="2100-01-01T00:00:00Z"))
    )
    assert await bearer(access) == "Bearer 1"
    await access.renew(refused=False)
    assert await bearer(access) == "Bearer 1"
    await access.renew(refused=True)
    assert await bearer(access) == "Bearer 2"


async def test_a_plugin_past_its_expiry_runs_again(tmp_path: Path) -> None:
    access = await find_access(
        write_kubeconfig(tmp_path / "k", SERVER, plugin(tmp_path, expiry="2000-01-01T00:00:00Z"))
    )
    await access.renew(refused=False)
    assert await bearer(access) == "Bearer 2"


async def test_a_plugin_without_expiry_runs_only_when_refused(tmp_path: Path) -> None:
    access = await find_access(write_kubeconfig(tmp_path / "k", SERVER, plugin(tmp_path, expiry=None)))
    await access.renew(refused=False)
    assert await bearer(access) == "Bearer 1"
    await access.renew(refused=True)
    assert await bearer(access) == "Bearer 2"


async def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}}
    with pytest.raises(AccessError, match="/bin/false gave no credentials"):
        await find_access(write_kubeconfig(tmp_path / "k", SERVER, user))


async def test_the_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.aio.config import incluster_config

    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("sa-1\n")
    authority.write_text("certificates")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = await find_access()
    assert access.host == "https://10.0.0.1:443"
    assert (await bearer(access) or "").lower() == "bearer sa-1"
    token.write_text("sa-2\n")
    await access.renew(refused=True)
    assert (await bearer(access) or "").lower() == "bearer sa-2"


async def test_no_token_of_a_service_account_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.aio.config import incluster_config

    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "absent"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(AccessError, match="service account: Service token file does not exist"):
        await find_access()
