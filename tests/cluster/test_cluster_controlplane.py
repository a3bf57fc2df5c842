"""What the fake API server of this folder assumes, asked of a real one: patches, bindings, events, watches, leases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from extender_api import text
from extender_api.actuator import BindOutcome
from extender_api.cluster import decode, paths
from extender_api.cluster.client import ClientSettings, ClusterClient, PatchKind
from extender_api.cluster.gate import Fate, hand_over
from extender_api.cluster.kube_actuator import KubeActuator
from extender_api.cluster.lease import LeaseFollower, LeaseSettings
from extender_api.cluster.reflector import Reflector, ReflectorSettings, Watched
from extender_api.cluster.sources import LIVE_PODS
from scheduler.instruction import BindOrder, Nominate, Release, Tell, Warn
from scheduler.pod import PodFacts
from scheduler.reason import Code, Reason
from tests.cluster.objects import GATE
from tests.cluster.waiting import running, until
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube import Kube
from tests.controlplane.resources import PODS, Object

pytestmark = pytest.mark.controlplane


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[ClusterClient]:
    settings = ClientSettings(kubeconfig=str(control_plane.admin_kubeconfig))
    async with await ClusterClient.connect(settings) as connected:
        yield connected


def new_pod(kube: Kube, namespace: str, name: str, *gates: str) -> Object:
    spec = {
        "schedulerName": "nobody",
        "schedulingGates": [{"name": gate} for gate in gates],
        "containers": [{"name": "main", "image": "none", "resources": {"limits": {"cpu": "1500m"}}}],
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return kube.create(document, namespace)


def actuator(client: ClusterClient, ends: list[tuple[str, bool, int]]) -> KubeActuator:
    return KubeActuator(client, on_result=lambda *end: ends.append(end), now_ms=lambda: time.time_ns() // 1_000_000)


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


class TestHandingOver:
    async def test_only_our_gate_goes(self, client: ClusterClient, kube: Kube, namespace: str) -> None:
        pod = new_pod(kube, namespace, "p", "example.com/first", GATE, "example.com/last")
        gates = ("example.com/first", GATE, "example.com/last")
        step = await hand_over(client, Release(uid(pod), namespace, "p", "n1", gates, nominate=True))
        assert step.fate is Fate.DONE
        found = kube.get(PODS, "p", namespace)
        assert [gate["name"] for gate in found["spec"]["schedulingGates"]] == ["example.com/first", "example.com/last"]
        assert found["status"]["nominatedNodeName"] == "n1"

    async def test_a_gate_that_moved(self, client: ClusterClient, kube: Kube, namespace: str) -> None:
        pod = new_pod(kube, namespace, "p", "example.com/first", GATE)
        assert (await hand_over(client, Release(uid(pod), namespace, "p", "n1", (GATE,)))).fate is Fate.DONE
        assert kube.get(PODS, "p", namespace)["spec"]["schedulingGates"] == [{"name": "example.com/first"}]
        assert (await hand_over(client, Release(uid(pod), namespace, "p", "n1", (GATE,)))).fate is Fate.DONE

    async def test_a_pod_of_another_uid_is_not_touched(self, client: ClusterClient, kube: Kube, namespace: str) -> None:
        new_pod(kube, namespace, "p", GATE)
        step = await hand_over(client, Release("other", namespace, "p", "n1", (GATE,), nominate=True))
        assert (step.fate, step.status) == (Fate.FAILED, 404)
        assert (await hand_over(client, Nominate("other", namespace, "p", "n1"))).fate is Fate.FAILED
        found = kube.get(PODS, "p", namespace)
        assert found["spec"]["schedulingGates"] == [{"name": GATE}]
        assert "nominatedNodeName" not in found["status"]

    async def test_an_absent_pod(self, client: ClusterClient, namespace: str) -> None:
        step = await hand_over(client, Release("u", namespace, "p", "n1", (GATE,)))
        assert (step.fate, step.status) == (Fate.FAILED, 404)


class TestBinding:
    async def test_every_outcome(self, client: ClusterClient, kube: Kube, namespace: str) -> None:
        office = actuator(client, [])
        pod, gated = new_pod(kube, namespace, "p"), new_pod(kube, namespace, "gated", GATE)
        order = BindOrder(uid(pod), namespace, "p", "n1", {"tangram.scheduler/allocation": "{}"})
        assert (await office.bind(order)).outcome is BindOutcome.BOUND
        bound = kube.get(PODS, "p", namespace)
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"]["tangram.scheduler/allocation"] == "{}"
        assert (await office.bind(order)).outcome is BindOutcome.ALREADY_THERE
        elsewhere = await office.bind(BindOrder(uid(pod), namespace, "p", "n2"))
        assert (elsewhere.outcome, elsewhere.text) == (BindOutcome.ELSEWHERE, "already assigned to node n1")
        assert (await office.bind(BindOrder("other", namespace, "p", "n1"))).outcome is BindOutcome.GONE
        assert (await office.bind(BindOrder("u", namespace, "absent", "n1"))).outcome is BindOutcome.GONE
        refused = await office.bind(BindOrder(uid(gated), namespace, "gated", "n1"))
        assert refused.outcome is BindOutcome.RETRY
        assert "schedulingGates" in refused.text


class TestTelling:
    async def test_message_and_events(self, client: ClusterClient, kube: Kube, namespace: str) -> None:
        pod = new_pod(kube, namespace, "p", GATE)
        reason = Reason(Code.INSUFFICIENT_CPU, {"need_milli": 1500, "best_milli": 300})
        office = actuator(client, [])
        async with running(office.run()):
            office.submit(Tell(uid(pod), namespace, "p", reason, gated=True))
            office.submit(Warn(uid(pod), namespace, "p", "DEPRECATED_KEY", "é" * 1000))
            await self.worked_off(office)
        assert office.notices.failed == 0
        (condition,) = kube.get(PODS, "p", namespace)["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
        assert condition["message"] == text.sentence(reason)
        found = kube.request("GET", paths.events(namespace))["items"]
        assert {(event["type"], event["reason"]) for event in found} == {
            ("Normal", "InsufficientCpu"),
            ("Warning", "DeprecatedKey"),
        }

    async def test_a_pod_released_meanwhile_is_left_alone(
        self, client: ClusterClient, kube: Kube, namespace: str
    ) -> None:
        pod = new_pod(kube, namespace, "p", GATE)
        assert (await hand_over(client, Release(uid(pod), namespace, "p", "n1", (GATE,)))).fate is Fate.DONE
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}
        patch = {"status": {"conditions": [unschedulable]}}
        assert (await client.patch(paths.pod(namespace, "p", "status"), patch, PatchKind.STRATEGIC)).ok
        office = actuator(client, [])
        async with running(office.run()):
            office.submit(Tell(uid(pod), namespace, "p", Reason(Code.INSUFFICIENT_CPU), gated=True))
            await self.worked_off(office)
        (condition,) = kube.get(PODS, "p", namespace)["status"]["conditions"]
        assert condition["message"] == "0/3"
        assert kube.request("GET", paths.events(namespace))["items"] == []

    @staticmethod
    async def worked_off(office: KubeActuator) -> None:
        await until(lambda: len(office.notices) == 0)
        await asyncio.sleep(0.3)  # the last one is under way


class TestWatching:
    async def test_a_pod_from_creation_to_its_end(self, client: ClusterClient, kube: Kube, namespace: str) -> None:
        story: list[str] = []

        def change(old: PodFacts | None, new: PodFacts | None) -> None:
            if new is not None and new.namespace == namespace:
                story.append(f"{new.name} on {new.node_name} gates {len(new.gates)}")
            elif new is None and old is not None and old.namespace == namespace:
                story.append(f"{old.name} gone")

        reflector = Reflector(
            client, Watched(decode.PODS, paths.PODS, LIVE_PODS), change, ReflectorSettings(page_size=2)
        )
        for number in range(5):
            await asyncio.to_thread(new_pod, kube, namespace, f"early{number}")
        async with running(reflector.run()):
            await asyncio.wait_for(reflector.synced.wait(), 20)
            assert story == [f"early{number} on None gates 0" for number in range(5)]
            story.clear()
            pod = await asyncio.to_thread(new_pod, kube, namespace, "p", GATE)
            await hand_over(client, Release(uid(pod), namespace, "p", "n1", (GATE,)))
            await actuator(client, []).bind(BindOrder(uid(pod), namespace, "p", "n1"))
            body = {"status": {"phase": "Succeeded"}}
            assert (await client.patch(paths.pod(namespace, "p", "status"), body, PatchKind.MERGE)).ok
            await until(lambda: "p gone" in story)
            assert story == ["p on None gates 1", "p on None gates 0", "p on n1 gates 0", "p gone"]
            reflector.relist()
            await until(lambda: reflector.stats.relists == 1)
            assert len(story) == 4
            assert reflector.stats.failures == 0

    async def test_the_lease(self, client: ClusterClient, namespace: str) -> None:
        changes: list[bool] = []
        settings = LeaseSettings(namespace=namespace, name="tangram", hostname="host-a")
        follower = LeaseFollower(client, settings, now_ms=lambda: time.time_ns() // 1_000_000, on_change=changes.append)

        def body(holder: str) -> dict[str, Any]:
            renewed = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            spec = {"holderIdentity": f"{holder}_uuid", "leaseDurationSeconds": 15, "renewTime": renewed}
            return {"metadata": {"name": "tangram", "namespace": namespace}, "spec": spec}

        lease = f"{paths.leases(namespace)}/tangram"
        async with running(follower.run()):
            await until(follower.synced.is_set)
            assert not follower.active
            assert (await client.create(paths.leases(namespace), body("host-a"))).ok
            await until(lambda: follower.active)
            assert (await client.patch(lease, body("host-b"), PatchKind.MERGE)).ok
            await until(lambda: not follower.active)
        assert changes == [True, False]
