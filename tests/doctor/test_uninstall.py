"""Uninstalling on a cluster on paper: the order, what is touched and what is not, and doing it twice."""

from __future__ import annotations

from typing import Any

import pytest

from extender_api import uninstall as module
from extender_api.cluster import paths
from extender_api.cluster.answer import Answer
from extender_api.doctor import shipped
from extender_api.doctor.listing import ListError
from extender_api.pod_group_objects.crd import POD_GROUP
from extender_api.queue_objects.crd import QUEUE
from extender_api.settings import Settings
from extender_api.topology_objects.crd import TOPOLOGY
from extender_api.uninstall import UninstallError, UninstallReport, uninstall
from tests.cluster.objects import pod_group, topology
from tests.doctor.paper_cluster import PaperCluster, installed, pod, queue

OURS = {"name": "tangram.scheduler/queued"}
BINDINGS = [f"{shipped.COLLECTIONS['MutatingAdmissionPolicyBinding']}/{name}" for name in shipped.MUTATING]
POLICIES = [f"{shipped.COLLECTIONS['MutatingAdmissionPolicy']}/{name}" for name in shipped.MUTATING]


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PASS_EVERY_S", 0.0)


async def run(cluster: PaperCluster, **options: Any) -> tuple[UninstallReport, str]:
    client: Any = cluster
    said: list[str] = []
    report = await uninstall(client, Settings(), say=said.append, **{"dry_run": False, **options})
    return report, "\n".join(said)


def busy() -> PaperCluster:
    cluster = installed()
    cluster.add_pods(
        pod("whole", schedulingGates=[OURS]),
        pod("share", schedulingGates=[OURS], annotations={"kai.scheduler/gpu-fraction": "0.5"}),
        pod("held", schedulingGates=[{"name": "other/gate"}, OURS]),
        pod("released", annotations={"gpu-memory": "2000"}),
        pod("running", nodeName="n1", phase="Running", annotations={"gpu-fraction": "0.5"}),
        pod("done", nodeName="n1", phase="Succeeded"),
        pod("foreign", schedulerName="default-scheduler"),
    )
    return cluster


async def test_policies_go_before_the_gates_and_running_pods_are_not_touched() -> None:
    cluster = busy()

    report, said = await run(cluster)

    assert cluster.writes[:4] == [("DELETE", path) for path in [*BINDINGS, *POLICIES]]
    patched = {path.rpartition("/")[2] for method, path in cluster.writes[4:] if method == "PATCH"}
    assert patched == {"whole", "share", "held"}
    assert cluster.pods["held"]["spec"]["schedulingGates"] == [{"name": "other/gate"}]
    assert report.ungated == 3
    assert report.complete
    assert report.plan.shares == ("default/released", "default/share")
    assert report.plan.running == 1
    assert "default/share" in said
    assert "kubectl delete -k" in said
    assert {document["kind"] for document in cluster.objects.values() if "kind" in document} >= {
        "ValidatingAdmissionPolicy",
        "ClusterRole",
        "Namespace",
    }


async def test_a_dry_run_changes_nothing() -> None:
    cluster = busy()

    report, said = await run(cluster, dry_run=True)

    assert not cluster.writes
    assert len(report.plan.gated) == 3
    assert "would remove the gate of 3 pods: default/held, default/share, default/whole" in said


async def test_it_may_be_repeated() -> None:
    cluster = busy()
    await run(cluster)

    report, said = await run(cluster)

    assert report.ungated == 0
    assert report.complete
    for name in shipped.MUTATING:
        assert f"MutatingAdmissionPolicy {name} is not there" in said


async def test_pods_gated_while_the_policy_goes_are_found() -> None:
    class Slow(PaperCluster):
        """Adds a gated pod after the first gates were removed, as an API server does that has not seen the news."""

        async def patch(self, path: str, body: Any, kind: Any) -> Answer:
            if "late" not in self.pods:
                self.add_pods(pod("late", schedulingGates=[OURS]))
            return await super().patch(path, body, kind)

    cluster = Slow()
    cluster.add_pods(pod("early", schedulingGates=[OURS]))

    report, _ = await run(cluster)

    assert report.ungated == 2
    assert not cluster.pods["late"]["spec"]["schedulingGates"]


async def test_a_pod_that_keeps_its_gate_is_reported() -> None:
    cluster = busy()
    cluster.refuse["PATCH", "/api/v1/namespaces/default/pods/whole"] = 403

    report, said = await run(cluster, everything=True)

    assert report.stuck == (("default/whole", "403: denied by a policy"),)
    assert not report.complete
    assert not report.removed
    assert report.ungated == 2
    assert "not complete" in said


async def test_it_is_not_complete_while_the_last_look_finds_gates() -> None:
    class Endless(PaperCluster):
        """Something adds the gate to new pods all the time."""

        async def patch(self, path: str, body: Any, kind: Any) -> Answer:
            self.add_pods(pod(f"p{len(self.pods)}", schedulingGates=[OURS]))
            return await super().patch(path, body, kind)

    cluster = Endless()
    cluster.add_pods(pod("p0", schedulingGates=[OURS]))

    report, said = await run(cluster, everything=True)

    assert not report.stuck
    assert not report.complete
    assert not report.removed
    assert report.ungated == module.PASSES
    assert f"1 pods still have the gate: default/p{module.PASSES}" in said
    assert "not complete: repeat the command" in said


async def test_a_pod_that_is_gone_is_no_trouble() -> None:
    class Vanishing(PaperCluster):
        """A pod goes between being listed and being patched."""

        async def patch(self, path: str, body: Any, kind: Any) -> Answer:
            self.pods.pop("whole", None)
            return await super().patch(path, body, kind)

    cluster = Vanishing()
    cluster.add_pods(pod("whole", schedulingGates=[OURS]), pod("other", schedulingGates=[OURS]))

    report, _ = await run(cluster)

    assert report.complete


async def test_nothing_is_done_where_a_later_step_would_be_refused() -> None:
    cluster = busy()
    cluster.denied = {("patch", "pods")}

    with pytest.raises(UninstallError, match="nothing was done: not allowed to patch pods"):
        await run(cluster)

    assert not cluster.writes


@pytest.mark.parametrize("path", [*BINDINGS, *POLICIES])
async def test_a_policy_that_cannot_be_deleted_stops_before_the_gates(path: str) -> None:
    cluster = busy()
    cluster.refuse["DELETE", path] = 500

    with pytest.raises(UninstallError, match="could not be deleted"):
        await run(cluster)

    assert not [path for method, path in cluster.writes if method == "PATCH"]


async def test_everything_goes_once_nobody_waits() -> None:
    cluster = busy()

    report, said = await run(cluster, everything=True)
    assert not report.removed
    assert "repeat the command when they are gone" in said

    for name in ("whole", "share", "held", "released"):
        del cluster.pods[name]
    report, _ = await run(cluster, everything=True)

    assert report.removed
    left = {document.get("kind", "a list") for document in cluster.objects.values()}
    assert left <= {"a list"}, "what stands in the namespace goes with it"
    deleted = [path for method, path in cluster.writes if method == "DELETE"]
    assert deleted[-1] == "/api/v1/namespaces/tangram-system"


DEFINITION = f"{shipped.COLLECTIONS['CustomResourceDefinition']}/queues.tangram.scheduler"


def with_queues() -> PaperCluster:
    cluster = installed()
    cluster.queues[paths.QUEUES] = [queue("team-a"), queue("team-b"), queue("team-c", priority="unreadable")]
    return cluster


async def test_queues_are_what_administrators_wrote_and_stay_with_their_definition() -> None:
    cluster = with_queues()

    report, said = await run(cluster, everything=True)

    assert report.removed
    assert report.written == {QUEUE: ("team-a", "team-b", "team-c")}
    assert {path for path, found in cluster.objects.items() if "kind" in found} == {DEFINITION}
    assert "their definition stays for 3 Queue objects: team-a, team-b, team-c" in said


async def test_queues_go_when_asked_and_only_after_nobody_acts_by_them() -> None:
    cluster = with_queues()

    report, said = await run(cluster, everything=True, delete_objects=True)

    assert report.removed
    assert report.written == {}
    deleted = [path for method, path in cluster.writes if method == "DELETE"]
    roles = [path for path in deleted if "clusterrole" in path]
    assert roles
    assert all(deleted.index(path) < deleted.index(DEFINITION) for path in roles), "else all that waits would start"
    assert deleted[-1] == "/api/v1/namespaces/tangram-system"
    assert "with their definition go 3 Queue objects" in said


async def test_who_deletes_the_rest_by_hand_is_warned() -> None:
    report, said = await run(with_queues())

    assert report.written == {QUEUE: ("team-a", "team-b", "team-c")}
    assert "keep a copy first with kubectl get queues.tangram.scheduler -o yaml" in said


async def test_a_dry_run_says_what_becomes_of_queues() -> None:
    for options, words in (
        ({}, "deletes them: keep a copy"),
        ({"everything": True}, "their definition stays for"),
        ({"everything": True, "delete_objects": True}, "with their definition go"),
    ):
        cluster = with_queues()
        _, said = await run(cluster, dry_run=True, **options)
        assert words in said
        assert not cluster.writes


async def test_queues_that_may_not_be_listed_are_no_trouble_unless_everything_goes() -> None:
    cluster = with_queues()
    cluster.refuse["GET", paths.QUEUES] = 403
    report, _ = await run(cluster)
    assert (report.complete, report.written) == (True, {})

    with pytest.raises(ListError, match="HTTP 403"):
        await run(cluster, everything=True)
    cluster.denied = {("list", "queues")}
    with pytest.raises(UninstallError, match=r"not allowed to list queues\.tangram\.scheduler"):
        await run(cluster, everything=True)


async def test_each_definition_stays_for_its_own_objects() -> None:
    cluster = installed()
    cluster.queues[paths.TOPOLOGIES] = [topology("racks")]
    cluster.queues[paths.POD_GROUPS] = [pod_group("train", "a"), pod_group("train", "b")]
    before, said = await run(cluster)
    assert before.written == {TOPOLOGY: ("racks",), POD_GROUP: ("a/train", "b/train")}
    assert "kubectl get topologies.tangram.scheduler -o yaml" in said
    assert "kubectl get podgroups.tangram.scheduler -A -o yaml" in said
    cluster.queues[paths.TOPOLOGIES] = []

    report, said = await run(cluster, everything=True)

    definition = f"{shipped.COLLECTIONS['CustomResourceDefinition']}/podgroups.tangram.scheduler"
    assert {path for path, found in cluster.objects.items() if "kind" in found} == {definition}
    assert report.written == {POD_GROUP: ("a/train", "b/train")}
    assert "their definition stays for 2 PodGroup objects: a/train, b/train" in said


async def test_without_the_kind_there_are_no_queues() -> None:
    cluster = installed()
    cluster.queues[paths.QUEUES] = None
    report, said = await run(cluster, everything=True)
    assert report.removed
    assert "Queue objects" not in said
