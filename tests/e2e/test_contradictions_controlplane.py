"""Pods that contradict themselves: each is told once what to change, and nobody else notices."""

from __future__ import annotations

from typing import Any, Final

import pytest

from scheduler.problem import Problem
from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.node_models import A100, GPU, gpu_node
from tests.controlplane.resources import PODS, Object
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, pod, whole, within
from tests.e2e.watching import events, gates, message, running, told

pytestmark = pytest.mark.controlplane

MIG: Final = "nvidia.com/mig-1g.10gb"
CONTRADICTIONS: Final[dict[Problem, tuple[dict[str, str], dict[str, Any], str]]] = {
    Problem.EMPTY_VALUE: ({"gpu-fraction": " "}, {}, "gpu-fraction is empty"),
    Problem.SPELLINGS_DIFFER: (
        {"gpu-fraction": "0.5", "kai.scheduler/gpu-fraction": "0.4"},
        {},
        "keep only gpu-fraction",
    ),
    Problem.BAD_FRACTION: ({"gpu-fraction": "half"}, {}, '"half" is not a number'),
    Problem.FRACTION_NOT_POSITIVE: ({"gpu-fraction": "0"}, {}, "asks for nothing"),
    Problem.FRACTION_NOT_BELOW_ONE: ({"gpu-fraction": "2"}, {}, "ask for nvidia.com/gpu: 2 under resources.limits"),
    Problem.FRACTION_TOO_FINE: ({"gpu-fraction": "0.3333"}, {}, "finer than thousandths"),
    Problem.BAD_MEMORY: ({"gpu-memory": "20Gi"}, {}, 'such as "20480"'),
    Problem.MEMORY_NOT_POSITIVE: ({"gpu-memory": "-1"}, {}, "a positive number of MiB"),
    Problem.BAD_NUM_DEVICES: ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, {}, "no number of devices"),
    Problem.UNKNOWN_CONTAINER: (
        {"gpu-fraction": "0.5", "gpu-fraction-container-name": "nobody"},
        {},
        "write one of main",
    ),
    Problem.FRACTION_WITH_MEMORY: ({"gpu-fraction": "0.5", "gpu-memory": "100"}, {}, "keep one of the two"),
    Problem.FRACTION_WITH_WHOLE_DEVICES: (
        {"gpu-fraction": "0.5"},
        {"limits": {GPU: "1"}},
        "remove nvidia.com/gpu to get the share",
    ),
    Problem.MEMORY_WITH_WHOLE_DEVICES: (
        {"gpu-memory": "100"},
        {"limits": {GPU: "1"}},
        "remove nvidia.com/gpu to get the share",
    ),
    Problem.SHARE_WITH_MIG: ({"gpu-fraction": "0.5"}, {"limits": {MIG: "1"}}, f"remove {MIG} to get the share"),
    Problem.NUM_DEVICES_WITHOUT_SHARE: ({"gpu-fraction-num-devices": "2"}, {}, "stands without a share"),
    Problem.CONTAINER_WITHOUT_SHARE: ({"gpu-fraction-container-name": "main"}, {}, "stands without a share"),
    Problem.TWO_DEVICE_RESOURCES: ({}, {"limits": {GPU: "1", "amd.com/gpu": "1"}}, "keep one of them"),
    Problem.MIG_ANNOTATION: ({MIG: "1"}, {}, f"ask for it as {MIG} under resources.limits"),
    Problem.AMOUNT_TOO_LARGE: ({"gpu-memory": "8589934592000"}, {}, "the number is MiB, not bytes"),
}
"""What is wrong → annotations, resources, and words of the text that say what to change."""

REFUSED: Final[dict[Problem, dict[str, Any]]] = {
    Problem.NEGATIVE_AMOUNT: {"limits": {GPU: "-1"}},
    Problem.REQUEST_WITHOUT_LIMIT: {"requests": {GPU: "1"}},
    Problem.REQUEST_NOT_LIMIT: {"requests": {GPU: "1"}, "limits": {GPU: "2"}},
}
"""What the API server itself does not let through."""


def named(problem: Problem) -> str:
    return problem.value.lower().replace("_", "-")


def contradictory(problem: Problem) -> Object:
    annotations, resources, _ = CONTRADICTIONS[problem]
    return pod(named(problem), annotations=annotations, **resources)


def test_every_contradiction_is_here() -> None:
    assert {*CONTRADICTIONS, *REFUSED, Problem.NO_DEVICE_VARIABLE} == set(Problem)
    assert not CONTRADICTIONS.keys() & REFUSED.keys()


@pytest.mark.usefixtures("kube_scheduler")
def test_each_is_told_once_and_nobody_else_notices(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(gpu_node("n1", A100, devices=2))
    ops = Ops(tangram)
    sound = [whole("sound-whole"), fraction("sound-share", "0.5")]

    kube.create_all(within(namespace, *map(contradictory, CONTRADICTIONS), *sound))

    running(kube, namespace, "sound-whole", "sound-share")
    for problem, (_, _, words) in CONTRADICTIONS.items():
        name = named(problem)
        said = message(told(kube, namespace, name, words))
        eventually(lambda name=name: events(kube, namespace, name), f"an event about {name}")  # type: ignore[misc]
        (event,) = events(kube, namespace, name)
        assert (event["type"], event["reason"], event["message"]) == ("Warning", "InvalidRequest", said)
        workload = ops.workload(namespace, name)
        assert workload["stage"] == "refused"
        assert workload["reason"]["code"] == "INVALID_REQUEST"
        assert workload["reason"]["details"]["problem"] == problem
    books.agree(kube, ops)
    assert ops.status()["waiting"] == 0


@pytest.mark.parametrize("problem", REFUSED)
def test_some_are_refused_by_the_api_server(kube: Kube, namespace: str, problem: Problem) -> None:
    with pytest.raises(ApiError) as refused:
        kube.create(pod("never", **REFUSED[problem]), namespace)
    assert refused.value.reason == "Invalid"


@pytest.mark.usefixtures("kube_scheduler")
def test_an_author_who_mends_the_pod_gets_the_share(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(gpu_node("n1", A100, devices=1))
    kube.create(fraction("mended", "1.5"), namespace)
    told(kube, namespace, "mended", "gpu-fraction")

    kube.patch(PODS, "mended", {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}, namespace)

    (mended,) = running(kube, namespace, "mended")
    assert not gates(mended)
    books.agree(kube, Ops(tangram))


@pytest.mark.usefixtures("kube_scheduler")
def test_a_share_asked_for_after_creation_comes_too_late(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    """The environment of a container is fixed when the pod is created."""
    fake_nodes.create(gpu_node("n1", A100, devices=1))
    ops = Ops(tangram)
    kube.create(pod("late", schedulingGates=[{"name": "example.com/hold"}]), namespace)
    eventually(lambda: ops.knows(namespace, "late"), "Tangram has seen the pod")
    assert ops.workload(namespace, "late")["reason"]["code"] == "HELD_BY_OTHER_GATE"
    assert not events(kube, namespace, "late"), "whoever holds it back says why"

    kube.patch(PODS, "late", {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}, namespace)
    kube.patch(PODS, "late", [{"op": "remove", "path": "/spec/schedulingGates/0"}], namespace)

    told(kube, namespace, "late", "create the pod anew")
    eventually(lambda: events(kube, namespace, "late"), "an event about it")
    (event,) = events(kube, namespace, "late")
    assert event["reason"] == "InvalidRequest"
    assert ops.workload(namespace, "late")["reason"]["details"]["problem"] == Problem.NO_DEVICE_VARIABLE
