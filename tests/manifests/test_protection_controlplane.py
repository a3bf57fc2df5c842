"""The protection policy on a real API server: an assignment comes with the Binding, and in no other way."""

from __future__ import annotations

import pytest

from extender_api.doctor import shipped
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.kube import ApiError, Kube
from tests.controlplane.resources import PODS
from tests.controlplane.waiting import eventually
from tests.manifests.pods import ASSIGNED, NAMESPACE, cluster_role_binding, create, node

pytestmark = pytest.mark.controlplane


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


def test_a_listed_account_is_exempt(kube: Kube, plane: ControlPlane) -> None:
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


@pytest.mark.parametrize("word", ["queue", "preemptibility"])
def test_the_queue_of_a_pod_is_settled_once_it_has_a_node(kube: Kube, word: str) -> None:
    """Until then its author may change it."""

    def label(value: str | None, other: str) -> None:
        labels = {f"tangram.scheduler/{word}": value, "other": other}
        kube.patch(PODS, "pod", {"metadata": {"labels": labels}}, NAMESPACE)

    kube.create(node("n1"))
    create(kube, "pod")
    label("first", "1")
    label("second", "2")
    kube.patch(PODS, "pod", [{"op": "remove", "path": "/spec/schedulingGates/0"}], NAMESPACE)
    kube.bind(kube.get(PODS, "pod", NAMESPACE), "n1")
    for value in ("third", None):
        with pytest.raises(ApiError, match="until it ends") as denied:
            label(value, "3")
        assert denied.value.status == 403
    label("second", "4")
    with pytest.raises(ApiError, match="until it ends"):
        kube.patch(PODS, "pod", {"metadata": {"labels": {f"kai.scheduler/{word}": "other"}}}, NAMESPACE)
