"""The shipped manifests on a real API server: they apply, the policies do what they promise, rights are enough."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from extender_api.doctor import policies, shipped
from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.resources import LEASES, NAMESPACES, NODES, PODS, Object, Resource
from tests.controlplane.waiting import eventually
from tests.manifests.conftest import Kubectl
from topology import vocabulary

pytestmark = pytest.mark.controlplane

NAMESPACE = "manifests"
VISIBLE = vocabulary.VISIBLE_DEVICES_ENV
ALL = {"name": VISIBLE, "value": "all"}
FROM_ANNOTATION = {
    "name": VISIBLE,
    "valueFrom": {
        "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{vocabulary.GPU_UUIDS}']"},
    },
}
ASSIGNED = {
    vocabulary.ALLOCATION: '{"v":1,"node":"n1","backend":"annotation","devices":[]}',
    vocabulary.GPU_UUIDS: "GPU-1",
}


@pytest.fixture
def kube(plane: ControlPlane) -> Iterator[Kube]:
    """A client with all rights, and a namespace that is empty again after the test."""
    if plane.kube.find(NAMESPACES, NAMESPACE) is None:
        plane.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield plane.kube
    plane.wipe()


def container(name: str = "main", *env: Object) -> Object:
    return {"name": name, "image": "none", "env": list(env)}


def create(
    kube: Kube, name: str, annotations: Object | None = None, labels: Object | None = None, **spec: Any
) -> Object:
    """Creates a pod of ours; a `spec` that is given wins."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"schedulerName": "tangram", "containers": [container()], **spec},
    }
    return kube.create(document, NAMESPACE)


def gates(pod: Object) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


def env(pod: Object, name: str = "main") -> list[Object]:
    """The environment of a container."""
    every = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    (found,) = (entry for entry in every if entry["name"] == name)
    return list(found.get("env", ()))


def node(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


# -- applying ----------------------------------------------------------------------------------------------------------
def test_everything_applies_and_applies_again(kubectl: Kubectl) -> None:
    for folder in ("base", "advise"):
        kubectl("apply", "-k", installation.MANIFESTS / folder)
        kubectl("apply", "-k", installation.MANIFESTS / folder)
        assert kubectl("diff", "-k", installation.MANIFESTS / folder) == "", "what was applied is what is there"
    kubectl("apply", "--dry-run=server", "-k", installation.MANIFESTS / "overlays" / "provider")


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


# -- the gate ----------------------------------------------------------------------------------------------------------
def test_a_pod_of_ours_gets_the_gate_once(kube: Kube) -> None:
    assert gates(create(kube, "plain")) == [vocabulary.GATE]
    assert gates(create(kube, "gated", schedulingGates=[{"name": vocabulary.GATE}])) == [vocabulary.GATE]
    other = create(kube, "other", schedulingGates=[{"name": "example.com/hold"}])
    assert gates(other) == ["example.com/hold", vocabulary.GATE]


def test_pods_of_others_stay_as_they_are(kube: Kube) -> None:
    share = {"gpu-fraction": "0.5"}
    for name in ("default-scheduler", "tangram-advise"):
        pod = create(kube, name, share, schedulerName=name, containers=[container("main", ALL)])
        assert gates(pod) == []
        assert env(pod) == [ALL]


def test_a_pod_that_has_a_node_is_not_gated(kube: Kube) -> None:
    pod = create(kube, "static", {"gpu-fraction": "0.5"}, nodeName="n1", containers=[container("main", ALL)])
    assert gates(pod) == []
    assert env(pod) == [FROM_ANNOTATION], "it sees no device that nobody assigned"


def test_a_pod_without_a_share_keeps_its_environment(kube: Kube) -> None:
    words = {"gpu-fraction-num-devices": "2", "tangram.scheduler/queue": "a"}
    assert env(create(kube, "whole", words, containers=[container("main", ALL)])) == [ALL]


@pytest.mark.parametrize("word", [*vocabulary.GPU_FRACTION.spellings, *vocabulary.GPU_MEMORY.spellings])
def test_every_word_for_a_share_brings_the_variable(kube: Kube, word: str) -> None:
    assert env(create(kube, "share", {word: "0.5"})) == [FROM_ANNOTATION]


A, B = {"name": "A", "value": "1"}, {"name": "B", "value": f"$({VISIBLE})"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], [FROM_ANNOTATION]),
        ([A], [A, FROM_ANNOTATION]),
        ([ALL], [FROM_ANNOTATION]),
        ([A, ALL, B], [A, FROM_ANNOTATION, B]),
        ([ALL, A, ALL, B, ALL], [FROM_ANNOTATION, A, B]),
        ([A, FROM_ANNOTATION], [A, FROM_ANNOTATION]),
    ],
)
def test_an_entry_is_replaced_where_it_stands(kube: Kube, given: list[Object], wanted: list[Object]) -> None:
    assert env(create(kube, "share", {"gpu-fraction": "0.5"}, containers=[container("main", *given)])) == wanted


def test_only_the_container_that_gets_the_devices_is_changed(kube: Kube) -> None:
    containers = [container("a", ALL), container("b", A, ALL)]
    spec: Object = {"containers": containers, "initContainers": [container("i", ALL), container("j")]}

    def share(name: str, named: str | None) -> dict[str, list[Object]]:
        words = {"gpu-memory": "2000"} | ({"gpu-fraction-container-name": named} if named is not None else {})
        pod = create(kube, name, words, **spec)
        return {entry: env(pod, entry) for entry in "abij"}

    before = {"a": [ALL], "b": [A, ALL], "i": [ALL], "j": []}
    assert share("first", None) == {**before, "a": [FROM_ANNOTATION]}
    assert share("second", "b") == {**before, "b": [A, FROM_ANNOTATION]}
    assert share("init", "i") == {**before, "i": [FROM_ANNOTATION]}
    assert share("bare-init", "j") == {**before, "j": [FROM_ANNOTATION]}
    assert share("unknown", "c") == before
    assert share("empty", "") == before


@pytest.mark.parametrize(("name", "fraction"), [("gpu-demo-1", "0.1"), ("gpu-demo-2", "0.2")])
def test_the_demo_pods_of_the_talk(kube: Kube, name: str, fraction: str) -> None:
    pod = create(
        kube,
        name,
        {"kai.scheduler/gpu-fraction": fraction},
        {"kai.scheduler/queue": "test"},
        runtimeClassName="nvidia",
        nodeSelector={"nvidia.com/gpu.present": "true"},
        containers=[{**container("cuda", ALL), "command": ["sleep", "3600"]}],
    )
    assert env(pod, "cuda") == [FROM_ANNOTATION]
    assert gates(pod) == [vocabulary.GATE]
    assert pod["metadata"]["labels"] == {"kai.scheduler/queue": "test"}


def test_the_provider_overlay_takes_offloaded_pods_in(kube: Kube, binaries: Binaries, plane: ControlPlane) -> None:
    offloaded = {"offloading.liqo.io/origin": "consumer"}
    before = create(kube, "before", {"gpu-fraction": "0.5"}, offloaded, schedulerName="default-scheduler")
    assert before["spec"]["schedulerName"] == "default-scheduler"
    overlay = installation.rendered(binaries, installation.MANIFESTS / "overlays" / "provider")
    policy = [document for document in overlay if document["kind"] == "MutatingAdmissionPolicy"]
    try:
        kube.apply(*policy)
        pod = eventually(lambda: taken_in(kube, offloaded), "offloaded pods are taken in")
        assert pod is not None
        assert gates(pod) == [vocabulary.GATE]
        assert env(pod) == [FROM_ANNOTATION]
        own = create(kube, "own", {"gpu-fraction": "0.5"})
        assert (gates(own), env(own)) == ([vocabulary.GATE], [FROM_ANNOTATION])
        foreign = create(kube, "foreign", schedulerName="default-scheduler")
        assert (foreign["spec"]["schedulerName"], gates(foreign)) == ("default-scheduler", [])
    finally:
        installation.install(plane, installation.rendered(binaries))
        eventually(lambda: taken_in(kube, offloaded) is None, "the base's own policy is back")


def taken_in(kube: Kube, labels: Object) -> Object | None:
    """An offloaded pod as it would be created now, or None where it would keep its scheduler."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": labels, "annotations": {"gpu-fraction": "0.5"}},
        "spec": {"containers": [container()]},
    }
    created: Object = kube.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod, {"dryRun": "All"})
    return created if created["spec"]["schedulerName"] == "tangram" else None


# -- the annotations ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", list(ASSIGNED))
@pytest.mark.parametrize("scheduler_name", ["tangram", "default-scheduler"])
def test_no_pod_is_created_with_an_assignment(kube: Kube, key: str, scheduler_name: str) -> None:
    with pytest.raises(ApiError, match="Tangram writes them when it binds the pod, and no pod is created") as denied:
        create(kube, "forged", {key: ASSIGNED[key]}, schedulerName=scheduler_name)
    assert denied.value.status == 403


@pytest.mark.parametrize("key", list(ASSIGNED))
@pytest.mark.parametrize("subresource", [None, "status"])
def test_an_assignment_comes_with_the_binding_and_stays(kube: Kube, key: str, subresource: str | None) -> None:
    def annotate(value: str | None, other: str) -> None:
        patch = {"metadata": {"annotations": {key: value, "other": other}}}
        kube.patch(PODS, "pod", patch, NAMESPACE, subresource)

    kube.create(node("n1"))
    pod = create(kube, "pod", {"other": "0"}, schedulerName="someone")
    with pytest.raises(ApiError, match="not added, changed or removed"):
        annotate("forged", "1")

    kube.bind(pod, "n1", ASSIGNED)
    bound = kube.get(PODS, "pod", NAMESPACE)
    assert bound["metadata"]["annotations"] == {"other": "0", **ASSIGNED}

    for value in ("forged", None):
        with pytest.raises(ApiError, match="not added, changed or removed"):
            annotate(value, "1")
    annotate(ASSIGNED[key], "2")
    assert kube.get(PODS, "pod", NAMESPACE)["metadata"]["annotations"] == {"other": "2", **ASSIGNED}


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
def test_other_subresources_change_no_annotation(kube: Kube, subresource: str) -> None:
    """The API server itself drops such a change there, so the policy need not look."""
    create(kube, "pod", schedulerName="someone")
    kube.patch(PODS, "pod", {"metadata": {"annotations": ASSIGNED}}, NAMESPACE, subresource)
    assert not kube.get(PODS, "pod", NAMESPACE)["metadata"].get("annotations")


def test_a_pod_of_ours_is_ungated_and_bound_with_its_assignment(kube: Kube) -> None:
    kube.create(node("n1"))
    pod = create(kube, "pod", {"gpu-fraction": "0.5"})
    with pytest.raises(ApiError, match="scheduling"):
        kube.bind(pod, "n1", ASSIGNED)
    kube.patch(PODS, "pod", [{"op": "remove", "path": "/spec/schedulingGates/0"}], NAMESPACE)
    kube.bind(pod, "n1", ASSIGNED)
    bound = kube.get(PODS, "pod", NAMESPACE)
    assert bound["metadata"]["annotations"].items() >= ASSIGNED.items()
    assert bound["spec"]["nodeName"] == "n1"


def test_a_listed_account_is_exempt(kube: Kube, plane: ControlPlane, binaries: Binaries) -> None:
    document = dict(shipped.protection_policy())
    condition = {
        "name": shipped.EXEMPTION,
        "expression": "!(request.userInfo.username in ['system:serviceaccount:vcluster:syncer'])",
    }
    syncer = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "syncer"}}
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vcluster"}})
    kube.create(syncer, "vcluster")
    kube.create(cluster_role_binding("syncer", "cluster-admin", "vcluster"))
    client = plane.client(plane.service_account_kubeconfig("vcluster", "syncer"))
    try:
        with pytest.raises(ApiError, match="no pod is created with them"):
            create(client, "copied", ASSIGNED)
        kube.apply({**document, "spec": {**document["spec"], "matchConditions": [condition]}})
        eventually(lambda: may_create(client), "the syncer is exempt")
        with pytest.raises(ApiError, match="no pod is created with them"):
            create(kube, "forged", ASSIGNED)
    finally:
        client.close()
        kube.apply(document)


def may_create(client: Kube) -> bool:
    try:
        create(client, "copied", ASSIGNED, schedulerName="someone")
    except ApiError:
        return False
    return True


def cluster_role_binding(account: str, role: str, namespace: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"test-{account}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


# -- rights ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def tangram_alone(kube: Kube, plane: ControlPlane) -> Iterator[Kube]:
    """A client with the roles of Tangram, and without those of the kube-scheduler that shares its account."""
    system = installation.NAMESPACE
    kube.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "alone", "namespace": system}})
    kube.apply(cluster_role_binding("alone", "tangram", system))
    binding = cluster_role_binding("alone", "tangram", system)
    binding["kind"], binding["roleRef"] = "RoleBinding", {**binding["roleRef"], "kind": "Role"}
    binding["metadata"]["namespace"] = system
    kube.apply(binding)
    client = plane.client(plane.service_account_kubeconfig(system, "alone"))
    yield client
    client.close()


LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "tangram", "namespace": installation.NAMESPACE},
    "spec": {"holderIdentity": "host_1"},
}


def test_tangram_may_do_all_it_does(kube: Kube, tangram_alone: Kube) -> None:
    kube.create(node("n1"))
    kube.apply(LEASE)
    pod = create(kube, "pod", {"gpu-fraction": "0.5"})
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/pod"

    for resource in (PODS, NODES, NAMESPACES):
        assert tangram_alone.list(resource)
        watch(tangram_alone, resource.path())
    tangram_alone.request("GET", PODS.path(), params={"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"})
    own = {"fieldSelector": "metadata.name=tangram"}
    leases = LEASES.path(installation.NAMESPACE)
    assert tangram_alone.request("GET", leases, params=own)["items"]
    watch(tangram_alone, leases, **own)
    assert tangram_alone.get(PODS, "pod", NAMESPACE)["metadata"]["uid"] == pod["metadata"]["uid"]
    tangram_alone.patch(PODS, "pod", {"status": {"nominatedNodeName": "n1"}}, NAMESPACE, "status")
    tangram_alone.patch(PODS, "pod", [{"op": "remove", "path": "/spec/schedulingGates/0"}], NAMESPACE)
    tangram_alone.request("POST", f"{path}/binding", binding_of(pod))
    tangram_alone.create(event_about(pod), NAMESPACE)

    assert kube.get(PODS, "pod", NAMESPACE)["spec"]["nodeName"] == "n1"
    assert kube.list(Resource("events.k8s.io/v1", "events", True), NAMESPACE)


def watch(client: Kube, path: str, **query: str) -> None:
    """Watches for a moment. Raises ApiError where that is not allowed."""
    with contextlib.suppress(ValueError):  # what comes is a stream and no JSON document
        client.request("GET", path, params={"watch": "1", "timeoutSeconds": "1", **query})


def binding_of(pod: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "annotations": ASSIGNED},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def event_about(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "told", "namespace": metadata["namespace"]},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Waiting",
        "action": "Plan",
        "note": "told",
        "regarding": {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"]},
        "reportingController": "tangram.scheduler",
        "reportingInstance": "test",
    }


FORBIDDEN: list[tuple[str, str, Object | None]] = [
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/pod", None),
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods", None),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/pod/eviction", {}),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", {}),
    ("PUT", f"/api/v1/namespaces/{NAMESPACE}/pods/pod", {}),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/pod/exec", None),
    ("PATCH", "/api/v1/nodes/n1", {}),
    ("PATCH", "/api/v1/nodes/n1/status", {}),
    ("GET", "/api/v1/secrets", None),
    ("GET", "/api/v1/configmaps", None),
    ("GET", "/api/v1/persistentvolumes", None),
    ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases/tangram", {}),
    ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases/other", None),
    ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{installation.NAMESPACE}/leases", None),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", None),
    ("DELETE", f"{shipped.COLLECTIONS['MutatingAdmissionPolicy']}/{shipped.GATE}", None),
    ("PATCH", f"{shipped.COLLECTIONS['ClusterRole']}/tangram", {}),
]


def test_tangram_may_do_nothing_else(tangram_alone: Kube) -> None:
    for method, path, body in FORBIDDEN:
        with pytest.raises(ApiError) as refused:
            tangram_alone.request(method, path, body)
        assert refused.value.status == 403, (method, path, str(refused.value))


def test_the_shipped_account_runs_kube_scheduler_too(kube: Kube, plane: ControlPlane) -> None:
    kube.apply(LEASE)
    client = plane.client(plane.service_account_kubeconfig(installation.NAMESPACE, installation.SERVICE_ACCOUNT))
    try:
        for path in (
            "/api/v1/persistentvolumes",
            "/apis/storage.k8s.io/v1/csinodes",
            "/apis/storage.k8s.io/v1/storageclasses",
        ):
            client.request("GET", path)
        lease = client.get(LEASES, "tangram", installation.NAMESPACE)
        client.request("PUT", LEASES.path(installation.NAMESPACE, "tangram"), lease)
        with pytest.raises(ApiError, match="forbidden"):
            client.request("GET", "/api/v1/secrets")
        with pytest.raises(ApiError, match="forbidden"):
            client.delete(LEASES, "tangram", installation.NAMESPACE)
    finally:
        client.close()
