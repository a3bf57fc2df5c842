"""Objects that own or describe workloads: whatever kinds the cluster has, followed and found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from extender_api.cluster.client import ClusterClient
from extender_api.cluster.object_kinds import OBJECT_KINDS, ObjectKind
from extender_api.cluster.object_source import ObjectSource
from extender_api.cluster.reflector import ReflectorSettings
from scheduler.object_facts import ObjectFacts, Objects
from tests.cluster.fakeapi import FakeApi, Object, answer
from tests.cluster.waiting import running, until

QUICK = ReflectorSettings(backoff_first_s=0.01, backoff_max_s=0.05, idle_s=10.0)
JOB = next(kind for kind in OBJECT_KINDS if kind.kind == "Job")
MPI = next(kind for kind in OBJECT_KINDS if kind.kind == "MPIJob")
GROUPS = [kind for kind in OBJECT_KINDS if kind.kind == "PodGroup"]


class Story:
    """What was told, in short."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.choke_on = ""

    def take(self, old: ObjectFacts | None, new: ObjectFacts | None) -> None:
        subject = new or old
        assert subject is not None
        if subject.name == self.choke_on:
            raise ValueError(subject.name)
        how = "new" if old is None else "gone" if new is None else "changed"
        self.told.append(f"{how} {subject.kind} {subject.namespace}/{subject.name}")


@asynccontextmanager
async def following(
    client: ClusterClient,
    story: Story,
    *,
    kinds: Sequence[ObjectKind] = OBJECT_KINDS,
    look_every_s: float = 0.05,
    give_up_s: float = 30.0,
) -> AsyncIterator[ObjectSource]:
    source = ObjectSource(
        client, story.take, kinds=kinds, settings=QUICK, look_every_s=look_every_s, give_up_s=give_up_s
    )
    async with running(source.run()):
        yield source


def thing(name: str, uid: str = "", status: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "a", "uid": uid or f"uid-{name}"}, "spec": spec, "status": status}


async def test_without_any_kind_it_is_in_sync_and_asks_for_nothing_else(api: FakeApi, client: ClusterClient) -> None:
    async with following(client, Story()) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        await until(lambda: api.count("GET", "/apis") > 2)
        assert {call.path for call in api.calls} == {"/apis"}
        assert not source.reads("batch", "Job")
        assert source.problems == []


async def test_objects_are_found_by_uid_and_by_name(api: FakeApi, client: ClusterClient) -> None:
    jobs = api.serve("batch", "v1", "jobs")
    await api.put(jobs, thing("j", parallelism=2))
    story = Story()
    async with following(client, story) as source:
        objects: Objects = source
        await asyncio.wait_for(source.synced.wait(), 10)
        job = objects.by_uid("uid-j")
        assert job is not None
        assert (job.api_version, job.kind, job.spec) == ("batch/v1", "Job", {"parallelism": 2})
        assert objects.named("batch", "Job", "a", "j") is job
        assert objects.named("batch", "Job", "b", "j") is None
        assert objects.reads("batch", "Job")
        assert not objects.reads("batch", "CronJob")
        await api.put(jobs, thing("j", parallelism=3))
        await until(lambda: story.told == ["new Job a/j", "changed Job a/j"])
        await api.remove(jobs, "a/j")
        await until(lambda: story.told[-1] == "gone Job a/j")
        assert objects.by_uid("uid-j") is objects.named("batch", "Job", "a", "j") is None
        assert objects.reads("batch", "Job"), "it is read, and there is none"


async def test_one_made_anew_is_another(api: FakeApi, client: ClusterClient) -> None:
    jobs = api.serve("batch", "v1", "jobs")
    await api.put(jobs, thing("j", "first"))
    story = Story()
    async with following(client, story) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        await api.remove(jobs, "a/j")
        await api.put(jobs, thing("j", "second"))
        await until(lambda: story.told == ["new Job a/j", "gone Job a/j", "new Job a/j"])
        assert source.by_uid("first") is None
        assert source.named("batch", "Job", "a", "j") is source.by_uid("second") is not None


async def test_a_status_that_plays_no_part_is_not_told(api: FakeApi, client: ClusterClient) -> None:
    jobs = api.serve("batch", "v1", "jobs")
    await api.put(jobs, thing("j", status={"active": 1, "ready": 0}))
    story = Story()
    async with following(client, story) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        await api.put(jobs, thing("j", status={"active": 2, "ready": 1, "conditions": [{"type": "Suspended"}]}))
        await api.put(jobs, thing("other"))
        await until(lambda: story.told == ["new Job a/j", "new Job a/other"])
        await api.put(jobs, thing("j", status={"active": 1, "succeeded": 1}))
        await until(lambda: story.told[-1] == "changed Job a/j")


async def test_groups_of_all_makes_are_told_apart(api: FakeApi, client: ClusterClient) -> None:
    for number, kind in enumerate(GROUPS):
        await api.put(api.serve(kind.group, kind.versions[-1], kind.plural), thing("g", f"uid-{number}", number=number))
    async with following(client, Story()) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        for number, kind in enumerate(GROUPS):
            found = source.named(kind.group, "PodGroup", "a", "g")
            assert found is not None
            assert found.spec == {"number": number}
            assert found.api_version == f"{kind.group}/{kind.versions[-1]}"


async def test_the_newest_version_that_is_served_is_read(api: FakeApi, client: ClusterClient) -> None:
    for version in ("v1", "v2beta1", "v9"):
        api.serve("kubeflow.org", version, "mpijobs")
    async with following(client, Story()) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        assert api.count("GET", "/v2beta1/mpijobs") == 1
        assert api.count("GET", "/v1/mpijobs") == api.count("GET", "/v9/mpijobs") == 0


async def test_a_version_that_is_no_longer_served_is_left_for_another(api: FakeApi, client: ClusterClient) -> None:
    jobs = api.serve("kubeflow.org", "v1", "mpijobs")
    await api.put(jobs, thing("m"))
    story = Story()
    async with following(client, story, kinds=[MPI]) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        api.serve("kubeflow.org", "v2beta1", "mpijobs")
        asked = api.count("GET", "/apis")
        await until(lambda: api.count("GET", "/apis") > asked + 2)
        assert api.count("GET", "/v2beta1/mpijobs") == 0, "it stays with a version as long as it can"
        api.served.discard(("kubeflow.org", "v1", "mpijobs"))
        await until(lambda: len(story.told) == 3)
        found = source.by_uid("uid-m")
        assert found is not None
        assert found.api_version == "kubeflow.org/v2beta1"
        assert story.told == ["new MPIJob a/m", "gone MPIJob a/m", "new MPIJob a/m"]


async def test_a_receiver_that_chokes_on_one_hears_of_the_others(api: FakeApi, client: ClusterClient) -> None:
    jobs = api.serve("kubeflow.org", "v1", "mpijobs")
    await api.put(jobs, thing("bad"))
    await api.put(jobs, thing("good"))
    story = Story()
    async with following(client, story, kinds=[MPI]) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        story.choke_on = "bad"
        api.served = {("kubeflow.org", "v2beta1", "mpijobs")}
        await until(lambda: story.told[-2:] == ["gone MPIJob a/good", "new MPIJob a/good"])


async def test_a_kind_that_comes_is_taken_up_and_one_that_goes_takes_its_objects(
    api: FakeApi, client: ClusterClient
) -> None:
    story = Story()
    async with following(client, story) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        jobs = api.serve("jobset.x-k8s.io", "v1alpha2", "jobsets")
        await api.put(jobs, thing("s"))
        await until(lambda: story.told == ["new JobSet a/s"])
        assert source.reads("jobset.x-k8s.io", "JobSet")
        await api.undefine(jobs)
        await until(lambda: story.told == ["new JobSet a/s", "gone JobSet a/s"])
        await until(lambda: not source.reads("jobset.x-k8s.io", "JobSet"))


async def nothing(_: web.Request) -> web.Response:
    return web.json_response({"groups": []})


async def test_a_discovery_that_forgets_a_kind_for_a_moment_costs_nothing(api: FakeApi, client: ClusterClient) -> None:
    jobs = api.serve("batch", "v1", "jobs")
    await api.put(jobs, thing("j"))
    story = Story()
    async with following(client, story) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        asked = api.count("GET", "/apis")
        api.fail("GET", "/apis", nothing, times=2)
        await until(lambda: api.count("GET", "/apis") > asked + 3)
        assert story.told == ["new Job a/j"]
        assert source.reads("batch", "Job")


async def test_a_kind_that_may_not_be_read_keeps_nobody_waiting(api: FakeApi, client: ClusterClient) -> None:
    await api.put(api.serve("batch", "v1", "jobs"), thing("j"))
    await api.put(api.serve("apps", "v1", "replicasets"), thing("r"))
    api.fail("GET", "/v1/jobs", answer(403, "jobs is forbidden"), times=1000)
    async with following(client, Story()) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        assert not source.reads("batch", "Job")
        assert source.reads("apps", "ReplicaSet")
        assert source.problems == []


async def test_a_kind_in_trouble_keeps_the_others_waiting_for_a_while_only(
    api: FakeApi, client: ClusterClient, caplog: pytest.LogCaptureFixture
) -> None:
    await api.put(api.serve("batch", "v1", "jobs"), thing("j"))
    await api.put(api.serve("kubeflow.org", "v2beta1", "mpijobs"), thing("m"))
    api.fail("GET", "/mpijobs", answer(500, "conversion webhook failed"), times=100)
    async with following(client, Story(), give_up_s=0.5) as source:
        await until(lambda: source.reads("batch", "Job"))
        assert not source.synced.is_set()
        await asyncio.wait_for(source.synced.wait(), 10)
        assert not source.reads("kubeflow.org", "MPIJob")
        assert source.problems == ["mpijobs.kubeflow.org cannot be read: 500: conversion webhook failed"]
        assert "mpijobs.kubeflow.org cannot be read, going on without" in caplog.text
        api.faults.clear()
        await until(lambda: source.reads("kubeflow.org", "MPIJob"))
        assert source.by_uid("uid-m") is not None


async def test_until_it_is_known_what_there_is_nothing_is_in_sync(api: FakeApi, client: ClusterClient) -> None:
    await api.put(api.serve("batch", "v1", "jobs"), thing("j"))
    api.fail("GET", "/apis", answer(500, "starting"), times=1000)
    async with following(client, Story()) as source:
        await until(lambda: api.count("GET", "/apis") > 3)
        assert not source.synced.is_set()
        assert source.problems == ["which kinds the cluster has is not known: 500: starting"]
        api.faults.clear()
        await asyncio.wait_for(source.synced.wait(), 10)
        assert source.problems == []
        assert source.by_uid("uid-j") is not None


async def test_who_may_not_ask_what_there_is_tries_everything(api: FakeApi, client: ClusterClient) -> None:
    await api.put(api.serve("batch", "v1", "jobs"), thing("j"))
    api.fail("GET", "/apis", answer(403, "no"), times=1000)
    async with following(client, Story(), look_every_s=3600.0) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        assert source.by_uid("uid-j") is not None
        assert source.reads("batch", "Job")
        assert not source.reads("batch", "CronJob")
        assert {call.path for call in api.calls} >= {kind.path(kind.versions[0]) for kind in OBJECT_KINDS}


async def test_an_unreadable_object_is_a_problem_and_stops_nobody(api: FakeApi, client: ClusterClient) -> None:
    jobs = api.serve("batch", "v1", "jobs")
    broken = thing("broken")
    broken["metadata"]["creationTimestamp"] = "yesterday"
    await api.put(jobs, broken)
    await api.put(jobs, thing("sound"))
    async with following(client, Story(), kinds=[JOB]) as source:
        await asyncio.wait_for(source.synced.wait(), 10)
        (problem,) = source.problems
        assert problem.startswith("Job a/broken: metadata.creationTimestamp: 'yesterday' is not a time")
        assert source.by_uid("uid-sound") is not None
        assert list(source.reflectors) == ["jobs.batch"]


def test_every_kind_stands_once_and_names_its_collection() -> None:
    assert len({kind.definition for kind in OBJECT_KINDS}) == len(OBJECT_KINDS)
    assert len({(kind.group, kind.kind) for kind in OBJECT_KINDS}) == len(OBJECT_KINDS)
    assert JOB.path("v1") == "/apis/batch/v1/jobs"
    assert all(kind.versions and kind.plural.islower() for kind in OBJECT_KINDS)
