"""Every kind as its project writes it, with pods as its controller makes them: gang, tree, minima, place."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from scheduler.gang_spec import GangKey, GangSpec, Nearness, Slice
from tests.recognition.world import CREATED_MS, group, load, names, root, tree

RACK = "cloud.provider.com/topology-rack"
BLOCK = "cloud.provider.com/topology-block"


class Expected(NamedTuple):
    manifest: str
    pod: str
    source: str | None
    name: str = ""
    tree: Any = None
    leaf: str = ""
    rank: int | None = None
    queue: str | None = None
    uid: str = ""


JOBSET = {"driver": {"driver-0": 1}, "workers": {"workers-0": 4, "workers-1": 1}}
PYTORCH = {"master": 1, "worker": {f"worker-{i}": 4 if i < 3 else 0 for i in range(5)}}
RAY = {"headgroup": 1, "small": 1, "large": 1}
DISAGG = {"x": 2, "y": 1, "zone": {"z1": 2, "z2": 2}}
SEGMENTS = {"segment-0": {"leader": 1, "workers-0": 3}, "workers-1": 4}
EXCLUDED = {"leader": 1, "workers-0": 2, "workers-1": 2}
VOLCANO = {"mpimaster": 1, "mpiworker": 2, "*": 0}
GROVE = {"disagg-0-prefill": 1, "disagg-0-decode": 2}
SLICES = {"slices": {"slices-0": 4, "slices-1": 4}}
LLM = {"dataset-initializer": {"dataset-initializer-0": 0}, "node": {"node-0": 2}}
R, I = "research", "inference"  # noqa: E741

CASES = [
    Expected("job", "sweep-2-m4wzc", "Job", "sweep", 4, "", 2, R, "job-sweep"),
    Expected("job-plain", "plain-1-b9fqd", None, rank=1),
    Expected(
        "cronjob", "nightly-29450340-0-x7k2p", "Job", "nightly-29450340", 2, "", 0, "batch", "job-nightly-29450340"
    ),
    Expected("jobset", "train-driver-0-0-x7k2p", "JobSet", "train", JOBSET, "driver-0", 0, R, "jobset-train"),
    Expected("jobset", "train-workers-1-1-b9fqd", "JobSet", "train", JOBSET, "workers-1", 1, R, "jobset-train"),
    Expected(
        "jobset-topology",
        "kueue-tas-slices-1-0-x7k2p",
        "JobSet",
        "kueue-tas.restart-1",
        SLICES,
        "slices-1",
        0,
        "user-queue",
        "jobset-kueue-tas",
    ),
    Expected("trainjob", "llm-node-0-1-b9fqd", "JobSet", "llm", LLM, "node-0", 1, R, "jobset-llm"),
    Expected("pytorchjob", "ddp-master-0", "PyTorchJob", "ddp", PYTORCH, "master", 0, R, "pytorchjob-ddp"),
    Expected("pytorchjob", "ddp-worker-9", "PyTorchJob", "ddp", PYTORCH, "worker-2", 1, R, "pytorchjob-ddp"),
    Expected("pytorchjob", "ddp-worker-19", "PyTorchJob", "ddp", PYTORCH, "worker-4", 3, R, "pytorchjob-ddp"),
    Expected(
        "pytorchjob-elastic",
        "elastic-worker-3",
        "PyTorchJob",
        "elastic",
        {"worker": 2},
        "worker",
        3,
        None,
        "pytorchjob-elastic",
    ),
    Expected("tfjob", "tf-ps-1", "TFJob", "tf", {"ps": 2, "chief": 1, "worker": 1}, "ps", 1, None, "tfjob-tf"),
    Expected("tfjob", "tf-worker-2", "TFJob", "tf", {"ps": 2, "chief": 1, "worker": 1}, "worker", 2, None, "tfjob-tf"),
    Expected(
        "xgboostjob",
        "xgb-worker-1",
        "XGBoostJob",
        "xgb",
        {"master": 1, "worker": 2},
        "worker",
        1,
        None,
        "xgboostjob-xgb",
    ),
    Expected("jaxjob", "jax-worker-3", "JAXJob", "jax", {"worker": 4}, "worker", 3, None, "jaxjob-jax"),
    Expected("paddlejob", "pd-worker-1", "PaddleJob", "pd", {"worker": 2}, "worker", 1, None, "paddlejob-pd"),
    Expected("mpijob", "mpi-worker-1", "MPIJob", "mpi", {"launcher": 0, "worker": 2}, "worker", 1, None, "mpijob-mpi"),
    Expected(
        "mpijob",
        "mpi-launcher-k8z5d",
        "MPIJob",
        "mpi",
        {"launcher": 0, "worker": 2},
        "launcher",
        None,
        None,
        "mpijob-mpi",
    ),
    Expected("raycluster", "serve-head-4xk2p", "RayCluster", "serve", RAY, "headgroup", None, I, "raycluster-serve"),
    Expected(
        "raycluster", "serve-large-worker-wzc4t", "RayCluster", "serve", RAY, "large", None, I, "raycluster-serve"
    ),
    Expected(
        "rayjob",
        "tune-6m9xq-tpu-worker-12q7z",
        "RayCluster",
        "tune-6m9xq",
        {"headgroup": 1, "tpu": 6},
        "tpu",
        5,
        R,
        "raycluster-tune-6m9xq",
    ),
    Expected("rayjob", "tune-zk4vd", None, queue=R),
    Expected("rayjob", "tune-6m9xq-redis-cleanup-8s2kd", None, queue=R),
    Expected(
        "rayservice",
        "llm-raycluster-t9zqw-gpu-worker-b2kxd",
        "RayCluster",
        "llm-raycluster-t9zqw",
        {"headgroup": 1, "gpu": 1},
        "gpu",
        None,
        I,
        "raycluster-llm-raycluster-t9zqw",
    ),
    Expected(
        "leaderworkerset",
        "vllm-1",
        "LeaderWorkerSet",
        "vllm-1",
        {"leader": 1, "workers": 1},
        "leader",
        0,
        I,
        "leaderworkerset-vllm",
    ),
    Expected(
        "leaderworkerset",
        "vllm-1-1",
        "LeaderWorkerSet",
        "vllm-1",
        {"leader": 1, "workers": 1},
        "workers",
        0,
        I,
        "leaderworkerset-vllm",
    ),
    Expected(
        "leaderworkerset-ready",
        "ready-0-3",
        "LeaderWorkerSet",
        "ready-0",
        {"leader": 1, "workers": 3},
        "workers",
        2,
        None,
        "leaderworkerset-ready",
    ),
    Expected(
        "leaderworkerset-segments",
        "seg-0",
        "LeaderWorkerSet",
        "seg-0",
        SEGMENTS,
        "leader",
        0,
        None,
        "leaderworkerset-seg",
    ),
    Expected(
        "leaderworkerset-segments",
        "seg-0-1",
        "LeaderWorkerSet",
        "seg-0",
        SEGMENTS,
        "workers-0",
        0,
        None,
        "leaderworkerset-seg",
    ),
    Expected(
        "leaderworkerset-segments",
        "seg-0-7",
        "LeaderWorkerSet",
        "seg-0",
        SEGMENTS,
        "workers-1",
        3,
        None,
        "leaderworkerset-seg",
    ),
    Expected(
        "leaderworkerset-excluded",
        "excl-0-2",
        "LeaderWorkerSet",
        "excl-0",
        EXCLUDED,
        "workers-0",
        1,
        None,
        "leaderworkerset-excl",
    ),
    Expected(
        "leaderworkerset-excluded",
        "excl-0-3",
        "LeaderWorkerSet",
        "excl-0",
        EXCLUDED,
        "workers-1",
        0,
        None,
        "leaderworkerset-excl",
    ),
    Expected("statefulset", "db-1", None, rank=1, queue=I),
    Expected("deployment", "web-7d9c5-k2xpd", None, queue=I),
    Expected("argo-workflow", "flow-8hq2k-1539", None, queue="batch"),
    Expected(
        "argo-workflow",
        "step-worker-0",
        "PyTorchJob",
        "step",
        {"master": 1, "worker": 1},
        "worker",
        0,
        "batch",
        "pytorchjob-step",
    ),
    Expected("knative", "hello-00001-deployment-5f7c-x2k9p", None, queue=I),
    Expected("notebook", "lab-0", None, rank=0),
    Expected("virtual-machine-instance", "virt-launcher-vm-8k2zp", None),
    Expected("tekton", "build-pod", None),
    Expected("seldon", "iris-default-0-c-59dd-7mzxk", None),
    Expected("unknown-kind", "frob-0", None),
    Expected("spark", "pi-driver", "Spark", "spark-4f0c9c1b2d3e", 1, "", 0, "batch"),
    Expected("spark", "pi-exec-2", "Spark", "spark-4f0c9c1b2d3e", 1, "", 2, None),
    Expected("kai-podgroup", "x-1", "PodGroup", "pg-disagg", DISAGG, "x", None, I),
    Expected("kai-podgroup", "z1-0", "PodGroup", "pg-disagg", DISAGG, "z1", None, I),
    Expected("tangram-podgroup", "pair-1", "PodGroup", "pair", 2, "", None, R),
    Expected("volcano", "mpi-mpiworker-2", "volcano", "mpi-0e4c-uid", VOLCANO, "mpiworker", 2, R),
    Expected("coscheduling", "nginx-0", "coscheduling", "nginx", 3),
    Expected("upstream-podgroup", "train-1", "kubernetes", "train-workers", 4),
    Expected("upstream-workload", "w-0", "kubernetes", "training/workers", 4),
    Expected("upstream-workload", "ps-0", "kubernetes", "training/ps", 0),
    Expected("grove", "disagg-0-decode-bk2zq", "grove", "disagg-0", GROVE, "disagg-0-decode", 1, I),
    Expected("koordinator", "gang-a-1", "koordinator", "gang-a", 2),
    Expected("kueue", "grp-2", "kueue", "grp", 3, "", 2),
    Expected("old-coscheduling", "old-0", "coscheduling-labels", "old", 2),
    Expected("yunikorn", "app-driver", "yunikorn", "app-7", {"spark-driver": 1, "spark-executor": 3}, "spark-driver"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.manifest}:{case.pod}")
def test_a_pod_of_every_kind(case: Expected) -> None:
    found = load(case.manifest).of(case.pod)
    assert found.problem == ""
    assert found.missing == ""
    assert found.warnings == {}
    assert (found.leaf, found.index, found.queue) == (case.leaf, case.rank, case.queue)
    if case.source is None:
        assert found.gang is None
        assert found.spec is None
        return
    assert found.gang == GangKey("team-a", case.source, case.name, case.uid)
    assert tree(root(found)) == case.tree


def test_every_manifest_is_used() -> None:
    assert {case.manifest for case in CASES} == set(names())


@pytest.mark.parametrize("manifest", sorted(set(names()) - {"yunikorn"}))
def test_all_pods_of_a_gang_tell_the_same_of_it(manifest: str) -> None:
    world = load(manifest)
    told: dict[GangKey, GangSpec | None] = {}
    for name in world.pods:
        found = world.of(name)
        if found.gang is not None:
            assert told.setdefault(found.gang, found.spec) == found.spec
            assert found.leaf in [leaf.name for leaf in root(found).leaves()]


def test_a_gang_is_as_old_as_its_owner() -> None:
    spec = load("jobset").of("train-driver-0-0-x7k2p").spec
    assert spec is not None
    assert spec.created_ms == CREATED_MS


class TestNearness:
    @pytest.mark.parametrize(
        ("manifest", "pod", "where", "expected"),
        [
            ("job", "sweep-2-m4wzc", "", Nearness("rack", "", "fabric")),
            ("jobset", "train-driver-0-0-x7k2p", "", Nearness("block", "", "fabric")),
            ("jobset", "train-driver-0-0-x7k2p", "workers", Nearness("", "rack", "fabric")),
            ("jobset-topology", "kueue-tas-slices-0-0-x7k2p", "slices", Nearness(BLOCK)),
            ("jobset-topology", "kueue-tas-slices-0-0-x7k2p", "slices-1", Nearness(RACK, exclusive=RACK)),
            ("trainjob", "llm-node-0-0-x7k2p", "", Nearness("rack", "", "fabric")),
            ("pytorchjob", "ddp-master-0", "worker-3", Nearness("rack", "", "fabric")),
            ("pytorchjob", "ddp-master-0", "", None),
            ("raycluster", "serve-head-4xk2p", "large", Nearness("rack", "", "fabric")),
            ("raycluster", "serve-head-4xk2p", "small", None),
            ("leaderworkerset", "vllm-0", "", Nearness(RACK, exclusive=RACK)),
            ("leaderworkerset-segments", "seg-0", "segment-0", Nearness("rack", "", "fabric")),
            ("leaderworkerset-segments", "seg-0", "workers-0", None),
            ("leaderworkerset-excluded", "excl-0", "workers-1", Nearness(RACK, exclusive=RACK)),
            ("leaderworkerset-excluded", "excl-0", "leader", None),
            ("kai-podgroup", "x-0", "", Nearness("block", "", "fabric")),
            ("kai-podgroup", "x-0", "zone", Nearness("rack", "host", "fabric")),
            ("tangram-podgroup", "pair-0", "", Nearness("", "rack")),
            ("volcano", "mpi-mpimaster-0", "", Nearness("", "rack")),
            ("upstream-podgroup", "train-0", "", Nearness("topology.kubernetes.io/zone")),
            ("grove", "disagg-0-prefill-ak2zq", "", Nearness("block", "rack")),
            ("grove", "disagg-0-prefill-ak2zq", "disagg-0-decode", Nearness("rack")),
            ("koordinator", "gang-a-0", "", Nearness("blockLayer", "spineLayer")),
            ("kueue", "grp-0", "", Nearness(BLOCK)),
        ],
    )
    def test_of_groups(self, manifest: str, pod: str, where: str, expected: Nearness | None) -> None:
        assert group(load(manifest).of(pod), where).nearness == expected

    def test_slices_of_kueue(self) -> None:
        found = load("jobset-topology").of("kueue-tas-slices-0-0-x7k2p")
        assert group(found, "slices-0").slices == (Slice(2, RACK),)


class TestStartingInTurn:
    @pytest.mark.parametrize(
        ("manifest", "pod", "expected"),
        [
            ("jobset", "train-driver-0-0-x7k2p", None),
            ("jobset-topology", "kueue-tas-slices-0-0-x7k2p", 1),
            ("trainjob", "llm-node-0-0-x7k2p", 1),
            ("leaderworkerset", "vllm-0", None),
            ("leaderworkerset-ready", "ready-0", 1),
            ("kai-podgroup", "x-0", 2),
        ],
    )
    def test_one_group_is_enough_where_the_next_comes_later(
        self, manifest: str, pod: str, expected: int | None
    ) -> None:
        assert root(load(manifest).of(pod)).min_children == expected


def test_the_first_segment_starts_with_its_leader_where_workers_wait_for_him() -> None:
    world = load("leaderworkerset-segments").with_spec("LeaderWorkerSet", {"startupPolicy": "LeaderReady"})
    found = world.of("seg-0")
    assert root(found).min_children == 1
    assert group(found, "segment-0").min_children == 1
