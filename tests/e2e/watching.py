"""What became of pods, as the API server shows it."""

from __future__ import annotations

from collections.abc import Collection

from tests.controlplane.kube import Kube
from tests.controlplane.resources import EVENTS, PODS, Object, Objects
from tests.controlplane.waiting import eventually


def phases(kube: Kube, namespace: str) -> dict[str, str]:
    """Phase by name of all pods of the namespace."""
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in kube.list(PODS, namespace)}


def in_phase(kube: Kube, namespace: str, phase: str) -> set[str]:
    return {name for name, found in phases(kube, namespace).items() if found == phase}


def running(kube: Kube, namespace: str, *names: str, timeout_s: float = 60.0) -> Objects:
    """The named pods once all of them run."""
    missing: Collection[str] = names

    def run() -> bool:
        nonlocal missing
        missing = set(names) - in_phase(kube, namespace, "Running")
        return not missing

    try:
        eventually(run, f"{len(names)} pods run", timeout_s)
    except AssertionError as err:
        raise AssertionError(f"{err}; not running: {_explained(kube, namespace, missing)}") from None
    found = {pod["metadata"]["name"]: pod for pod in kube.list(PODS, namespace)}
    return [found[name] for name in names]


def message(pod: Object) -> str:
    """The message of the condition PodScheduled; empty where there is none."""
    return str(_scheduled(pod).get("message", ""))


def told(kube: Kube, namespace: str, name: str, words: str, timeout_s: float = 60.0) -> Object:
    """The pod once the message of its condition PodScheduled has these words; it waits and is still gated."""
    pod = kube.wait_for(PODS, name, namespace, lambda pod: words in message(pod), f"{name} says {words!r}", timeout_s)
    assert _scheduled(pod)["reason"] == "SchedulingGated"
    assert pod["status"]["phase"] == "Pending"
    return pod


def events(kube: Kube, namespace: str, name: str) -> Objects:
    """Tangram's events about the pod, oldest first."""
    found = [
        event
        for event in kube.list(EVENTS, namespace, field_selector=f"involvedObject.name={name}")
        if event["reportingComponent"] == "tangram.scheduler"
    ]
    return sorted(found, key=lambda event: str(event["eventTime"]))


def gates(pod: Object) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


def _scheduled(pod: Object) -> Object:
    conditions: Objects = pod["status"].get("conditions", [])
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def _explained(kube: Kube, namespace: str, names: Collection[str]) -> str:
    """The state of some pods, for people who read the failure of a test."""
    shown = [pod for pod in kube.list(PODS, namespace) if pod["metadata"]["name"] in names][:5]
    lines = [
        f"{pod['metadata']['name']} {pod['status']['phase']} gates={gates(pod)} "
        f"node={pod['spec'].get('nodeName')} {message(pod)!r}"
        for pod in shown
    ]
    return "\n".join([f"{len(names)} pods", *lines])
