"""The shipped manifests on a real API server: they apply, and kube-scheduler starts from what they hold."""

from __future__ import annotations

import re
import shutil
import socket
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender_api.doctor import policies, shipped
from tests.conftest import NewKubeScheduler
from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube import ApiError
from tests.controlplane.resources import LEASES
from tests.manifests.conftest import Kubectl

pytestmark = pytest.mark.controlplane


def test_everything_applies_and_applies_again(kubectl: Kubectl) -> None:
    for folder in ("base", "advise"):
        kubectl("apply", "-k", installation.MANIFESTS / folder)
        kubectl("apply", "-k", installation.MANIFESTS / folder)
        assert kubectl("diff", "-k", installation.MANIFESTS / folder) == "", "what was applied is what is there"
    kubectl("apply", "--dry-run=server", "-k", installation.MANIFESTS / "overlays" / "provider")


def test_the_example_of_queues_applies(kubectl: Kubectl) -> None:
    path = installation.MANIFESTS / "examples" / "queues.yaml"
    kubectl("apply", "-f", path)
    try:
        listed = kubectl("get", "queues.tangram.scheduler", "-o", "name").split()
        assert len(listed) == 5
        assert "queue.tangram.scheduler/vision" in listed
    finally:
        kubectl("delete", "-f", path)


def test_the_doctor_recognises_the_policies_as_shipped(plane: ControlPlane) -> None:
    for kind, name in policies.names():
        found = plane.kube.request("GET", f"{shipped.COLLECTIONS[kind]}/{name}")
        forms = [*shipped.base()]
        (wanted,) = (form for form in forms if (form["kind"], form["metadata"]["name"]) == (kind, name))
        assert policies.differences(wanted["spec"], found["spec"]) == []


def test_policies_have_no_type_warnings(plane: ControlPlane) -> None:
    """The API server type-checks validating policies; it puts what it finds into their status."""
    path = f"{shipped.COLLECTIONS['ValidatingAdmissionPolicy']}/{shipped.PROTECTION}"
    assert not plane.kube.request("GET", path).get("status", {}).get("typeChecking", {}).get("expressionWarnings")


@pytest.mark.parametrize("mode", ["base", "advise"])
def test_replicas_satisfy_the_namespace_they_run_in(plane: ControlPlane, kubectl: Kubectl, mode: str) -> None:
    """The namespaces enforce the restricted Pod Security Standard."""
    kubectl("apply", "-k", installation.MANIFESTS / mode)
    (deployment,) = (document for document in installation_of(mode) if document["kind"] == "Deployment")
    namespace = deployment["metadata"]["namespace"]
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] = {**pod["metadata"], "name": "probe"}

    created = plane.kube.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod, {"dryRun": "All"})
    assert created["spec"]["serviceAccountName"] == "tangram"

    pod["spec"] = {**pod["spec"], "hostNetwork": True}
    with pytest.raises(ApiError, match="PodSecurity"):
        plane.kube.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod, {"dryRun": "All"})


def installation_of(mode: str) -> list[Any]:
    return [
        document
        for file in shipped.documents(mode, "kustomization.yaml")[0]["resources"]
        for document in shipped.documents(mode, file)
    ]


def test_the_overlay_of_the_instructions_works(binaries: Binaries, tmp_path: Path) -> None:
    """docs/install.md: images and settings of one's own, and an exempt account."""
    text = (installation.MANIFESTS.parent / "docs" / "install.md").read_text("utf-8")
    blocks = [textwrap.dedent(block) for block in re.findall(r"^ *```yaml\n(.*?)^ *```", text, re.M | re.S)]
    (overlay,) = (block for block in blocks if "kind: Kustomization" in block)
    (exemption,) = (block for block in blocks if block.startswith("patches:"))
    (generator,) = re.findall(r"`(configMapGenerator: \[.*?\])`", text)
    shutil.copytree(installation.MANIFESTS, tmp_path / "manifests")
    folder = tmp_path / "my-cluster"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(f"{overlay}\n{exemption}\n{generator}\n")
    (folder / "tangram.yaml").write_text("devices: {shares_by_default: true}\n")

    documents = {
        (document["kind"], document["metadata"]["name"].partition("-config-")[0]): document
        for document in installation.rendered(binaries, folder)
    }

    spec = documents["Deployment", "tangram"]["spec"]["template"]["spec"]
    assert {entry["image"] for entry in spec["containers"]} == {
        "REGISTRY/tangram:0.1.0",
        "registry.k8s.io/kube-scheduler:v1.37.2",
    }
    data = documents["ConfigMap", "tangram"]["data"]
    assert data["tangram.yaml"] == "devices: {shares_by_default: true}\n"
    assert "KubeSchedulerConfiguration" in data["scheduler.yaml"], "the other file stays"
    (mounted,) = (volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume)
    assert mounted == documents["ConfigMap", "tangram"]["metadata"]["name"]
    (condition,) = documents["ValidatingAdmissionPolicy", shipped.PROTECTION]["spec"]["matchConditions"]
    assert "vc-team-a" in condition["expression"]


def test_the_example_of_gangs_is_taken(kubectl: Kubectl) -> None:
    path = installation.MANIFESTS / "examples" / "gangs.yaml"
    made = kubectl("apply", "--dry-run=server", "-f", path).splitlines()
    assert [line.split()[0] for line in made] == [
        "topology.tangram.scheduler/datacenter",
        "podgroup.tangram.scheduler/train",
        "pod/train-leader",
        "job.batch/train-worker",
    ]


def test_the_installation_without_the_definition_of_queue_works(binaries: Binaries, tmp_path: Path) -> None:
    """docs/queues.md: the same documents in a file of the ConfigMap."""
    text = (installation.MANIFESTS.parent / "docs" / "queues.md").read_text("utf-8")
    (overlay,) = (block for block in re.findall(r"```yaml\n(.*?)```", text, re.S) if "kind: Kustomization" in block)
    shutil.copytree(installation.MANIFESTS, tmp_path / "manifests")
    folder = tmp_path / "my-cluster"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(overlay)
    shutil.copy(installation.MANIFESTS / "examples" / "queues.yaml", folder)
    (folder / "tangram.yaml").write_text("queues: {file: /etc/tangram/queues.yaml}\n")

    documents = installation.rendered(binaries, folder)

    assert "CustomResourceDefinition" not in {document["kind"] for document in documents}
    (config,) = (document for document in documents if document["kind"] == "ConfigMap")
    assert set(config["data"]) == {"queues.yaml", "tangram.yaml", "scheduler.yaml"}
    (deployment,) = (document for document in documents if document["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (volume,) = (volume for volume in spec["volumes"] if "configMap" in volume)
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    (tangram,) = (entry for entry in spec["containers"] if entry["name"] == "tangram")
    assert {"name": volume["name"], "mountPath": "/etc/tangram", "readOnly": True} in tangram["volumeMounts"]


@pytest.mark.parametrize(("mode", "preempt"), [("base", False), ("base", True), ("advise", False)])
def test_kube_scheduler_leads_with_the_shipped_configuration_and_rights(
    plane: ControlPlane, kubectl: Kubectl, new_kube_scheduler: NewKubeScheduler, mode: str, preempt: bool
) -> None:
    kubectl("apply", "-k", installation.MANIFESTS / mode)
    text = (installation.MANIFESTS / mode / "config" / "scheduler.yaml").read_text("utf-8")
    document = yaml.safe_load(text.replace("# preemptVerb:", "preemptVerb:") if preempt else text)
    election = document["leaderElection"]
    kubeconfig = plane.service_account_kubeconfig(election["resourceNamespace"], installation.SERVICE_ACCOUNT)

    scheduler = new_kube_scheduler(kubeconfig, document, name=f"{mode}-{preempt}", leader_election=True)

    lease = plane.kube.wait_for(
        LEASES,
        election["resourceName"],
        election["resourceNamespace"],
        lambda lease: bool(lease["spec"].get("holderIdentity")),
        "kube-scheduler leads",
    )
    assert lease["spec"]["holderIdentity"].startswith(socket.gethostname())
    assert "forbidden" not in scheduler.process.log.read_text().lower()
    scheduler.stop()
    plane.wipe()
