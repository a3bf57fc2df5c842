"""Every kind of workload, as a cluster has it: a running Tangram finds for each pod the gang that it is in."""

from __future__ import annotations

import copy
from functools import partial
from typing import Final, NamedTuple

import pytest
import yaml

from scheduler.gang_spec import GangSpec
from scheduler.membership import Membership
from tests.conftest import NewControlPlane, NewTangram
from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.resources import Object, Objects
from tests.controlplane.waiting import eventually
from tests.e2e.ops import Ops
from tests.recognition import world

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]

UNAPPROVED: Final = {"api-approved.kubernetes.io": "unapproved, for tests"}
"""The API server wants to know this of definitions in groups of Kubernetes."""
BUILT_IN: Final = frozenset({"Job", "StatefulSet", "Deployment", "ReplicaSet"})
UPSTREAM: Final = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")
"""Kubernetes' own PodGroups."""
OLD: Final = frozenset({"upstream-workload"})
"""What this API server has no more."""


class InGang(NamedTuple):
    """Where a pod belongs: gang, group and the minimum of the group, None while nothing defines it."""

    key: str
    leaf: str
    minimum: int | None


def documents(name: str) -> Objects:
    """Those of a manifest, in a namespace of its own."""
    found = list(yaml.safe_load_all((world.MANIFESTS / f"{name}.yaml").read_text(encoding="utf-8")))
    for one in found:
        one["metadata"]["namespace"] = name
    return found


def definition(group: str, kind: str, versions: set[str]) -> Object:
    """The least that makes the API server keep objects of a kind."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": UNAPPROVED},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {"name": version, "served": True, "storage": at == 0, "schema": schema}
                for at, version in enumerate(sorted(versions))
            ],
        },
    }


def define(kube: Kube, everything: Objects) -> None:
    """Defines the kinds that the API server does not have."""
    missing: dict[tuple[str, str], set[str]] = {}
    for one in everything:
        group, _, version = one["apiVersion"].rpartition("/")
        if not _is_served(kube, one):
            missing.setdefault((group, one["kind"]), set()).add(version)
    kube.create_all([definition(group, kind, versions) for (group, kind), versions in sorted(missing.items())])
    for one in everything:
        eventually(partial(_is_served, kube, one), f"{one['apiVersion']} {one['kind']} is served")


def _is_served(kube: Kube, document: Object) -> bool:
    try:
        kube.loop.run(kube.client.resource_of(document))
    except (ApiError, LookupError):
        return False
    return True


class Creation:
    """Creates objects as their controllers would: owners first, by the uids that the API server gives."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._uids: dict[str, str] = {}

    def create(self, document: Object) -> None:
        """An object, with the uids of its owners as they are here."""
        one = copy.deepcopy(document)
        metadata = one["metadata"]
        known = metadata.pop("uid")
        for key in ("creationTimestamp", "resourceVersion", "generation"):
            metadata.pop(key, None)
        for owner in metadata.get("ownerReferences", ()):
            owner["uid"] = self._uids.get(owner["uid"], owner["uid"])
        if one["kind"] == "Pod":
            one["spec"].pop("priorityClassName", None)
        created = self._kube.create(one)
        self._uids[known] = created["metadata"]["uid"]
        if one["kind"] in BUILT_IN and "status" in one:  # of these the API server drops it at creation
            resource = self._kube.loop.run(self._kube.client.resource_of(one))
            status = {"status": one["status"]}
            self._kube.patch(resource, metadata["name"], status, metadata["namespace"], "status")


def expected(name: str) -> dict[str, InGang | None]:
    """Pod → its gang by the manifest alone, None where it goes alone; one pod may define a gang for all."""
    known = world.load(name)
    found = {pod: known.of(pod) for pod in known.pods}
    specs = {one.gang: one.spec for one in found.values() if one.spec is not None}
    return {pod: _gang(one, None if one.gang is None else specs.get(one.gang), name) for pod, one in found.items()}


def _gang(found: Membership, spec: GangSpec | None, namespace: str) -> InGang | None:
    if found.gang is None or found.problem:
        return None
    if spec is not None and spec.root.is_leaf and spec.root.minimum <= 1 and spec.root.nearness is None:
        return None
    leaves = {} if spec is None else {leaf.name: leaf.minimum for leaf in spec.root.leaves()}
    return InGang(str(found.gang._replace(namespace=namespace)), found.leaf, leaves.get(found.leaf))


def answered(ops: Ops, namespace: str, name: str) -> InGang | None:
    """The same as the running Tangram says it."""
    gang = ops.workload(namespace, name)["gang"]
    return None if gang is None else InGang(gang["key"], gang["leaf"]["name"], gang["leaf"]["minimum"])


def test_every_kind_ends_in_its_gang(
    binaries: Binaries, new_control_plane: NewControlPlane, new_tangram: NewTangram
) -> None:
    plane = new_control_plane(flags=UPSTREAM)
    kube = plane.kube
    kubeconfig = installation.install(plane, installation.rendered(binaries))
    manifests = {name: documents(name) for name in world.names() if name not in OLD}
    define(kube, [one for found in manifests.values() for one in found])
    ops = Ops(new_tangram(kubeconfig))
    problems: list[str] = []
    for name, found in manifests.items():
        kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        creation = Creation(kube)
        try:
            for one in found:
                creation.create(one)
        except ApiError as err:
            problems.append(f"{name}: {err}")
            continue
        problems += _differences(ops, name)
    assert not problems, "\n".join(problems)


def _differences(ops: Ops, name: str) -> list[str]:
    """What Tangram says otherwise of the pods of a manifest, some seconds after they came."""
    wanted = expected(name)
    eventually(lambda: all(ops.knows(name, pod) for pod in wanted), f"Tangram knows the pods of {name}")
    try:
        eventually(lambda: {pod: answered(ops, name, pod) for pod in wanted} == wanted, name, 3)
    except AssertionError:
        return [
            f"{name}: {pod} is in {said}, not in {gang}"
            for pod, gang in wanted.items()
            if (said := answered(ops, name, pod)) != gang
        ]
    return []
