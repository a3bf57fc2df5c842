"""Gate and devices policy on a real API server: the gate once, the variable in one place, and nobody else's pods."""

from __future__ import annotations

import pytest

from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube import Kube
from tests.controlplane.resources import Object
from tests.controlplane.waiting import eventually
from tests.manifests.pods import ALL, FROM_ANNOTATION, NAMESPACE, VISIBLE, container, create, env, gates
from topology import vocabulary

pytestmark = pytest.mark.controlplane


def test_a_pod_of_ours_gets_the_gate_once(kube: Kube) -> None:
    assert gates(create(kube, "plain")) == [vocabulary.GATE]
    assert gates(create(kube, "gated", schedulingGates=[{"name": vocabulary.GATE}])) == [vocabulary.GATE]
    other = create(kube, "other", schedulingGates=[{"name": "example.com/hold"}])
    assert gates(other) == ["example.com/hold", vocabulary.GATE]


def test_pods_of_others_stay_as_they_are(kube: Kube) -> None:
    share = {"gpu-fraction": "0.5"}
    for name in ("default-scheduler", "tangram-advise"):
        pod = create(kube, name, share, schedulerName=name, containers=[container("main", ALL)])
        assert gates(pod) == []
        assert env(pod) == [ALL]


def test_a_pod_that_has_a_node_is_not_gated(kube: Kube) -> None:
    pod = create(kube, "static", {"gpu-fraction": "0.5"}, nodeName="n1", containers=[container("main", ALL)])
    assert gates(pod) == []
    assert env(pod) == [FROM_ANNOTATION], "it sees no device that nobody assigned"


def test_a_pod_without_a_share_keeps_its_environment(kube: Kube) -> None:
    words = {"gpu-fraction-num-devices": "2", "tangram.scheduler/queue": "a"}
    assert env(create(kube, "whole", words, containers=[container("main", ALL)])) == [ALL]


@pytest.mark.parametrize("word", [*vocabulary.GPU_FRACTION.spellings, *vocabulary.GPU_MEMORY.spellings])
def test_every_word_for_a_share_brings_the_variable(kube: Kube, word: str) -> None:
    assert env(create(kube, "share", {word: "0.5"})) == [FROM_ANNOTATION]


A, B = {"name": "A", "value": "1"}, {"name": "B", "value": f"$({VISIBLE})"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], [FROM_ANNOTATION]),
        ([A], [A, FROM_ANNOTATION]),
        ([ALL], [FROM_ANNOTATION]),
        ([A, ALL, B], [A, FROM_ANNOTATION, B]),
        ([ALL, A, ALL, B, ALL], [FROM_ANNOTATION, A, B]),
        ([A, FROM_ANNOTATION], [A, FROM_ANNOTATION]),
    ],
)
def test_an_entry_is_replaced_where_it_stands(kube: Kube, given: list[Object], wanted: list[Object]) -> None:
    assert env(create(kube, "share", {"gpu-fraction": "0.5"}, containers=[container("main", *given)])) == wanted


def test_only_the_container_that_gets_the_devices_is_changed(kube: Kube) -> None:
    containers = [container("a", ALL), container("b", A, ALL)]
    spec: Object = {"containers": containers, "initContainers": [container("i", ALL), container("j")]}

    def share(name: str, named: str | None) -> dict[str, list[Object]]:
        words = {"gpu-memory": "2000"} | ({"gpu-fraction-container-name": named} if named is not None else {})
        pod = create(kube, name, words, **spec)
        return {entry: env(pod, entry) for entry in "abij"}

    before = {"a": [ALL], "b": [A, ALL], "i": [ALL], "j": []}
    assert share("first", None) == {**before, "a": [FROM_ANNOTATION]}
    assert share("second", "b") == {**before, "b": [A, FROM_ANNOTATION]}
    assert share("init", "i") == {**before, "i": [FROM_ANNOTATION]}
    assert share("bare-init", "j") == {**before, "j": [FROM_ANNOTATION]}
    assert share("unknown", "c") == before
    assert share("empty", "") == before


@pytest.mark.parametrize(("name", "fraction"), [("gpu-demo-1", "0.1"), ("gpu-demo-2", "0.2")])
def test_the_demo_pods_of_the_talk(kube: Kube, name: str, fraction: str) -> None:
    pod = create(
        kube,
        name,
        {"kai.scheduler/gpu-fraction": fraction},
        {"kai.scheduler/queue": "test"},
        runtimeClassName="nvidia",
        nodeSelector={"nvidia.com/gpu.present": "true"},
        containers=[{**container("cuda", ALL), "command": ["sleep", "3600"]}],
    )
    assert env(pod, "cuda") == [FROM_ANNOTATION]
    assert gates(pod) == [vocabulary.GATE]
    assert pod["metadata"]["labels"] == {"kai.scheduler/queue": "test"}


def test_the_provider_overlay_takes_offloaded_pods_in(kube: Kube, binaries: Binaries, plane: ControlPlane) -> None:
    offloaded = {"offloading.liqo.io/origin": "consumer"}
    before = create(kube, "before", {"gpu-fraction": "0.5"}, offloaded, schedulerName="default-scheduler")
    assert before["spec"]["schedulerName"] == "default-scheduler"
    overlay = installation.rendered(binaries, installation.MANIFESTS / "overlays" / "provider")
    policy = [document for document in overlay if document["kind"] == "MutatingAdmissionPolicy"]
    try:
        kube.apply(*policy)
        pod = eventually(lambda: taken_in(kube, offloaded), "offloaded pods are taken in")
        assert pod is not None
        assert gates(pod) == [vocabulary.GATE]
        whole = create(kube, "whole", None, offloaded, schedulerName="", containers=[container("main", ALL)])
        assert (whole["spec"]["schedulerName"], gates(whole), env(whole)) == ("tangram", [vocabulary.GATE], [ALL])
        own = create(kube, "own", {"gpu-fraction": "0.5"})
        assert (gates(own), env(own)) == ([vocabulary.GATE], [FROM_ANNOTATION])
        foreign = create(kube, "foreign", schedulerName="default-scheduler")
        assert (foreign["spec"]["schedulerName"], gates(foreign)) == ("default-scheduler", [])
    finally:
        installation.install(plane, installation.rendered(binaries))
        eventually(lambda: left_alone(kube, offloaded), "the base's own policies are back")


def left_alone(kube: Kube, labels: Object) -> bool:
    """Whether an offloaded pod would keep its scheduler and its environment."""
    created = offload(kube, labels)
    return created["spec"]["schedulerName"] == "default-scheduler" and env(created) == []


def taken_in(kube: Kube, labels: Object) -> Object | None:
    """An offloaded pod as it would be created now, or None where it would keep its scheduler or its environment."""
    created = offload(kube, labels)
    changed = created["spec"]["schedulerName"] == "tangram", env(created) == [FROM_ANNOTATION]
    return created if all(changed) else None


def offload(kube: Kube, labels: Object) -> Object:
    """What would become now of an offloaded pod that asks for a share."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": labels, "annotations": {"gpu-fraction": "0.5"}},
        "spec": {"containers": [container()]},
    }
    created: Object = kube.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod, {"dryRun": "All"})
    return created
