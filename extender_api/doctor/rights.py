"""What the account of an installation has to be allowed to do, taken from the roles as they are shipped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from extender_api.cluster.client import ClusterClient
from extender_api.doctor import shipped
from extender_api.doctor.facts import Right, Rights

REVIEWS: Final = "/apis/authorization.k8s.io/v1"


def of_tangram(mode: str, namespace: str, lease: tuple[str, str]) -> Iterator[Right]:
    """The rights of Tangram in `mode` (`base` or `advise`), installed in `namespace`, following `lease`."""
    for kind, rule in shipped.rules(mode):
        local = namespace if kind == "Role" else ""
        (name,) = rule.get("resourceNames", ("",))
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    if resource == "leases" and verb != "create":
                        yield Right(verb, group, resource, *lease)
                    else:
                        yield Right(verb, group, resource, local, name)


def of_kube_scheduler(lease: tuple[str, str]) -> Iterator[Right]:
    """One right of each role that kube-scheduler needs: without one of these a binding is missing."""
    yield Right("list", "", "persistentvolumes")
    yield Right("list", "storage.k8s.io", "storageclasses")
    yield Right("get", "", "configmaps", "kube-system", "extension-apiserver-authentication")
    yield Right("create", "coordination.k8s.io", "leases", lease[0])
    yield Right("update", "coordination.k8s.io", "leases", *lease)


async def ask(client: ClusterClient, rights: Iterable[Right], account: tuple[str, str] | None) -> Rights:
    """Asks the API server about each right of a service account (namespace, name), or of our own credentials.

    Raises PermissionError when we may not ask, Unreachable.
    """
    wanted = list(dict.fromkeys(rights))
    answers = await asyncio.gather(*(_allowed(client, right, account) for right in wanted))
    denied = tuple(right for right, allowed in zip(wanted, answers, strict=True) if not allowed)
    label = "these credentials" if account is None else "/".join(account)
    return Rights(label, len(wanted), denied)


async def _allowed(client: ClusterClient, right: Right, account: tuple[str, str] | None) -> bool:
    kind = "SelfSubjectAccessReview" if account is None else "SubjectAccessReview"
    spec: dict[str, Any] = {"resourceAttributes": _attributes(right)}
    if account is not None:
        namespace, name = account
        spec["user"] = f"system:serviceaccount:{namespace}:{name}"
        spec["groups"] = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ]
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = await client.create(f"{REVIEWS}/{kind.lower()}s", review)
    if not answer.ok:
        raise PermissionError(f"rights cannot be asked about: {answer.message}")
    return bool(answer.json().get("status", {}).get("allowed"))


def _attributes(right: Right) -> Mapping[str, str]:
    resource, _, subresource = right.resource.partition("/")
    return {
        "verb": right.verb,
        "group": right.group,
        "version": "v1",
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
