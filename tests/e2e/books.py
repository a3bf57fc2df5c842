"""Tangram's ledger beside what the pods in the API say, recomputed here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from tests.controlplane.kube import Kube
from tests.controlplane.node_agent import ALLOCATION, FULL_MILLI
from tests.controlplane.node_models import GPU
from tests.controlplane.pod_resources import requests_of
from tests.controlplane.resources import PODS, Object, Objects
from tests.controlplane.waiting import eventually
from tests.e2e.ops import Ops

_FINISHED: Final = ("Succeeded", "Failed")


class Holding(NamedTuple):
    """A part of one device in the hands of one pod."""

    node: str
    device: int
    pod: str
    milli: int
    memory_mib: int


def holdings(pods: Iterable[Object]) -> Counter[Holding]:
    """What the allocation annotations of bound pods say."""
    found: Counter[Holding] = Counter()
    for pod in pods:
        text = pod["metadata"].get("annotations", {}).get(ALLOCATION)
        if text is not None:
            document = json.loads(text)
            found.update(
                Holding(document["node"], device["index"], _key(pod), device["milli"], device["memoryMiB"])
                for device in document["devices"]
            )
    return found


def bound_pods(kube: Kube) -> Objects:
    """The pods that hold something of a node."""
    return [pod for pod in kube.list(PODS, field_selector="spec.nodeName!=") if pod["status"]["phase"] not in _FINISHED]


def agree(kube: Kube, ops: Ops, timeout_s: float = 30.0) -> None:
    """Waits until ledger and pods are the same. AssertionError with the first differences when time is over."""
    last: list[str] = []

    def same() -> bool:
        nonlocal last
        last = differences(kube, ops)
        return not last

    try:
        eventually(same, "the ledger equals the pods", timeout_s, every_s=0.5)
    except AssertionError as err:
        raise AssertionError("\n".join([str(err), *last[:10]])) from None


def differences(kube: Kube, ops: Ops) -> list[str]:
    """In what the ledger differs from the pods, and which device is over-used. Shares of foreign pods do not exist."""
    pods, nodes, status = bound_pods(kube), ops.nodes(), ops.status()
    written, booked = holdings(pods), _ledger(nodes)
    keyed = {holding.pod for holding in written}
    # whole devices of pods without annotation are counted, which ones they hold is a guess
    named = Counter({holding: count for holding, count in booked.items() if holding.pod in keyed})
    problems = [f"only on the pod: {holding}" for holding in written - named]
    problems += [f"only in the ledger: {holding}" for holding in named - written]
    if status["entries"] != len(pods) or status["inFlight"]:
        problems.append(f"{status['entries']} entries, {status['inFlight']} in flight, but {len(pods)} bound pods")
    problems += [f"difference reported: {item}" for item in status["differences"].items()]
    for node in nodes:
        problems += _node_problems(node, [pod for pod in pods if pod["spec"]["nodeName"] == node["name"]])
    return problems


def _node_problems(node: Object, pods: Objects) -> list[str]:
    problems = []
    used = sum(requests_of(pod)[GPU] for pod in pods)
    counted = node["counted"].get(GPU, {"allocatable": 0, "free": 0})
    if counted["free"] != counted["allocatable"] - used or counted["free"] < 0:
        problems.append(f"{node['name']}: {counted}, but its pods use {used}")
    if node["pods"] != len(pods):
        problems.append(f"{node['name']}: {node['pods']} pods, but the API has {len(pods)}")
    for device in node["devices"]:
        milli = sum(holder["milli"] for holder in device["holders"])
        memory_mib = sum(_held_mib(holder, device) for holder in device["holders"])
        left = (device["freeMilli"], device["freeMemoryMiB"])
        if left != (FULL_MILLI - milli, device["memoryMiB"] - memory_mib) or min(left) < 0:
            problems.append(f"{node['name']}: {device}")
    return problems


def _held_mib(holder: Object, device: Object) -> int:
    """A whole device is held with all of its memory, whatever is written."""
    return int(device["memoryMiB"] if holder["milli"] >= FULL_MILLI else holder["memoryMiB"])


def _ledger(nodes: Objects) -> Counter[Holding]:
    return Counter(
        Holding(node["name"], device["index"], holder["pod"], holder["milli"], holder["memoryMiB"])
        for node in nodes
        for device in node["devices"]
        for holder in device["holders"]
    )


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
