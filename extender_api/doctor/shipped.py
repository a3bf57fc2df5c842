"""The manifests as they are shipped: what the doctor compares a cluster with, and what uninstall removes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml

GATE: Final = "tangram-gate"
DEVICES: Final = "tangram-devices"
MUTATING: Final = (GATE, DEVICES)
"""The policies that change pods, in the order in which they are taken away."""
PROTECTION: Final = "tangram-protect-annotations"
EXEMPTION: Final = "not-exempt"
"""The match condition of the protection policy that administrators are meant to change."""

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
COLLECTIONS: Final = {
    "MutatingAdmissionPolicyBinding": f"{ADMISSION}/mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": f"{ADMISSION}/mutatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "ClusterRole": f"{RBAC}/clusterroles",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Namespace": "/api/v1/namespaces",
}
"""Where the API server keeps the cluster-wide objects of the base, in the order in which they are deleted."""
KUBE_SYSTEM_BINDINGS: Final = f"{RBAC}/namespaces/kube-system/rolebindings"

Document = Mapping[str, Any]


def folder() -> Path:
    """The folder `manifests`: inside the installed package, or that of the checkout."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "_manifests"
    return packaged if packaged.is_dir() else package.parent / "manifests"


def documents(*path: str) -> list[Document]:
    """All objects of one shipped file, given by its path below `manifests`."""
    text = folder().joinpath(*path).read_text("utf-8")
    return [document for document in yaml.safe_load_all(text) if document]


def base() -> list[Document]:
    """All objects of the base, generated ConfigMaps excepted, in the order in which they are applied."""
    (kustomization,) = documents("base", "kustomization.yaml")
    return [document for file in kustomization["resources"] for document in documents("base", file)]


def mutating_policy(name: str) -> tuple[Document, Document]:
    """The forms in which a policy of MUTATING is shipped: the base's, and the provider overlay's."""
    (plain,) = (
        document
        for document in base()
        if document["kind"] == "MutatingAdmissionPolicy" and document["metadata"]["name"] == name
    )
    (overlay,) = documents("overlays", "provider", "kustomization.yaml")
    widened = plain
    for patch in overlay["patches"]:
        if patch["target"].get("name", name) == name:
            (operations,) = documents("overlays", "provider", patch["path"])
            widened = _patched(widened, operations)
    return plain, widened


def protection_policy() -> Document:
    """The policy that protects the annotations."""
    return documents("base", "protection-policy.yaml")[0]


def queue_definition() -> Document:
    """The definition of our Queue."""
    return documents("base", "queue-crd.yaml")[0]


def rules(mode: str) -> list[tuple[str, Mapping[str, Any]]]:
    """What the account of Tangram may do by its own roles: (kind of role, rule). `mode` is `base` or `advise`."""
    name = "tangram" if mode == "base" else "tangram-advise"
    return [
        (document["kind"], rule)
        for document in documents(mode, "rbac.yaml")
        if document["kind"] in ("ClusterRole", "Role") and document["metadata"]["name"] == name
        for rule in document["rules"]
    ]


def _patched(document: Document, operations: Any) -> Document:
    """A JSON patch of `add` and `replace` operations."""
    result = deepcopy(dict(document))
    for operation in operations:
        *parents, last = operation["path"].strip("/").split("/")
        target: Any = result
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if isinstance(target, list) and operation["op"] == "add":
            target.insert(int(last), operation["value"])
        elif isinstance(target, list):
            target[int(last)] = operation["value"]
        else:
            target[last] = operation["value"]
    return result
