"""Objects that own and describe workloads on a real API server: kinds that come, go, and change their version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender_api.cluster import paths
from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.cluster.object_source import ObjectSource
from extender_api.cluster.reflector import ReflectorSettings
from extender_api.cluster.topology_source import Topologies, TopologySource
from extender_api.pod_group_objects.crd import POD_GROUP
from extender_api.topology_objects.crd import TOPOLOGY
from scheduler.object_facts import ObjectFacts
from tests.cluster.objects import pod_group, topology
from tests.cluster.waiting import running, until
from tests.conftest import NewControlPlane
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.resources import DEFINITIONS, Object

pytestmark = pytest.mark.controlplane

SETTINGS = ReflectorSettings(look_again_s=0.3, backoff_first_s=0.05, backoff_max_s=0.5)
LONG_S = 60.0
GROUP = "tangram.scheduler"
GROUPS = f"/apis/{GROUP}/v1alpha1/namespaces/default/podgroups"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
def plane(new_control_plane: NewControlPlane) -> ControlPlane:
    """A control plane that knows none of our kinds."""
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


def job(name: str) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"tangram.scheduler/queue": "q"}},
        "spec": {"parallelism": 2, "template": template},
    }


async def test_built_in_kinds_are_there_and_ours_come_and_go(client: ClusterClient) -> None:
    told: list[str] = []

    def take(old: ObjectFacts | None, new: ObjectFacts | None) -> None:
        subject = new or old
        assert subject is not None
        told.append(f"{'new' if old is None else 'gone' if new is None else 'changed'} {subject.kind} {subject.name}")

    source = ObjectSource(client, take, settings=SETTINGS, look_every_s=0.3)
    await created(client, JOBS, job("train"))
    async with running(source.run()):
        await asyncio.wait_for(source.synced.wait(), LONG_S)
        assert {"jobs.batch", "cronjobs.batch", "replicasets.apps"} <= set(source.reflectors)
        assert source.reads("batch", "Job")
        assert not source.reads(GROUP, "PodGroup")
        found = source.named("batch", "Job", "default", "train")
        assert found is not None
        assert (found.spec["parallelism"], found.labels["tangram.scheduler/queue"]) == (2, "q")
        assert "containers" not in found.spec["template"]["spec"]
        assert found.uid
        assert found.created_ms > 0

        assert (await client.create(DEFINITIONS.path(), POD_GROUP.document())).ok
        document = pod_group("g")
        document["metadata"] = {"name": "g"}
        await created(client, GROUPS, document)
        await until(lambda: source.named(GROUP, "PodGroup", "default", "g") is not None, LONG_S)
        assert source.reads(GROUP, "PodGroup")
        assert (await client.delete(DEFINITIONS.path(name=POD_GROUP.name))).ok
        await until(lambda: not source.reads(GROUP, "PodGroup"), LONG_S)
        assert source.named(GROUP, "PodGroup", "default", "g") is None
        assert told == ["new Job train", "new PodGroup g", "gone PodGroup g"]
        assert source.problems == []


async def test_topologies_come_and_go(client: ClusterClient) -> None:
    told: list[Topologies] = []
    source = TopologySource(client, told.append, settings=SETTINGS)
    async with running(source.run()):
        await asyncio.wait_for(source.synced.wait(), LONG_S)
        assert told == [()]
        assert (await client.create(DEFINITIONS.path(), TOPOLOGY.document())).ok
        document = topology("racks", "example.com/rack")
        document["metadata"] = {"name": "racks"}
        await created(client, paths.TOPOLOGIES, document)
        await until(lambda: [item.levels for item in told[-1]] == [("example.com/rack",)], LONG_S)
        assert (await client.delete(DEFINITIONS.path(name=TOPOLOGY.name))).ok
        await until(lambda: told[-1] == (), LONG_S)
