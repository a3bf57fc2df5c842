"""Queue objects on a real API server: a kind that comes and goes, and statuses that are written back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from extender_api.cluster import paths
from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.cluster.queue_source import Queues, QueueSource
from extender_api.cluster.queue_status import QueueStatusSettings, QueueStatusWriter
from extender_api.cluster.reflector import ReflectorSettings
from extender_api.queue_objects import status
from extender_api.queue_objects.crd import QUEUE
from queues.amounts import Amounts
from tests.cluster.waiting import running, until
from tests.conftest import NewControlPlane
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.resources import DEFINITIONS, Object, Resource

pytestmark = pytest.mark.controlplane

QUEUES = Resource("tangram.scheduler/v1alpha1", "queues", False)
KAI_QUEUES = Resource("scheduling.run.ai/v2", "queues", False)
SETTINGS = ReflectorSettings(look_again_s=0.3, backoff_first_s=0.05, backoff_max_s=0.5)
LONG_S = 60.0


def kai_definition() -> Object:
    """As much of KAI's definition as is needed to store its Queues."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "queues.scheduling.run.ai"},
        "spec": {
            "group": "scheduling.run.ai",
            "scope": "Cluster",
            "names": {"kind": "Queue", "plural": "queues", "singular": "queue"},
            "versions": [version],
        },
    }


def queue(name: str, **spec: object) -> Object:
    return {"apiVersion": QUEUES.group_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def kai_queue(name: str, **spec: object) -> Object:
    return {"apiVersion": KAI_QUEUES.group_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def plane(new_control_plane: NewControlPlane) -> ControlPlane:
    """A control plane that has never heard of Queues."""
    return new_control_plane()


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[ClusterClient]:
    async with await ClusterClient.connect(ClientSettings(kubeconfig=str(plane.admin_kubeconfig))) as connected:
        yield connected


async def created(client: ClusterClient, path: str, document: Object) -> None:
    """Creates an object of a kind that may not be served yet."""
    for _ in range(200):
        answer = await client.create(path, document)
        if answer.ok:
            return
        assert answer.status == 404, answer.message
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} is not served")


async def test_both_kinds_come_and_go(client: ClusterClient) -> None:
    told: list[Queues] = []
    source = QueueSource(client, told.append, settings=SETTINGS)

    def names() -> list[str]:
        return sorted(f"{queue.source.value} {queue.name}" for queue in told[-1])

    async with running(source.run()):
        await asyncio.wait_for(source.synced.wait(), LONG_S)
        assert told == [()]
        assert source.ours.absent
        assert source.problems == []
        assert (await client.create(DEFINITIONS.path(), QUEUE.document())).ok
        await created(client, paths.QUEUES, queue("team-a", resources={"gpu": {"quota": 4}}))
        await until(lambda: names() == ["tangram team-a"], LONG_S)
        assert told[-1][0].gpu.quota == 4000
        assert (await client.create(DEFINITIONS.path(), kai_definition())).ok
        await created(client, paths.KAI_QUEUES, kai_queue("team-a", resources={"gpu": {"quota": 2, "limit": -1}}))
        await until(lambda: names() == ["kai team-a", "tangram team-a"], LONG_S)
        assert not source.ours.absent
        assert (await client.delete(DEFINITIONS.path(name=QUEUE.name))).ok
        await until(lambda: names() == ["kai team-a"] and source.ours.absent, LONG_S)
        assert (await client.create(DEFINITIONS.path(), QUEUE.document())).status in (201, 409)
        assert source.problems == []


async def test_without_rights_there_are_none_and_with_rights_there_are(
    plane: ControlPlane, client: ClusterClient
) -> None:
    plane.kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "poor"}}, "default")
    kubeconfig = plane.service_account_kubeconfig("default", "poor")
    assert (await client.create(DEFINITIONS.path(), QUEUE.document())).ok
    await created(client, paths.QUEUES, queue("team-a"))
    told: list[Queues] = []
    async with await ClusterClient.connect(ClientSettings(kubeconfig=str(kubeconfig))) as poor:
        source = QueueSource(poor, told.append, settings=SETTINGS)
        async with running(source.run()):
            await asyncio.wait_for(source.synced.wait(), LONG_S)
            assert told == [()]
            plane.kube.create(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": "poor"},
                    "rules": [
                        {"apiGroups": ["tangram.scheduler"], "resources": ["queues"], "verbs": ["list", "watch"]}
                    ],
                }
            )
            plane.kube.create(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": "poor"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "poor"},
                    "subjects": [{"kind": "ServiceAccount", "name": "poor", "namespace": "default"}],
                }
            )
            await until(lambda: [queue.name for queue in told[-1]] == ["team-a"], LONG_S)
            plane.kube.request("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/poor")
            await until(lambda: not source.ours.absent)
            source.ours.relist()
            await until(lambda: bool(source.problems), LONG_S)
            assert [queue.name for queue in told[-1]] == ["team-a"], "what is known stays"


async def test_statuses_are_written_and_stay_quiet(client: ClusterClient) -> None:
    assert (await client.create(DEFINITIONS.path(), QUEUE.document())).ok
    await created(client, paths.QUEUES, queue("team-a"))
    source = QueueSource(client, lambda queues: None, settings=SETTINGS)
    writer = QueueStatusWriter(
        client,
        source.ours.objects.get,
        now_ms=lambda: time.time_ns() // 1_000_000,
        settings=QueueStatusSettings(every_s=0.2),
    )

    def wanted(waiting: int, ready: bool) -> dict[str, Object]:
        amounts = status.amounts(Amounts(1500, 1 << 30, 2000), {"H100": 2000})
        document = {
            **dict.fromkeys(("allocated", "allocatedNonPreemptible", "requested", "fairShare"), amounts),
            "waiting": waiting,
            "children": [],
            "conditions": [status.condition("Ready", ready, "InTree" if ready else "Cycle", "as it is")],
        }
        return {"team-a": document, "of-the-file": document}

    async def now() -> Object:
        found: Object = (await client.get(f"{paths.QUEUES}/team-a")).json()
        return found

    async with running(source.run()), running(writer.run()):
        await asyncio.wait_for(source.synced.wait(), LONG_S)
        writer.submit(wanted(7, True))
        await until(lambda: writer.written == 1, LONG_S)
        first = (await now())["status"]
        assert (first["waiting"], first["observedGeneration"]) == (7, 1)
        (condition,) = first["conditions"]
        assert status.QueueStatus.model_validate(first)
        await asyncio.sleep(1.0)
        assert (writer.written, writer.failed) == (1, 0), "what stands there is what is wanted"

        patch = await client.call(
            "PATCH",
            f"{paths.QUEUES}/team-a",
            body={"spec": {"priority": 7}},
            content_type="application/merge-patch+json",
        )
        assert patch.ok
        writer.submit(wanted(8, True))
        await until(lambda: source.ours.objects["team-a"].status.get("observedGeneration") == 2, LONG_S)
        second = (await now())["status"]
        assert second["waiting"] == 8
        assert second["conditions"][0]["lastTransitionTime"] == condition["lastTransitionTime"]
        writer.submit(wanted(8, False))
        await until(lambda: source.ours.objects["team-a"].status["conditions"][0]["status"] == "False", LONG_S)
        assert writer.failed == 0
