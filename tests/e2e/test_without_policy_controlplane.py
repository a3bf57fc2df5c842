"""Without the admission policies: pods are never gated, kube-scheduler asks about each of them at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests.conftest import NewControlPlane, NewFakeNodes, NewKubeScheduler, NewTangram
from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, gpu_node
from tests.controlplane.resources import PODS, PRIORITY_CLASSES, Object
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.conftest import Measured
from tests.e2e.installing import without_policies
from tests.e2e.ops import Ops
from tests.e2e.pods import fraction, whole, within
from tests.e2e.watching import events, in_phase, message, running

pytestmark = pytest.mark.controlplane

NAMESPACE: Final = "default"


class Plain(NamedTuple):
    """A control plane with all that is shipped but the policies, Tangram on it, and no nodes yet."""

    kube: Kube
    nodes: FakeNodes
    ops: Ops
    schedule: Callable[[dict[str, Any]], object]
    """Starts kube-scheduler with a configuration."""


@pytest.fixture
def plain(
    binaries: Binaries,
    new_control_plane: NewControlPlane,
    new_fake_nodes: NewFakeNodes,
    new_tangram: NewTangram,
    new_kube_scheduler: NewKubeScheduler,
) -> Plain:
    plane = new_control_plane()
    kubeconfig = without_policies(plane, binaries)
    nodes = new_fake_nodes(plane)
    tangram = new_tangram(kubeconfig)

    def schedule(configuration: dict[str, Any]) -> object:
        return new_kube_scheduler(kubeconfig, configuration, extender_address=tangram.extender_address)

    return Plain(plane.kube, nodes, Ops(tangram), schedule)


def shipped() -> dict[str, Any]:
    configuration = yaml.safe_load(installation.SCHEDULER_CONFIGURATION.read_text())
    assert isinstance(configuration, dict)
    return configuration


def with_preemption() -> dict[str, Any]:
    """The shipped configuration with kube-scheduler's own preemption turned on again."""
    configuration = shipped()
    del configuration["profiles"][0]["plugins"]["postFilter"]
    configuration["extenders"][0]["preemptVerb"] = "preempt"
    return configuration


def make_urgent(kube: Kube) -> str:
    """A priority class above the default."""
    document = {"apiVersion": PRIORITY_CLASSES.group_version, "kind": "PriorityClass", "value": 1000}
    kube.apply({**document, "metadata": {"name": "urgent"}})
    return "urgent"


def with_variable(pod: Object) -> Object:
    """What the policy would have done for the share."""
    path = "metadata.annotations['tangram.scheduler/gpu-uuids']"
    entry: dict[str, Any] = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    pod["spec"]["containers"][0]["env"] = [entry]
    return pod


def test_ungated_pods_run_wait_and_go_on(plain: Plain, measured: Measured) -> None:
    kube, nodes, ops, schedule = plain
    schedule(shipped())
    nodes.create(gpu_node("n1", A100, devices=4), gpu_node("n2", A100, devices=2))
    kube.create_all(within(NAMESPACE, *(whole(f"whole-{number}") for number in range(2))))
    running(kube, NAMESPACE, "whole-0", "whole-1")
    names = {f"share-{number:02}" for number in range(20)}

    kube.create_all(within(NAMESPACE, *(with_variable(fraction(name, "0.3")) for name in sorted(names))))

    eventually(lambda: len(in_phase(kube, NAMESPACE, "Running")) == 14, "twelve shares run beside the two")
    first = names & in_phase(kube, NAMESPACE, "Running")
    for name in names - first:
        kube.wait_for(
            PODS, name, NAMESPACE, lambda pod: "too little left on any one GPU" in message(pod), f"{name} is told why"
        )
        eventually(lambda name=name: events(kube, NAMESPACE, name), f"an event about {name}")  # type: ignore[misc]
        assert [event["reason"] for event in events(kube, NAMESPACE, name)] == ["InsufficientGpuShare"]
    books.agree(kube, ops)

    for gone in sorted(first)[:3]:
        before = in_phase(kube, NAMESPACE, "Running")
        started = time.monotonic()
        kube.delete(PODS, gone, NAMESPACE)
        while not in_phase(kube, NAMESPACE, "Running") - before:
            assert time.monotonic() - started < 60, "one more runs"
            time.sleep(0.01)
        measured(f"{1000 * (time.monotonic() - started):.0f} ms from a deletion until the next ungated pod runs")
    books.agree(kube, ops)


def test_nobody_is_evicted_by_kube_scheduler(plain: Plain) -> None:
    """An ungated pod of higher priority reaches kube-scheduler itself, whose own preemption is off."""
    kube, nodes, ops, schedule = plain
    schedule(shipped())
    nodes.create(gpu_node("n1", A100, devices=2))
    kube.create_all(within(NAMESPACE, whole("a"), whole("b")))
    running(kube, NAMESPACE, "a", "b")

    kube.create(whole("hurried", priorityClassName=make_urgent(kube)), NAMESPACE)

    kube.wait_for(PODS, "hurried", NAMESPACE, lambda pod: "nodes are available" in message(pod), "it is told to wait")
    for pod in ("a", "b"):
        assert "deletionTimestamp" not in kube.get(PODS, pod, NAMESPACE)["metadata"]
    kube.delete(PODS, "a", NAMESPACE)
    running(kube, NAMESPACE, "b", "hurried")
    books.agree(kube, ops)


def test_preemption_takes_only_what_would_help(plain: Plain) -> None:
    """kube-scheduler counts devices and would evict `alone` from n2, where the share would still be in the way."""
    kube, nodes, ops, schedule = plain
    nodes.create(gpu_node("n1", A100, devices=2), gpu_node("n2", A100, devices=2))
    schedule(with_preemption())
    on = {name: {"kubernetes.io/hostname": name} for name in ("n1", "n2")}
    kube.create_all(
        within(
            NAMESPACE,
            with_variable(fraction("share", "0.5", nodeSelector=on["n2"])),
            whole("alone", nodeSelector=on["n2"]),
            whole("one", nodeSelector=on["n1"]),
            whole("two", nodeSelector=on["n1"]),
        )
    )
    running(kube, NAMESPACE, "share", "alone", "one", "two")

    kube.create(whole("hurried", 2, priorityClassName=make_urgent(kube)), NAMESPACE)

    (hurried,) = running(kube, NAMESPACE, "hurried")
    assert hurried["spec"]["nodeName"] == "n1"
    assert in_phase(kube, NAMESPACE, "Running") == {"share", "alone", "hurried"}
    books.agree(kube, ops)


def test_a_share_that_its_container_would_not_learn_of_says_so(plain: Plain) -> None:
    kube, nodes, ops, schedule = plain
    schedule(shipped())
    nodes.create(gpu_node("n1", A100, devices=1))

    kube.create(fraction("unaware", "0.5"), NAMESPACE)

    eventually(lambda: events(kube, NAMESPACE, "unaware"), "an event about it")
    (event,) = events(kube, NAMESPACE, "unaware")
    assert event["reason"] == "InvalidRequest"
    assert "tangram-devices" in event["message"]
    assert ops.workload(NAMESPACE, "unaware")["reason"]["details"]["problem"] == "NO_DEVICE_VARIABLE"
    kube.wait_for(
        PODS, "unaware", NAMESPACE, lambda pod: "contradicts itself" in message(pod), "kube-scheduler says no"
    )
