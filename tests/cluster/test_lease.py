from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from extender_api.cluster.binding import BIND_S
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.lease import SETTLE_S, LeaseFollower, LeaseSettings, holder_host, holds
from extender_api.cluster.node import LeaseFacts
from extender_api.cluster.reflector import ReflectorSettings
from tests.cluster.fakeapi import FakeApi, hang
from tests.cluster.waiting import running, until

US, THEM = "host-a", "host-b"
SETTINGS = LeaseSettings(namespace="kube-system", name="tangram", hostname=US)


@pytest.mark.parametrize(
    ("identity", "host"),
    [
        ("host-a_8b8c2a5e-0000-4000-8000-000000000000", "host-a"),
        ("my_odd_host_1234", "my_odd_host"),
        ("host-a", "host-a"),
        ("", ""),
    ],
)
def test_the_host_of_a_holder(identity: str, host: str) -> None:
    assert holder_host(identity) == host


@pytest.mark.parametrize(
    ("lease", "now_ms", "held"),
    [
        (LeaseFacts("l", f"{US}_1", renewed_ms=10_000, duration_ms=15_000), 24_999, True),
        (LeaseFacts("l", f"{US}_1", renewed_ms=10_000, duration_ms=15_000), 25_000, False),
        (LeaseFacts("l", f"{THEM}_1", renewed_ms=10_000, duration_ms=15_000), 11_000, False),
        (LeaseFacts("l", f"{US}-2_1", renewed_ms=10_000, duration_ms=15_000), 11_000, False),
        (LeaseFacts("l", "", renewed_ms=10_000, duration_ms=15_000), 11_000, False),
        (None, 11_000, False),
    ],
)
def test_who_holds_it(lease: LeaseFacts | None, now_ms: int, held: bool) -> None:
    assert holds(lease, US, now_ms) is held


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def lease(
    host: str, *, name: str = "tangram", seconds: int = 15, age_s: float = 0.0, held_s: float = 0.0
) -> dict[str, Any]:
    """Renewed `age_s` ago, acquired `held_s` ago."""
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "holderIdentity": f"{host}_uuid" if host else "",
            "leaseDurationSeconds": seconds,
            "renewTime": ago(age_s),
            "acquireTime": ago(held_s),
        },
    }


def ago(seconds: float) -> str:
    moment = datetime.fromtimestamp(time.time() - seconds, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


async def test_the_lease_changes_hands(api: FakeApi, client: ClusterClient) -> None:
    changes: list[bool] = []
    follower = LeaseFollower(client, SETTINGS, now_ms=now_ms, on_change=changes.append)
    await api.put("leases", lease(US, name="kube-scheduler"))  # another one, of no concern
    async with running(follower.run()):
        await until(follower.synced.is_set)
        assert not follower.active
        await api.put("leases", lease(THEM))
        await until(lambda: follower.holder.startswith(THEM))
        assert changes == []
        await api.put("leases", lease(US))
        await until(lambda: follower.active)
        await api.put("leases", lease(US))  # renewed
        await api.put("leases", lease(THEM))
        await until(lambda: not follower.active)
        await api.put("leases", lease(US))
        await until(lambda: follower.active)
        await api.put("leases", lease(""))  # given up
        await until(lambda: not follower.active)
        await api.put("leases", lease(US))
        await until(lambda: follower.active)
        await api.remove("leases", "kube-system/tangram")
        await until(lambda: not follower.active)
    assert changes == [True, False, True, False, True, False]
    assert api.calls[0].path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    assert api.calls[0].query["fieldSelector"] == "metadata.name=tangram"


async def test_an_old_lease_of_ours_is_none(api: FakeApi, client: ClusterClient) -> None:
    await api.put("leases", lease(US, age_s=60))
    follower = LeaseFollower(client, SETTINGS, now_ms=now_ms, on_change=lambda _: None)
    async with running(follower.run()):
        await until(follower.synced.is_set)
        assert not follower.active


async def test_a_lease_that_is_not_renewed_expires_without_a_word_from_the_api_server(
    api: FakeApi, client: ClusterClient
) -> None:
    changes: list[bool] = []
    api.fail("WATCH", "leases", hang)
    await api.put("leases", lease(US, seconds=1))
    follower = LeaseFollower(
        client, SETTINGS, now_ms=now_ms, on_change=changes.append, reflector=ReflectorSettings(idle_s=30)
    )
    async with running(follower.run()):
        await until(lambda: follower.active)
        await until(lambda: not follower.active)
    assert changes == [True, False]


async def test_without_a_lease_we_always_act(client: ClusterClient, api: FakeApi) -> None:
    changes: list[bool] = []
    settings = LeaseSettings(follow=False, hostname=US)
    follower = LeaseFollower(client, settings, now_ms=now_ms, on_change=changes.append)
    async with running(follower.run()):
        await until(follower.synced.is_set)
        assert follower.active
    assert changes == [True]
    assert api.calls == []


class TestWriting:
    async def test_only_the_holder_writes_and_only_while_the_lease_runs(
        self, api: FakeApi, client: ClusterClient
    ) -> None:
        late_ms = 0
        follower = LeaseFollower(client, SETTINGS, now_ms=lambda: now_ms() + late_ms, on_change=lambda _: None)
        assert not follower.may_write()
        async with running(follower.run()):
            await api.put("leases", lease(US))
            await until(lambda: follower.active)
            assert follower.may_write()
            late_ms = 20_000  # the machine slept; nobody has looked since
            assert follower.active
            assert not follower.may_write()
            late_ms = 0
            await api.put("leases", lease(THEM))
            await until(lambda: not follower.active)
            assert not follower.may_write()

    async def test_without_a_lease_we_always_write(self, client: ClusterClient) -> None:
        settings = LeaseSettings(follow=False)
        assert LeaseFollower(client, settings, now_ms=now_ms, on_change=lambda _: None).may_write()


class TestSettling:
    """What the former holder's Tangram has sent may land for a while."""

    @pytest.fixture(autouse=True)
    def _short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("extender_api.cluster.lease.SETTLE_S", 0.5)

    @staticmethod
    async def settling_s(follower: LeaseFollower) -> float:
        started_s = time.monotonic()
        await follower.settle()
        return time.monotonic() - started_s

    async def test_after_a_change_of_hands(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("leases", lease(THEM))
        follower = LeaseFollower(client, SETTINGS, now_ms=now_ms, on_change=lambda _: None)
        async with running(follower.run()):
            await until(follower.synced.is_set)
            # the new holder may have read its clock long before its write took effect
            await api.put("leases", lease(US, held_s=60))
            await until(lambda: follower.active)
            assert 0.3 < await self.settling_s(follower) < 5
            assert await self.settling_s(follower) < 0.3, "tried again, it need not wait again"

    @pytest.mark.parametrize(("held_s", "waits"), [(60.0, False), (0.0, True)])
    async def test_at_the_start_it_counts_from_the_acquisition(
        self, api: FakeApi, client: ClusterClient, held_s: float, waits: bool
    ) -> None:
        await api.put("leases", lease(US, held_s=held_s))
        follower = LeaseFollower(client, SETTINGS, now_ms=now_ms, on_change=lambda _: None)
        async with running(follower.run()):
            await until(lambda: follower.active)
            assert (await self.settling_s(follower) > 0.2) is waits

    def test_a_bind_is_over_by_then(self) -> None:
        assert SETTLE_S >= BIND_S + 1
