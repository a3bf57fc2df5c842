"""The Queue CRD on a real API server: what it takes, what it refuses and in which words, and what kubectl shows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extender_api.cluster import paths
from extender_api.queue_objects import status
from extender_api.queue_objects.crd import QUEUE
from extender_api.queue_objects.read import read_queue
from queues.amounts import UNLIMITED, Amounts
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.resources import Object, Resource

pytestmark = pytest.mark.controlplane

QUEUES = Resource("tangram.scheduler/v1alpha1", "queues", False)


@pytest.fixture
def kube(kube: Kube) -> Iterator[Kube]:
    """A client of a control plane with the CRD; the queues go with the test."""
    kube.apply(QUEUE.document())
    kube.wait_until_served(QUEUES)
    yield kube
    kube.delete_all(QUEUES)


def queue(name: str, **spec: Any) -> Object:
    return {"apiVersion": QUEUES.group_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def create(kube: Kube, document: Object) -> Object:
    made: Object = kube.request("POST", paths.QUEUES, document, {"fieldValidation": "Strict"})
    return made


def refusal(kube: Kube, document: Object) -> str:
    with pytest.raises(ApiError) as caught:
        create(kube, document)
    assert caught.value.status in (400, 422)
    return str(caught.value)


def test_the_definition_is_accepted_as_it_is(kube: Kube) -> None:
    found = kube.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{QUEUE.name}")
    conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
    assert conditions["NamesAccepted"] == conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_a_queue_with_everything_is_taken_and_read_back(kube: Kube) -> None:
    spec = {
        "parent": "department",
        "priority": 200,
        "resources": {
            "gpu": {"quota": 4, "limit": "8500m", "overQuotaWeight": 2.5},
            "cpu": {"quota": "16", "limit": -1, "overQuotaWeight": 3},
            "memory": {"quota": "64Gi", "limit": "-1"},
            "gpuModels": {"H100": {"quota": 1, "limit": 2}, "A100-SXM4": {}},
        },
        "preemptMinRuntime": "5m",
        "reclaimMinRuntime": "1h30m",
        "namespaces": ["team-a"],
        "namespaceSelector": {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
        "topology": "racks",
        "pools": ["reserved", "spot"],
        "cordoned": True,
        "strictFifo": True,
        "autoscaling": "visible",
        "starvingAfter": "10m",
    }
    made = create(kube, queue("team-a", **spec))
    assert made["spec"] == spec, "nothing is dropped"
    found = read_queue(made)
    assert (found.parent, found.priority, found.cordoned, found.strict_fifo) == ("department", 200, True, True)
    assert (found.gpu.quota, found.gpu.limit, found.gpu.weight_milli) == (4000, 8500, 2500)
    assert (found.cpu.quota, found.cpu.limit, found.cpu.weight_milli) == (16_000, UNLIMITED, 3000)
    assert (found.memory.quota, found.memory.limit) == (64 << 30, UNLIMITED)
    assert (found.models["H100"].quota, found.models["H100"].limit) == (1000, 2000)
    assert (found.preempt_min_runtime_ms, found.reclaim_min_runtime_ms) == (300_000, 5_400_000)
    assert (found.starving_after_ms, found.pools, found.topology) == (600_000, ("reserved", "spot"), "racks")
    assert found.autoscaling_visible
    assert found.uid
    assert found.created_ms


def test_an_empty_queue_has_defaults_without_traps(kube: Kube) -> None:
    made = create(kube, queue("empty"))
    assert made["spec"] == {"priority": 100, "cordoned": False, "strictFifo": False, "autoscaling": "hidden"}
    found = read_queue(made)
    assert (found.gpu.quota, found.gpu.limit, found.gpu.weight_milli) == (0, UNLIMITED, 1000)
    assert found.access.open
    bare = queue("bare")
    del bare["spec"]
    assert read_queue(create(kube, bare)).gpu == found.gpu


UNLIMITED_HINT = "must be a Kubernetes quantity of 0 or more, or -1 for unlimited"
BELOW = "limit must not be below quota; write -1 for no limit"
REFUSED: list[tuple[Object, str]] = [
    ({"resources": {"gpu": {"quota": -2}}}, UNLIMITED_HINT),
    ({"resources": {"gpu": {"quota": "-2"}}}, UNLIMITED_HINT),
    ({"resources": {"gpu": {"quota": "-1000m"}}}, UNLIMITED_HINT),
    ({"resources": {"cpu": {"limit": "many"}}}, UNLIMITED_HINT),
    ({"resources": {"memory": {"limit": ""}}}, UNLIMITED_HINT),
    ({"resources": {"gpuModels": {"H100": {"limit": -5}}}}, UNLIMITED_HINT),
    ({"resources": {"gpu": {"quota": 4, "limit": 2}}}, BELOW),
    ({"resources": {"gpu": {"quota": 1, "limit": "500m"}}}, BELOW),
    ({"resources": {"memory": {"quota": "2Gi", "limit": "2G"}}}, BELOW),
    ({"resources": {"gpu": {"quota": -1, "limit": "2"}}}, BELOW),
    ({"resources": {"gpuModels": {"H100": {"quota": 4, "limit": "3500m"}}}}, BELOW),
    ({"resources": {"gpuModels": {"h100": {}, "H100-80GB": {}}}}, "two keys match one product"),
    ({"resources": {"gpuModels": {"H100 80GB": {}, "L4": {}, "nvidia_h100": {}}}}, "two keys match one product"),
    ({"resources": {"gpuModels": {"H100": {}, "NVIDIA-H100": {}}}}, "two keys match one product"),
    ({"resources": {"gpu": {"overQuotaWeight": -1}}}, "greater than or equal to 0"),
    ({"parent": "wrong"}, "a queue cannot be its own parent"),
    ({"parent": ""}, "at least 1 chars long"),
    ({"priority": 1.5}, "must be of type integer"),
    ({"preemptMinRuntime": "soon"}, "spec.preemptMinRuntime in body should match"),
    ({"reclaimMinRuntime": "5"}, "spec.reclaimMinRuntime in body should match"),
    ({"starvingAfter": 5}, "must be of type string"),
    ({"autoscaling": "maybe"}, 'supported values: "hidden", "visible"'),
    ({"cordoned": "yes"}, "must be of type boolean"),
    ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "supported values"),
    ({"resources": {"gpu": {"qouta": 4}}}, 'unknown field "spec.resources.gpu.qouta"'),
    ({"resources": {"gpus": {}}}, 'unknown field "spec.resources.gpus"'),
    ({"reclaimable": True}, 'unknown field "spec.reclaimable"'),
]


@pytest.mark.parametrize(("spec", "words"), REFUSED)
def test_mistakes_are_refused_in_clear_words(kube: Kube, spec: Object, words: str) -> None:
    assert words in refusal(kube, queue("wrong", **spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"resources": {"gpu": {"quota": 0, "limit": 0}}},
        {"resources": {"gpu": {"quota": "-1", "limit": -1}}},
        {"resources": {"gpu": {"quota": "0.5", "limit": "1"}}},
        {"resources": {"memory": {"quota": "2G", "limit": "2Gi"}}},
        {"resources": {"gpu": {"quota": 2}, "cpu": {"limit": 2}}},
        {"resources": {"gpuModels": {"H100": {}, "H1000": {}, "A100": {"quota": 1}}}},
        {"preemptMinRuntime": "1.5h", "reclaimMinRuntime": "0s", "starvingAfter": "2d"},
    ],
)
def test_what_the_api_server_takes_is_read(kube: Kube, spec: Object) -> None:
    assert read_queue(create(kube, queue("right", **spec)))


def test_a_name_must_fit_into_a_label(kube: Kube) -> None:
    create(kube, queue("q" * 63))
    assert "the name must have at most 63 characters" in refusal(kube, queue("q" * 64))


def test_a_parent_cannot_become_the_queue_itself_later(kube: Kube) -> None:
    create(kube, queue("a"))
    with pytest.raises(ApiError, match="a queue cannot be its own parent"):
        kube.patch(QUEUES, "a", {"spec": {"parent": "a"}})


def test_kubectl_shows_useful_columns(kube: Kube, control_plane: ControlPlane, binaries: Binaries) -> None:
    create(kube, queue("all"))
    create(kube, queue("team-a", parent="all", resources={"gpu": {"quota": 4, "limit": "8"}}))
    used = {"allocated": status.amounts(Amounts(500, 1 << 30, 2500)), "waiting": 7}
    kube.patch(QUEUES, "team-a", {"status": used}, subresource="status")

    def kubectl(*arguments: str) -> list[list[str]]:
        kubeconfig = f"--kubeconfig={control_plane.admin_kubeconfig}"
        command: list[str | Path] = [binaries.path("kubectl"), kubeconfig, "get", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [line.split() for line in done.stdout.splitlines()]

    head, everything, team = kubectl("queues")
    assert " ".join(head) == "NAME PARENT PRIORITY GPU QUOTA GPU LIMIT GPU USED WAITING AGE"
    assert everything[:2] == ["all", "100"]
    assert team[:-1] == ["team-a", "all", "100", "4", "8", "2500m", "7"]
    assert kubectl("tq", "team-a", "--no-headers")[0][0] == "team-a"


def test_a_status_is_written_beside_the_spec(kube: Kube) -> None:
    made = create(kube, queue("team-a"))
    amounts = status.amounts(Amounts(500, 1 << 30, 2500), {"H100": 1000})
    condition = {
        **status.condition("Ready", True, "InTree"),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    wanted = {
        "observedGeneration": 1,
        **{name: amounts for name in ("allocated", "allocatedNonPreemptible", "requested", "fairShare")},
        "waiting": 1,
        "children": ["b", "c"],
        "conditions": [condition],
    }
    patch = {"status": wanted, "spec": {"priority": 1}}
    kube.patch(QUEUES, "team-a", patch, subresource="status")
    now = kube.get(QUEUES, "team-a")
    assert now["status"] == wanted, "nothing is dropped"
    assert now["spec"] == made["spec"], "who may write statuses writes nothing else"
    assert status.QueueStatus.model_validate(now["status"])

    kube.patch(QUEUES, "team-a", {"spec": {"priority": 7}, "status": {"waiting": 99}})
    now = kube.get(QUEUES, "team-a")
    assert (now["spec"]["priority"], now["status"]["waiting"]) == (7, 1)
    assert now["metadata"]["generation"] == 2
