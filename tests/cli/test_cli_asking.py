"""`tangram nodes` and `tangram explain`, asked of a live ops listener directly and through an API server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from extender_api.cli import main, nodes
from tests.cli.conftest import OpsServer, web_server
from tests.cluster.conftest import write_kubeconfig
from tests.controlplane.loop_thread import LoopThread
from tests.controlplane.processes import free_port
from tests.engine.world import node, pod, share, virtual_node
from tests.service.hands import Stage


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output, standard error."""
    status = main(list(arguments))
    out, err = capsys.readouterr()
    return status, out, err


def busy(stage: Stage) -> None:
    """One node of each sort, with devices in every state."""
    stage.create(share("half", "0.5"), replace(share("mem", "0.5"), uid="uid-mem", annotations={"gpu-memory": "4000"}))
    stage.create(pod("whole", whole=1, node_name="n1"), pod("waits", whole=9))
    stage.engine.plan(stage.clock())
    stage.service.on_node(None, virtual_node("far", gpus=8))
    stage.service.on_node(None, node("plain", gpus=0, ready=False, unschedulable=True))


# -- nodes ---------------------------------------------------------------------------------------------------------


def test_nodes_for_people(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(busy)
    status, out, err = said(capsys, "nodes", "--server", ops.url)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "far  devices of unknown product  0 pods  (liqo)",
        "  ░░░░░░░░░░  0/8 nvidia.com/gpu",
        "n1  TEST  3 pods",
        "   0 ██████░░░░   50 %  24,000/40,000 MiB  default/half, default/mem",
        "   1 ░░░░░░░░░░    0 %  0/40,000 MiB",
        "   2 ░░░░░░░░░░    0 %  0/40,000 MiB",
        "   3 ██████████  whole  40,000/40,000 MiB  default/whole?",
        "plain  no devices  0 pods  (not ready, unschedulable)",
    ]


def test_some_nodes_and_nodes_that_are_not_there(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(busy)
    status, out, err = said(capsys, "nodes", "plain", "none", "--server", ops.url)
    assert (status, out.split()[0], err) == (1, "plain", "tangram nodes: no node none\n")
    status, out, _ = said(capsys, "nodes", "--devices", "-o", "json", "--server", ops.url)
    assert (status, [item["name"] for item in json.loads(out)]) == (0, ["far", "n1"])
    # a node without devices is there all the same
    status, out, err = said(capsys, "nodes", "plain", "--devices", "-o", "json", "--server", ops.url)
    assert (status, json.loads(out), err) == (0, [], "")


@pytest.mark.parametrize(
    ("used", "total", "full"),
    [(0, 8, 0), (1, 100, 1), (50, 100, 5), (99, 100, 9), (100, 100, 10), (120, 100, 10), (-1, 9, 0)],
)
def test_bars_never_hide_what_is_used_or_free(used: int, total: int, full: int) -> None:
    assert nodes.bar(used, total) == "█" * full + "░" * (10 - full)
    assert nodes.bar(used, 0) == "·" * 10


# -- explain -------------------------------------------------------------------------------------------------------


def test_a_pod_that_waits(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(busy)
    status, out, err = said(capsys, "explain", "default/waits", "--server", ops.url)
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "default/waits: waiting"
    assert lines[1].startswith("  reason   no node fits: ")
    assert lines[1].endswith("[INSUFFICIENT_WHOLE_GPUS]")
    assert lines[2] == "  queue    default"
    assert lines[3].startswith("  needs    ")
    assert "even if it were empty" in lines[3]
    assert lines[4].startswith("  position 1 of those that wait in its queue; waiting for ")
    assert lines[5].startswith("  start    ")
    assert lines[6] == "  1970-01-01 00:16:40.000Z waiting   seen"


def test_a_pod_that_is_bound(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    async def through(stage: Stage) -> None:
        facts = share("a", "0.25")
        stage.create(facts)
        stage.engine.plan(stage.clock())
        free = stage.released(facts)
        stage.service.filter(free, ["n1"], None)
        assert await stage.bind(free) == ""

    ops.on_loop(through)
    status, out, _ = said(capsys, "explain", "-n", "default", "a", "--server", ops.url)
    assert status == 0
    assert out.splitlines()[:3] == [
        "default/a: bound",
        "  node     n1",
        "  device   0: 25 % of compute, 10,000 MiB",
    ]
    status, out, _ = said(capsys, "explain", "a", "-o", "json", "--server", ops.url)
    assert (status, json.loads(out)["node"]) == (0, "n1")


def test_the_standby_says_that_it_is_one(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(lambda stage: stage.service.set_active(False))
    ops.on_loop(busy)
    assert "standby replica" in said(capsys, "explain", "waits", "--server", ops.url)[1]


def test_an_unknown_pod(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "explain", "a/b c?", "--server", ops.url)
    assert (status, out) == (1, "")
    assert err == "tangram explain: no pod a/b c? of ours is known\n"


# -- where to ask --------------------------------------------------------------------------------------------------


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    status, out, err = said(capsys, "nodes", "--server", server)
    assert (status, out) == (2, "")
    assert err.startswith(f"tangram nodes: no Tangram answers at {server}")
    assert "--kubeconfig" in err


@pytest.mark.parametrize("server", ["http://", "nonsense", "ftp://127.0.0.1"])
def test_an_address_that_is_none(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = said(capsys, "nodes", "--server", server)
    assert status == 2
    assert "Traceback" not in err


def test_something_else_answers(loop: LoopThread, capsys: pytest.CaptureFixture[str]) -> None:
    with web_server(loop, lambda request: web.Response(text="<html>")) as url:
        status, _, err = said(capsys, "nodes", "--server", url)
    assert status == 2
    assert "not JSON" in err


def proxied(answers: dict[str, tuple[int, Any]]) -> Any:
    """An API server that passes on to the ops Service of Tangram."""

    def handler(request: web.Request) -> web.StreamResponse:
        before = "/api/v1/namespaces/tangram-system/services/tangram:ops/proxy"
        assert request.headers["Authorization"] == "Bearer secret"
        status, document = answers.get(
            request.raw_path.removeprefix(before), (404, {"kind": "Status", "message": "no"})
        )
        return web.json_response(document, status=status)

    return handler


def test_through_the_api_server(
    loop: LoopThread, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "/api/v1/nodes": (200, []),
        "/api/v1/workloads/a/b%20c": (404, {"detail": "no pod a/b c of ours is known"}),
    }
    with web_server(loop, proxied(answers)) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", url, {"token": "secret"})
        assert said(capsys, "nodes", "-o", "json", "--kubeconfig", kubeconfig)[:2] == (0, "[]\n")
        monkeypatch.setenv("KUBECONFIG", kubeconfig)
        assert said(capsys, "nodes", "-o", "json")[:2] == (0, "[]\n")
        assert said(capsys, "explain", "a/b c") == (1, "", "tangram explain: no pod a/b c of ours is known\n")


STANDBY_POD: dict[str, Any] = {
    "namespace": "default", "name": "a", "stage": "waiting", "node": None, "devices": [], "reason": None,
    "queue": None, "ahead": None, "waitingMs": 0, "difference": None, "story": [],
}  # fmt: skip


class Replicas:
    """An API server before some replicas of Tangram; the Service leads to the first. None is one that is gone."""

    def __init__(self, *answers: tuple[int, Any] | None, listed: bool = True) -> None:
        self.answers = answers
        self.listed = listed
        self.asked: list[str] = []

    def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        before = "/api/v1/namespaces/tangram-system"
        if request.path == f"{before}/pods":
            assert request.query["labelSelector"] == "app.kubernetes.io/name=tangram"
            status, document = self.pods()
            return web.json_response(document, status=status)
        for number, answer in enumerate(self.answers):
            places = [f"{before}/pods/tangram-{number}:9889/proxy/", f"{before}/services/tangram:ops/proxy/"]
            if request.path.startswith(tuple(places[: 1 if number else 2])):
                status, document = answer or (503, {"kind": "Status", "message": "no route to host"})
                return web.json_response(document, status=status)
        raise AssertionError(request.path)

    def pods(self) -> tuple[int, Any]:
        if not self.listed:
            return 403, {"kind": "Status", "message": "pods is forbidden"}
        containers = [{"name": "kube-scheduler"}, {"ports": [{"name": "ops", "containerPort": 9889}]}]
        names = [f"tangram-{number}" for number in range(len(self.answers))]
        return 200, {"items": [{"metadata": {"name": name}, "spec": {"containers": containers}} for name in names]}


def explained(active: bool, stage: str) -> tuple[int, Any]:
    return 200, {**STANDBY_POD, "active": active, "stage": stage}


STANDBY, ACTIVE = explained(False, "waiting"), explained(True, "planned")
UNREADY = (503, {"detail": "Tangram is not ready: kernels are being compiled"})


@pytest.mark.parametrize(
    ("replicas", "stage", "asked"),
    [
        (Replicas(ACTIVE, STANDBY), "planned", 1),
        (Replicas(STANDBY, ACTIVE), "planned", 4),
        (Replicas(UNREADY, ACTIVE), "planned", 4),
        (Replicas(STANDBY, None, ACTIVE), "planned", 5),
        (Replicas(STANDBY, STANDBY), "waiting", 4),
        (Replicas(STANDBY, ACTIVE, listed=False), "waiting", 2),
    ],
)
def test_the_replica_that_acts_is_asked_where_the_first_is_a_standby(
    replicas: Replicas, stage: str, asked: int,
    loop: LoopThread, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with web_server(loop, replicas) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", url, {"token": "secret"})
        _, out, _ = said(capsys, "explain", "a", "--kubeconfig", kubeconfig)
    assert out.startswith(f"default/a: {stage}\n")
    assert ("standby replica" in out) == (stage == "waiting")
    assert len(replicas.asked) == asked


def test_nodes_come_from_the_replica_that_acts_too(
    ops: OpsServer, loop: LoopThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    standby = [{"name": "old", "active": False, "devices": [], "counted": {}}]
    replicas = Replicas((200, standby), (200, [{"name": "new", "active": True, "devices": [], "counted": {}}]))
    with web_server(loop, replicas) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", url, {"token": "secret"})
        _, out, err = said(capsys, "nodes", "-o", "json", "--kubeconfig", kubeconfig)
    assert ([node["name"] for node in json.loads(out)], err) == (["new"], "")
    ops.on_loop(lambda stage: stage.service.set_active(False))
    _, out, err = said(capsys, "nodes", "-o", "json", "--server", ops.url)
    assert [node["name"] for node in json.loads(out)] == ["n1"]
    assert err == "tangram nodes: answered by the standby replica, which knows no plans\n"


@pytest.mark.parametrize(("status", "hint"), [(404, "installed"), (503, "ready"), (403, "rights")])
def test_the_api_server_has_no_answer(
    status: int, hint: str, loop: LoopThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = {"kind": "Status", "message": "the API server says no", "code": status}
    with web_server(loop, proxied({"/api/v1/nodes": (status, refusal)})) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", url, {"token": "secret"})
        ended, out, err = said(capsys, "nodes", "--kubeconfig", kubeconfig)
    assert (ended, out) == (2, "")
    assert "the API server says no" in err
    assert hint in err


def test_an_api_server_that_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{free_port()}", {"token": "secret"})
    status, _, err = said(capsys, "nodes", "--kubeconfig", kubeconfig)
    assert status == 2
    assert "API server cannot be asked" in err
    status, _, err = said(capsys, "nodes", "--kubeconfig", str(tmp_path / "none"))
    assert status == 2
    assert "none" in err
