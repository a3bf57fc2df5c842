"""What the doctor says of queues: each thing that can be wrong, in words, with what to change."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from extender_api.cluster import paths
from extender_api.doctor import queues, shipped
from extender_api.doctor.finding import Finding, Level
from extender_api.doctor.run import run_doctor
from extender_api.settings import Settings
from queues.access import Refusal
from queues.tree import Defect
from tests.doctor.paper_cluster import PaperCluster, installed, kai_queue, queue

CONFIG_MAP = "/api/v1/namespaces/tangram-system/configmaps/tangram-config"
DEFINITION = f"{shipped.COLLECTIONS['CustomResourceDefinition']}/queues.tangram.scheduler"
FILE = """
kind: Queue
metadata: {name: of-the-file}
spec: {resources: {gpu: {quota: 1}}}
---
kind: Queue
metadata: {name: broken}
spec: {resources: {gpu: {quota: much}}}
"""


def gpu(**terms: Any) -> dict[str, Any]:
    return {"resources": {"gpu": terms}}


def cluster_with(*ours: dict[str, Any], kai: tuple[dict[str, Any], ...] = (), settings: str = "") -> PaperCluster:
    """An installation of 5 nodes with 8 L4 each."""
    cluster = installed()
    cluster.queues = {paths.QUEUES: list(ours), paths.KAI_QUEUES: list(kai) or None}
    cluster.objects[CONFIG_MAP]["data"]["tangram.yaml"] += settings
    return cluster


async def examine(cluster: PaperCluster, settings: Settings | None = None) -> list[Finding]:
    client: Any = cluster
    return await run_doctor(client, settings or Settings())


async def troubles(cluster: PaperCluster, settings: Settings | None = None) -> list[Finding]:
    found = [finding for finding in await examine(cluster, settings) if finding.level is not Level.OK]
    assert all(finding.mend for finding in found)
    return found


async def told(cluster: PaperCluster) -> str:
    (found,) = (finding for finding in await examine(cluster) if finding.title == "queues")
    assert found.level is Level.OK
    return found.found


async def test_without_queues_all_is_well() -> None:
    assert await told(cluster_with()) == "none are defined: there is one queue, unlimited in everything"
    cluster = cluster_with()
    cluster.queues[paths.QUEUES] = None
    del cluster.objects[DEFINITION]
    assert not await troubles(cluster), "our kind need not be there"


async def test_sound_queues() -> None:
    pair = (queue("all", **gpu(quota=40)), queue("team-a", parent="all", **gpu(quota=40)), queue("b", parent="all"))
    assert await told(cluster_with(*pair)) == "3, of which 2 take work; pods that name none wait"
    with_default = cluster_with(*pair, settings="queues: {default: team-a}\n")
    assert await told(with_default) == "3, of which 2 take work; pods that name none are in team-a"


UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
WIDE = {"cpu": UNLIMITED, "memory": UNLIMITED}
CASES: list[tuple[Callable[[], PaperCluster], Level, str, str]] = [
    (
        lambda: cluster_with(queue("a", parent="none"), queue("b")),
        Level.ERROR,
        "queue a",
        "left out, with all below it: queue none, the parent of a, does not exist",
    ),
    (
        lambda: cluster_with(queue("a"), kai=(kai_queue("a", resources={"gpu": UNLIMITED, **WIDE}),)),
        Level.WARN,
        "queue a",
        "defined twice: that of tangram counts, that of kai is ignored",
    ),
    (
        lambda: cluster_with(queue("a", **gpu(quota=2)), queue("b", parent="a", **gpu(quota=3))),
        Level.WARN,
        "queue a",
        "the GPU quotas of the queues below it come to 3 GPUs, more than its own 2 GPUs",
    ),
    (
        lambda: cluster_with(queue("a", **gpu(limit=2)), queue("b", parent="a", **gpu(limit=3))),
        Level.WARN,
        "queue b",
        "its GPU limit 3 GPUs is above that of its parent a, 2 GPUs, which holds",
    ),
    (
        lambda: cluster_with(queue("a", **gpu(overQuotaWeight=0)), queue("b", parent="a")),
        Level.WARN,
        "queue a",
        "its GPU over-quota weight is 0",
    ),
    (
        lambda: cluster_with(kai=(kai_queue("k", resources={"gpu": {"quota": 1}, **WIDE}),)),
        Level.WARN,
        "queue k",
        "its GPU limit is 0: nothing that asks for it starts",
    ),
    (
        lambda: cluster_with(
            queue("a", **gpu(quota=30)), queue("b", **gpu(quota="10500m")), queue("c", **gpu(quota=-1))
        ),
        Level.WARN,
        "quotas",
        "those of the top queues come to 40.5 GPUs; the nodes that are ready have 40 GPUs",
    ),
    (
        lambda: cluster_with(queue("a", resources={"gpu": {"quota": 2}, "memory": {"limit": "2Ti"}})),
        Level.WARN,
        "queue a",
        "it has a quota of GPUs and none of memory: non-preemptible work, which stays within all quotas, cannot start",
    ),
    (
        lambda: cluster_with(queue("a", resources={"gpuModels": {"L4": {}, "H100": {"limit": 2}}})),
        Level.WARN,
        "GPU model H100",
        "matches the product of no node (L4), so it has no effect in queue a",
    ),
    (
        lambda: cluster_with(queue("a"), settings="queues: {default: none}\n"),
        Level.ERROR,
        "default queue",
        "none, which the setting queues.default names, does not exist: pods that name no queue wait",
    ),
    (
        lambda: cluster_with(queue("a"), queue("b", parent="a"), settings="queues: {default: a}\n"),
        Level.ERROR,
        "default queue",
        "has queues below it, and only those without take work",
    ),
    (
        lambda: cluster_with(queue("a", **gpu(quota="much")), queue("b")),
        Level.ERROR,
        "queue",
        "cannot be read: Queue a: spec.resources.gpu.quota: 'much' is not a Kubernetes quantity",
    ),
    (
        lambda: cluster_with(queue("a", resources={"gpuModels": {"L4": {}, "nvidia-l4": {}}}), queue("b")),
        Level.ERROR,
        "queue",
        "spec.resources.gpuModels['nvidia-l4']: matches products that L4 matches, too: keep one of them",
    ),
]


@pytest.mark.parametrize(("new_cluster", "level", "title", "text"), CASES)
async def test_what_is_wrong_is_found_with_a_way_to_mend_it(
    new_cluster: Callable[[], PaperCluster], level: Level, title: str, text: str
) -> None:
    (found,) = await troubles(new_cluster())
    assert (found.level, found.title) == (level, title), found
    assert text in found.found


async def test_a_circle_is_found_at_each_of_its_queues() -> None:
    found = await troubles(cluster_with(queue("a", parent="b"), queue("b", parent="a"), queue("c")))
    assert [(finding.level, finding.title) for finding in found] == [(Level.ERROR, "queue a"), (Level.ERROR, "queue b")]
    assert all("form a circle" in finding.found for finding in found)


async def test_one_defect_in_several_resources_is_one_finding() -> None:
    (found,) = await troubles(cluster_with(kai=(kai_queue("k"),)))
    assert all(f"its {resource} limit is 0" in found.found for resource in ("CPU", "memory", "GPU"))


async def test_every_defect_and_refusal_has_its_words() -> None:
    assert set(queues.MEND) == set(Defect)
    assert set(queues.DEFAULTS) == set(Refusal) - {Refusal.NO_QUEUE}


async def test_default_queues_of_namespaces() -> None:
    cluster = cluster_with(queue("a", namespaces=["one"]), queue("b"))
    for name, default in (("one", "a"), ("two", "a"), ("three", "none"), ("four", "b"), ("five", "")):
        metadata = {"name": name, "labels": {"tangram.scheduler/default-queue": default}}
        cluster.namespaces.append({"metadata": metadata})

    found = await troubles(cluster)

    assert [(finding.title, finding.found.partition(": ")[0]) for finding in found] == [
        (
            "default queue of namespace three",
            "none, which its label tangram.scheduler/default-queue names, does not exist",
        ),
        (
            "default queue of namespace two",
            "a, which its label tangram.scheduler/default-queue names, does not allow this namespace",
        ),
    ]


class TestTheFile:
    SETTINGS = "queues: {file: /etc/tangram/queues.yaml, default: of-the-file}\n"

    async def test_it_is_read_from_the_config_map_that_the_pod_mounts(self) -> None:
        cluster = cluster_with(queue("a"), settings=self.SETTINGS)
        cluster.objects[CONFIG_MAP]["data"]["queues.yaml"] = FILE

        (found,) = await troubles(cluster)

        assert (found.level, found.title) == (Level.ERROR, "file of queues (/etc/tangram/queues.yaml)")
        assert found.found.startswith("queues.yaml, document 2: Queue broken: spec.resources.gpu.quota: 'much'")

    async def test_one_that_is_elsewhere_is_not_looked_at(self) -> None:
        (found, _) = await troubles(cluster_with(queue("a"), settings=self.SETTINGS))
        assert (found.level, found.found) == (
            Level.WARN,
            "is in no ConfigMap of the pod, so it was not looked at",
        )

    async def test_one_that_is_no_yaml(self) -> None:
        cluster = cluster_with(queue("of-the-file"), settings=self.SETTINGS)
        cluster.objects[CONFIG_MAP]["data"]["queues.yaml"] = "kind: ["
        (found,) = await troubles(cluster)
        assert found.found.startswith("cannot be read: queues.yaml: not YAML, line ")

    async def test_without_an_installation_it_is_read_here(self, tmp_path: Path) -> None:
        path = tmp_path / "queues.yaml"
        settings = Settings.model_validate({"queues": {"file": path}})
        found = [finding for finding in await troubles(PaperCluster(), settings) if "file of queues" in finding.title]
        assert "No such file" in found[0].found
        path.write_text(FILE)
        found = [finding for finding in await troubles(PaperCluster(), settings) if "file of queues" in finding.title]
        assert "document 2" in found[0].found


async def test_another_definition_than_the_shipped_one_is_found() -> None:
    cluster = cluster_with()
    body = deepcopy(cluster.objects[DEFINITION])
    body["spec"]["conversion"] = {"strategy": "None"}
    cluster.objects[DEFINITION] = body
    assert not await troubles(cluster), "defaults of the API server are no difference"
    del body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["cordoned"]
    (found,) = await troubles(cluster)
    assert (found.level, found.title) == (Level.WARN, "definition of Queue")
    assert "properties.cordoned" in found.found


async def test_kinds_that_may_not_be_read_are_told() -> None:
    cluster = cluster_with(queue("a"))
    cluster.refuse["GET", paths.QUEUES] = 403
    cluster.refuse["GET", paths.NAMESPACES] = 403
    found = await troubles(cluster)
    assert [finding.title for finding in found] == ["not looked at", "not looked at"]


async def test_advise_mode_knows_no_queues() -> None:
    cluster = cluster_with(queue("a", parent="none"))
    folder = shipped.folder() / "advise" / "config"
    cluster.objects[CONFIG_MAP]["data"] = {
        name: (folder / name).read_text("utf-8") for name in ("scheduler.yaml", "tangram.yaml")
    }
    assert not [finding for finding in await examine(cluster) if "queue" in finding.title]
