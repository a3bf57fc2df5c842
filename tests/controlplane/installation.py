"""Tangram as manifests/ ships it, applied to a control plane of the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.async_kube import ApiError
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.resources import Object, Objects
from tests.controlplane.waiting import eventually

MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"
BASE: Final = MANIFESTS / "base"
SCHEDULER_CONFIGURATION: Final = BASE / "config" / "scheduler.yaml"
NAMESPACE: Final = "tangram-system"
SERVICE_ACCOUNT: Final = "tangram"
_ANNOTATION: Final = "tangram.scheduler/allocation"
_SHARE: Final = "gpu-fraction"


def rendered(binaries: Binaries, folder: Path = BASE) -> Objects:
    """The objects of a kustomization, in the order in which kubectl would apply them."""
    done = subprocess.run([binaries.path("kubectl"), "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"kubectl kustomize {folder}:\n{done.stderr}")
    return list(yaml.safe_load_all(done.stdout))


def install(control_plane: ControlPlane, documents: Objects) -> Path:
    """Applies what is shipped and waits until its policies act; a kubeconfig with exactly the shipped rights."""
    control_plane.kube.apply(*documents)
    eventually(lambda: _gates(control_plane), "the gate policy acts")
    eventually(lambda: _gives_devices(control_plane), "the devices policy acts")
    eventually(lambda: _protects(control_plane), "the protection policy acts")
    return control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)


def _gates(control_plane: ControlPlane) -> bool:
    created = _try_to_create(control_plane, {"name": "probe"})
    return bool(created["spec"].get("schedulingGates"))


def _gives_devices(control_plane: ControlPlane) -> bool:
    created = _try_to_create(control_plane, {"name": "probe", "annotations": {_SHARE: "0.5"}})
    return bool(created["spec"]["containers"][0].get("env"))


def _protects(control_plane: ControlPlane) -> bool:
    try:
        _try_to_create(control_plane, {"name": "probe", "annotations": {_ANNOTATION: "{}"}})
    except ApiError as err:
        return err.reason in ("Forbidden", "Invalid")
    return False


def _try_to_create(control_plane: ControlPlane, metadata: Object) -> Object:
    """What would become of a pod; nothing is kept of it."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "tangram", "containers": [{"name": "main", "image": "none"}]},
    }
    path = "/api/v1/namespaces/default/pods"
    answer = control_plane.kube.request("POST", path, pod, {"dryRun": "All"})
    assert isinstance(answer, dict)
    return answer
