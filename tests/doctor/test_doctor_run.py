"""The doctor as a whole, on a cluster on paper: what it asks for, and what it makes of the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extender_api.doctor import shipped
from extender_api.doctor.finding import Finding, Level, worst
from extender_api.doctor.run import run_doctor
from extender_api.settings import Settings
from tests.doctor.paper_cluster import PaperCluster, installed, pod

CONFIG_MAP = "/api/v1/namespaces/tangram-system/configmaps/tangram-config"
ALLOCATION = "tangram.scheduler/allocation"


async def examine(cluster: PaperCluster, path: Path | None = None) -> list[Finding]:
    client: Any = cluster
    return await run_doctor(client, Settings(), path)


def troubles(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level is not Level.OK]


async def test_the_base_as_applied_is_well() -> None:
    cluster = installed()
    good = '{"v":1,"node":"n1","backend":"x","devices":[{"index":0,"memoryMiB":1,"milli":1}]}'
    cluster.add_pods(*(pod(f"p{i}", nodeName="n1", annotations={ALLOCATION: good}) for i in range(5)))

    found = await examine(cluster)

    assert not troubles(found), found
    told = {finding.title: finding.found for finding in found}
    assert told["devices"] == "5 of 5 nodes have devices", "all pages are read"
    assert told["allocation annotations"].startswith("5 bound pods")
    assert told["leader of tangram-system/tangram"] == "tangram-b"


async def test_rights_of_the_account_are_asked_for_one_by_one() -> None:
    cluster = installed()
    cluster.denied = {("create", "pods/binding"), ("update", "leases")}

    (found,) = troubles(await examine(cluster))

    assert found.level is Level.ERROR
    assert found.title == "rights of tangram-system/tangram"
    assert "create pods/binding" in found.found
    assert "update leases.coordination.k8s.io tangram in tangram-system" in found.found
    assert {review["spec"]["user"] for review in cluster.reviews} == {"system:serviceaccount:tangram-system:tangram"}


async def test_who_may_not_ask_is_told_so() -> None:
    cluster = installed()
    cluster.refuse["POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"] = 403
    cluster.refuse["GET", "/api/v1/nodes"] = 403
    cluster.refuse["GET", "/api/v1/pods"] = 403

    found = [finding for finding in troubles(await examine(cluster)) if finding.title == "not looked at"]

    assert [finding.level for finding in found] == [Level.WARN] * 3


async def test_an_empty_cluster_says_what_to_apply() -> None:
    found = troubles(await examine(PaperCluster()))

    assert {(finding.title, finding.level) for finding in found} == {
        ("gate policy", Level.ERROR),
        ("devices policy", Level.ERROR),
        ("protection policy", Level.ERROR),
        ("scheduler configuration", Level.WARN),
        ("devices", Level.WARN),
        ("not looked at", Level.WARN),
    }
    assert all(finding.mend for finding in found)


async def test_without_an_installation_the_own_rights_are_asked_for() -> None:
    cluster = PaperCluster()
    cluster.denied = {("patch", "pods/status")}

    found = [finding for finding in await examine(cluster) if finding.title == "rights of these credentials"]

    assert [finding.level for finding in found] == [Level.ERROR]
    assert {review["kind"] for review in cluster.reviews} == {"SelfSubjectAccessReview"}


async def test_an_installation_is_judged_by_its_own_settings() -> None:
    cluster = installed()
    data = cluster.objects[CONFIG_MAP]["data"]
    data["tangram.yaml"] = data["tangram.yaml"].replace("mode: follow", "mode: off")

    (found,) = troubles(await examine(cluster))

    assert found.level is Level.ERROR
    assert "every one of them acts" in found.found

    data["tangram.yaml"] = "lease: {mode: sometimes}"
    assert any("cannot read them" in finding.found for finding in troubles(await examine(cluster)))


async def test_hidden_configuration_is_a_warning() -> None:
    cluster = installed()
    cluster.refuse["GET", CONFIG_MAP] = 403

    found = [finding for finding in troubles(await examine(cluster)) if finding.title.startswith("settings of")]

    assert [finding.level for finding in found] == [Level.WARN]


async def test_a_named_file_is_checked(tmp_path: Path) -> None:
    shipped_file = shipped.folder() / "base" / "config" / "scheduler.yaml"
    spoilt = tmp_path / "spoilt.yaml"
    spoilt.write_text(shipped_file.read_text("utf-8").replace("ignorable: false", "ignorable: true"))

    well = [found for found in await examine(installed(), spoilt) if str(spoilt) in found.title]
    assert worst(well) is Level.ERROR

    absent = [found for found in await examine(installed(), tmp_path / "absent") if "absent" in found.title]
    assert "cannot be read" in absent[0].found


async def test_a_cluster_of_advise_mode_alone_needs_no_policies() -> None:
    cluster = installed()
    folder = shipped.folder() / "advise" / "config"
    cluster.objects[CONFIG_MAP]["data"] = {
        name: (folder / name).read_text("utf-8") for name in ("scheduler.yaml", "tangram.yaml")
    }
    for path in [path for path in cluster.objects if "policies" in path or "policybindings" in path]:
        del cluster.objects[path]

    found = await examine(cluster)

    assert not [finding for finding in found if "policy" in finding.title]
    assert {review["spec"]["resourceAttributes"]["verb"] for review in cluster.reviews} == {
        "create",
        "get",
        "list",
        "update",
        "watch",
    }


async def test_annotations_that_cannot_be_read_are_found() -> None:
    cluster = installed()
    newer = pod("newer", nodeName="n1", annotations={ALLOCATION: '{"v":2,"node":"n1"}'})
    unbound = pod("unbound", annotations={ALLOCATION: "nonsense"})
    cluster.add_pods(newer, unbound)

    (found,) = troubles(await examine(cluster))

    assert "1 of 1 cannot be read, first: default/newer: version 2" in found.found


@pytest.mark.parametrize("field", ["status", "metadata"])
async def test_a_node_that_cannot_be_read_does_not_end_the_visit(field: str) -> None:
    cluster = installed()
    if field == "status":
        cluster.nodes[0]["status"]["allocatable"]["cpu"] = "many"
    else:
        cluster.nodes[0]["metadata"]["labels"] = "none"

    (found,) = troubles(await examine(cluster))

    assert found.title == "node"
    assert found.level is Level.ERROR


async def test_no_answer_is_one_finding() -> None:
    cluster = installed()
    cluster.unreachable = True

    (found,) = await examine(cluster)

    assert found.title == "API server"
    assert found.level is Level.ERROR
