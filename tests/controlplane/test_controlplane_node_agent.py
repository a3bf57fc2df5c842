"""The arithmetic by which fake nodes find over-booking, on cases computed by hand."""

from __future__ import annotations

import json

import pytest

from tests.controlplane.node_agent import ALLOCATION, GPU_UUIDS, NodeAgent, Refused
from tests.controlplane.node_models import A100, GPU, T4, gpu_node, liqo_node
from tests.controlplane.pod_resources import amount, requests_of
from tests.controlplane.resources import Object


def pod(
    name: str,
    requests: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    scheduler: str = "tangram",
) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations or {}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
        },
    }


def allocation(
    *shares: tuple[int, int, int], visible: str | None = None, node: str = "n1", **asked: str
) -> dict[str, str]:
    """Annotations of a bound share; each of `shares` is (device index, milli, MiB)."""
    devices = [{"index": index, "milli": milli, "memoryMiB": mib} for index, milli, mib in shares]
    return {
        ALLOCATION: json.dumps({"v": 1, "node": node, "backend": "annotation", "devices": devices}),
        GPU_UUIDS: ",".join(str(share[0]) for share in shares) if visible is None else visible,
        **{key.replace("_", "-"): value for key, value in asked.items()},
    }


def agent(devices: int = 2, unhealthy: int = 0, shares: bool = True) -> NodeAgent:
    return gpu_node("n1", T4, devices=devices, unhealthy=unhealthy, shares=shares).agent()


@pytest.mark.parametrize(
    ("resource", "quantity", "expected"),
    [
        ("cpu", "100m", 100),
        ("cpu", "0.5", 500),
        ("cpu", "1n", 1),
        ("memory", "1Gi", 1 << 30),
        ("memory", "1.5G", 1_500_000_000),
        ("memory", "2e3", 2000),
        ("memory", "1500m", 2),
        (GPU, 3, 3),
    ],
)
def test_quantities_are_whole_units_rounded_up(resource: str, quantity: str | int, expected: int) -> None:
    assert amount(resource, quantity) == expected


def test_requests_follow_the_arithmetic_of_init_containers_sidecars_and_overhead() -> None:
    def container(cpu: str, **more: str) -> Object:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    document = {
        "spec": {
            "containers": [container("1"), container("1")],
            "initContainers": [
                container("1", restartPolicy="Always"),
                container("4"),
                container("500m", restartPolicy="Always"),
            ],
            "overhead": {"cpu": "100m"},
        }
    }
    # starting: sidecar 1 + init 4 = 5; running: 2 + 1 + 0.5 = 3.5
    assert requests_of(document) == {"cpu": 5100, "pods": 1}

    document["spec"]["resources"] = {"requests": {"cpu": "6"}}
    assert requests_of(document) == {"cpu": 6100, "pods": 1}


def test_shares_fill_a_device_exactly_and_not_beyond() -> None:
    node = agent()
    node.admit(pod("a", annotations=allocation((0, 500, 7680))))
    node.admit(pod("b", annotations=allocation((0, 500, 7680))))

    with pytest.raises(Refused, match="1001 milli"):
        node.admit(pod("c", annotations=allocation((0, 1, 0))))
    with pytest.raises(Refused, match="15361 of 15360 MiB"):
        node.admit(pod("d", annotations=allocation((0, 0, 1))))

    node.admit(pod("e", annotations=allocation((1, 999, 15360))))
    node.release("a")
    node.admit(pod("f", annotations=allocation((0, 500, 7680))))


def test_whole_devices_are_those_that_no_share_holds() -> None:
    node = agent(devices=2)
    node.admit(pod("share", annotations=allocation((0, 100, 100))))

    with pytest.raises(Refused, match=r"Requested: 2, Available: 1"):
        node.admit(pod("two", {GPU: "2"}, scheduler="other"))
    node.admit(pod("one", {GPU: "1"}, scheduler="other"))
    with pytest.raises(Refused, match="Available: 0"):
        node.admit(pod("late", annotations=allocation((1, 100, 100))))


def test_an_unhealthy_device_takes_nothing() -> None:
    node = agent(devices=2, unhealthy=1)

    with pytest.raises(Refused, match="unhealthy"):
        node.admit(pod("share", annotations=allocation((1, 100, 100))))
    with pytest.raises(Refused, match="Available: 1"):
        node.admit(pod("two", {GPU: "2"}))


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({"gpu-fraction": "0.5"}, "was given none"),
        (allocation((0, 500, 100), visible="1"), "names"),
        (allocation((0, 500, 100), visible=""), "names"),
        (allocation((0, 500, 100), visible="GPU-unknown"), "no device"),
        (allocation((0, 500, 100), node="n2"), "for node n2"),
        (allocation((0, 499, 100), gpu_fraction="0.5"), "asked for 1 devices with 500 milli"),
        (allocation((0, 0, 1999), gpu_memory="2000"), "2000 MiB"),
        (allocation((0, 500, 100), gpu_fraction="0.5", gpu_fraction_num_devices="2"), "asked for 2 devices"),
    ],
)
def test_a_broken_promise_is_refused(annotations: dict[str, str], problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        agent().admit(pod("a", annotations=annotations))


def test_a_device_may_be_named_by_uuid() -> None:
    node = gpu_node("n1", A100, devices=2, uuids=True)
    second = node.devices[1].uuid

    node.agent().admit(pod("a", annotations=allocation((1, 500, 100), visible=second)))

    with pytest.raises(Refused, match="names"):
        node.agent().admit(pod("b", annotations=allocation((0, 500, 100), visible=second)))


def test_a_share_annotation_of_a_foreign_pod_means_nothing() -> None:
    agent().admit(pod("foreign", annotations={"gpu-fraction": "0.5"}, scheduler="default-scheduler"))


def test_a_node_without_an_agent_takes_no_share() -> None:
    with pytest.raises(Refused, match="nothing on this node"):
        agent(shares=False).admit(pod("a", annotations=allocation((0, 500, 100))))


def test_an_allocation_of_whole_devices_names_as_many_as_the_pod_has() -> None:
    annotations = allocation((0, 1000, 15360), (1, 1000, 15360))
    agent().admit(pod("two", {GPU: "2"}, annotations))
    with pytest.raises(Refused, match="1 whole devices, but 2"):
        agent().admit(pod("one", {GPU: "1"}, annotations))


def test_a_virtual_node_counts_and_lets_nothing_of_ours_pass() -> None:
    node = liqo_node("virtual", gpus=2).agent()
    node.admit(pod("one", {GPU: "1"}))

    with pytest.raises(Refused, match="Available: 1"):
        node.admit(pod("two", {GPU: "2"}))
    with pytest.raises(Refused, match="border"):
        node.admit(pod("marked", {GPU: "1"}, allocation((0, 1000, 0), node="virtual")))


def test_node_resources_are_refused_by_kubelets_names() -> None:
    node = agent()
    for name, requests in (("OutOfcpu", {"cpu": "33"}), ("OutOfmemory", {"memory": "1Ti"})):
        with pytest.raises(Refused) as refused:
            node.admit(pod("big", requests))
        assert refused.value.reason == name
    for number in range(110):
        node.admit(pod(f"p{number}"))
    with pytest.raises(Refused, match="OutOfpods"):
        node.admit(pod("one too many"))
