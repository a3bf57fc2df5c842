"""Kinds of Kubernetes objects and where the API server keeps them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Object = dict[str, Any]
"""A Kubernetes object as JSON."""
Objects = list[Object]


class Resource(NamedTuple):
    """One kind in the API: `group_version` as in apiVersion."""

    group_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Path of an object or collection; without `namespace` the collection of all namespaces."""
        parts = ["api" if "/" not in self.group_version else "apis", self.group_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/" + "/".join(parts)


PODS: Final = Resource("v1", "pods", True)
NODES: Final = Resource("v1", "nodes", False)
NAMESPACES: Final = Resource("v1", "namespaces", False)
EVENTS: Final = Resource("v1", "events", True)
CONFIG_MAPS: Final = Resource("v1", "configmaps", True)
SERVICE_ACCOUNTS: Final = Resource("v1", "serviceaccounts", True)
LEASES: Final = Resource("coordination.k8s.io/v1", "leases", True)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io/v1", "priorityclasses", False)
_RBAC: Final = "rbac.authorization.k8s.io/v1"
CLUSTER_ROLES: Final = Resource(_RBAC, "clusterroles", False)
CLUSTER_ROLE_BINDINGS: Final = Resource(_RBAC, "clusterrolebindings", False)
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
MUTATING_POLICIES: Final = Resource(_ADMISSION, "mutatingadmissionpolicies", False)
MUTATING_POLICY_BINDINGS: Final = Resource(_ADMISSION, "mutatingadmissionpolicybindings", False)
VALIDATING_POLICIES: Final = Resource(_ADMISSION, "validatingadmissionpolicies", False)
VALIDATING_POLICY_BINDINGS: Final = Resource(_ADMISSION, "validatingadmissionpolicybindings", False)
DEFINITIONS: Final = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions", False)
