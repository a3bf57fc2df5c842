"""`tangram doctor` and `tangram uninstall` on a cluster on paper."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from extender_api import uninstall as module
from extender_api.cli import main
from extender_api.cluster import paths
from extender_api.cluster.client import ClientSettings, ClusterClient
from tests.doctor.paper_cluster import PaperCluster, installed, pod, queue

OURS = {"name": "tangram.scheduler/queued"}


class Connections:
    """What clients were asked for."""

    def __init__(self, cluster: PaperCluster) -> None:
        self.cluster = cluster
        self.settings: list[ClientSettings] = []

    async def connect(self, settings: ClientSettings) -> Any:
        self.settings.append(settings)

        @asynccontextmanager
        async def client() -> Any:
            yield self.cluster

        return client()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    found = Connections(installed())
    monkeypatch.setattr(ClusterClient, "connect", found.connect)
    monkeypatch.setattr(module, "PASS_EVERY_S", 0.0)
    return found


def test_doctor_for_people_and_for_programs(connections: Connections, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", "-o", "json"])
    report = json.loads(capsys.readouterr().out)
    assert status == (1 if report["worst"] == "error" else 0)
    assert {finding["level"] for finding in report["findings"]} <= {"ok", "warn", "error"}
    assert main(["doctor"]) == status
    out = capsys.readouterr().out
    assert all(finding["title"] in out for finding in report["findings"])


def test_doctor_ends_with_1_when_something_does_not_work(
    connections: Connections, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bad = tmp_path / "scheduler.yaml"
    bad.write_text("kind: Nonsense\n")
    assert main(["doctor", "--scheduler-config", str(bad), "-o", "json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert any(finding["level"] == "error" and str(bad) in finding["title"] for finding in findings)


def test_which_cluster(connections: Connections, tmp_path: Path) -> None:
    main(["doctor", "--kubeconfig", str(tmp_path / "k"), "--context", "blue"])
    (asked,) = connections.settings
    assert (asked.kubeconfig, asked.context) == (str(tmp_path / "k"), "blue")


def test_uninstall_says_what_it_would_do(connections: Connections, capsys: pytest.CaptureFixture[str]) -> None:
    connections.cluster.add_pods(pod("waits", schedulingGates=[OURS]))
    assert main(["uninstall", "--dry-run"]) == 0
    assert "would remove the gate of 1 pods: default/waits" in capsys.readouterr().out
    assert connections.cluster.writes == []


def test_uninstall_for_programs(connections: Connections, capsys: pytest.CaptureFixture[str]) -> None:
    connections.cluster.add_pods(pod("waits", schedulingGates=[OURS]), pod("runs", nodeName="n1", phase="Running"))
    assert main(["uninstall", "-o", "json"]) == 0
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert (report["dryRun"], report["complete"], report["removed"]) == (False, True, False)
    assert (report["ungated"], report["stuck"], report["running"]) == (1, [], 1)
    assert report["waiting"] == ["default/waits"]
    assert "gates removed from 1 pods" in said.err


def test_queues_are_deleted_only_with_everything(connections: Connections, capsys: pytest.CaptureFixture[str]) -> None:
    connections.cluster.queues[paths.QUEUES] = [queue("team-a")]
    assert main(["uninstall", "--delete-queues"]) == 2
    assert "--delete-objects needs --everything" in capsys.readouterr().err
    assert connections.cluster.writes == []
    assert main(["uninstall", "--everything", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["removed"], report["queues"]) == (True, ["team-a"])
    assert main(["uninstall", "--everything", "--delete-queues", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["queues"] == []


def test_rights_that_are_missing_are_trouble(connections: Connections, capsys: pytest.CaptureFixture[str]) -> None:
    connections.cluster.denied.add(("patch", "pods"))
    assert main(["uninstall"]) == 2
    assert "tangram uninstall: nothing was done" in capsys.readouterr().err
    assert connections.cluster.writes == []


@pytest.mark.parametrize("name", ["doctor", "uninstall"])
def test_no_cluster_to_talk_to(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([name, "--kubeconfig", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"tangram {name}: ")
