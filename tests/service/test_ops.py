"""The ops listener: health, what the API shows of nodes and pods, and planning without touching live state."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import httpx
import pytest

from extender_api.ops_routes import NO_CLUSTER, ops_app
from extender_api.plan_service import NoPlan, PlanHere, PlanningBusy, PlanningEnded, PlanningTooLong
from scheduler.claim import DEFAULT_RULES
from scheduler.instruction import Release
from tests.engine.world import node, pod, share, virtual_node
from tests.plan import documents
from tests.service.hands import Stage


class NoPlans:
    """A planner that has no answer."""

    def __init__(self, why: NoPlan) -> None:
        self.why = why

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        raise self.why

    def close(self) -> None:
        pass


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tangram")


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
async def ops(stage: Stage) -> AsyncIterator[httpx.AsyncClient]:
    app = ops_app(PlanHere(documents.SETTINGS, DEFAULT_RULES), stage.service, limit_bytes=1 << 20)
    async with client_of(app) as client:
        yield client


@pytest.fixture
async def offline() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(ops_app(PlanHere(documents.SETTINGS, DEFAULT_RULES), None)) as client:
        yield client


# -- health --------------------------------------------------------------------------------------------------------


async def test_readiness_follows_the_service(stage: Stage, ops: httpx.AsyncClient) -> None:
    assert (await ops.get("/healthz")).text == "ok"
    assert (await ops.get("/readyz")).status_code == 200
    stage.not_ready = "caches are not in sync yet"
    answer = await ops.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "caches are not in sync yet")
    assert (await ops.get("/healthz")).status_code == 200, "it lives all the same"
    stage.not_ready = None
    stage.service.set_active(False)
    assert (await ops.get("/readyz")).status_code == 200, "a standby could act at once"
    await stage.service.drain(0)
    assert (await ops.get("/readyz")).status_code == 503


async def test_metrics(ops: httpx.AsyncClient) -> None:
    answer = await ops.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "tangram_pods_waiting" in answer.text


async def test_the_api_is_documented(ops: httpx.AsyncClient) -> None:
    paths = (await ops.get("/openapi.json")).json()["paths"]
    assert {"/api/v1/plan", "/api/v1/nodes", "/api/v1/status", "/api/v1/workloads/{namespace}/{name}"} <= set(paths)


# -- nodes ---------------------------------------------------------------------------------------------------------


async def test_nodes_with_their_devices_and_holders(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(
        share("half", "0.5"),
        pod("stranger", whole=1, scheduler="other", node_name="n1"),
    )
    stage.engine.plan(stage.clock())
    stage.service.on_node(None, virtual_node("far", gpus=8))
    stage.service.on_node(None, node("cpu-only", gpus=0))
    found = {item["name"]: item for item in (await ops.get("/api/v1/nodes")).json()}
    assert list(found) == ["cpu-only", "far", "n1"]
    first = found["n1"]["devices"][0]
    assert (first["index"], first["freeMilli"], first["freeMemoryMiB"]) == (0, 500, 20_000)
    assert first["holders"] == [
        {"pod": "default/half", "milli": 500, "memoryMiB": 20_000, "bound": False, "guessed": False}
    ]
    last = found["n1"]["devices"][3]
    assert last["holders"][0]["pod"] == "default/stranger"
    assert last["holders"][0]["guessed"], "nobody wrote down which device it has"
    assert found["n1"]["pods"] == 2
    assert found["n1"]["counted"]["nvidia.com/gpu"] == {"allocatable": 4, "free": 3}
    assert (found["far"]["virtual"], found["far"]["devices"]) == (True, [])
    assert found["cpu-only"]["product"] is None


async def test_a_long_list_of_nodes_comes_in_pieces_and_whole(stage: Stage, ops: httpx.AsyncClient) -> None:
    for number in range(100):
        stage.service.on_node(None, node(f"m{number:03}"))
    names = [item["name"] for item in (await ops.get("/api/v1/nodes")).json()]
    assert names == [*(f"m{number:03}" for number in range(100)), "n1"]


async def test_no_nodes(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.service.on_node(node("n1"), None)
    assert (await ops.get("/api/v1/nodes")).json() == []


# -- pods ----------------------------------------------------------------------------------------------------------


async def workload(ops: httpx.AsyncClient, name: str) -> Any:
    answer = await ops.get(f"/api/v1/workloads/default/{name}")
    assert answer.status_code == 200
    return answer.json()


async def test_the_story_of_a_pod_from_first_sight_to_its_node(stage: Stage, ops: httpx.AsyncClient) -> None:
    facts = share("a", "0.25")
    stage.create(facts)
    stage.engine.plan(stage.clock())
    free = stage.released(facts)
    stage.service.filter(free, ["n1"], None)
    await stage.bind(free)
    stage.service.on_pod(free, replace(free, node_name="n1", annotations=dict(stage.hands.orders[0].annotations)))
    found = await workload(ops, "a")
    assert (found["stage"], found["node"], found["reason"], found["active"]) == ("bound", "n1", None, True)
    assert found["devices"] == [{"index": 0, "memoryMiB": 10_000, "milli": 250}]
    assert found["request"] == {"cpuMilli": 1000, "memoryBytes": 1 << 30, "devices": 1, "shareMilli": 250}
    stages = [stage for stage, _ in groupby(step["stage"] for step in found["story"])]
    assert stages == ["waiting", "planned", "released", "binding", "bound"]


async def test_a_waiting_pod_says_why_and_who_is_before_it(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(pod("first", whole=8), pod("second", whole=9, created_ms=1))
    stage.engine.plan(stage.clock())
    stage.clock.now_ms += 5000
    found = await workload(ops, "second")
    assert (found["stage"], found["ahead"], found["node"], found["devices"]) == ("waiting", 1, None, [])
    assert found["reason"]["code"] == "INSUFFICIENT_WHOLE_GPUS"
    assert found["reason"]["details"]["nodes"] == {"INSUFFICIENT_WHOLE_GPUS": 1}


async def test_a_pod_whose_turn_has_not_come_has_no_reason(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(pod("a", whole=1))
    assert (await workload(ops, "a"))["reason"] is None


async def test_a_pod_whose_release_failed_says_that_it_backs_off(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(pod("a", whole=1))
    instructions, _ = stage.engine.plan(stage.clock())
    assert isinstance(instructions[0], Release)
    stage.engine.released("uid-a", False, 10**13)  # the API tells the time by the wall
    assert (await workload(ops, "a"))["reason"]["code"] == "BACKING_OFF"


async def test_a_contradiction_and_a_foreign_gate(stage: Stage, ops: httpx.AsyncClient) -> None:
    held = replace(pod("held"), gates=("example.com/hold",))
    stage.create(pod("bad", whole=1, annotations={"gpu-fraction": "0.5"}), held)
    assert (await workload(ops, "bad"))["reason"]["code"] == "INVALID_REQUEST"
    assert (await workload(ops, "held"))["reason"]["code"] == "HELD_BY_OTHER_GATE"


async def test_the_newest_pod_of_a_name_is_meant(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(pod("a"), replace(pod("a"), uid="uid-new"))
    assert (await workload(ops, "a"))["uid"] == "uid-new"


async def test_looking_changes_nothing(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(pod("a", whole=9))
    before = stage.engine.cluster.state.version
    await workload(ops, "a")
    assert stage.engine.roster.records["uid-a"].reason is None
    assert stage.engine.cluster.state.version == before


async def test_before_it_is_ready_no_pod_is_explained(
    stage: Stage, ops: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reason is looked for with kernels, which would be compiled on the loop."""
    stage.create(pod("a", whole=9))
    monkeypatch.setattr(stage.engine, "why", lambda *_: pytest.fail("it was looked for"))
    stage.not_ready = "kernels are being compiled"
    answer = await ops.get("/api/v1/workloads/default/a")
    assert (answer.status_code, answer.json()["detail"]) == (503, "Tangram is not ready: kernels are being compiled")


async def test_a_standby_says_so_in_every_answer(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(pod("a"))
    for active in (True, False):
        stage.service.set_active(active)
        nodes = (await ops.get("/api/v1/nodes")).json()
        found = [*nodes, await workload(ops, "a"), (await ops.get("/api/v1/status")).json()]
        assert [document["active"] for document in found] == [active] * 3


async def test_an_unknown_pod_is_404(ops: httpx.AsyncClient) -> None:
    answer = await ops.get("/api/v1/workloads/default/none")
    assert answer.status_code == 404
    assert "default/none" in answer.json()["detail"]


async def test_the_whole_in_numbers(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(pod("a", whole=1), pod("b", whole=9), pod("c", whole=1, node_name="n1"))
    stage.engine.plan(stage.clock())
    found = (await ops.get("/api/v1/status")).json()
    assert found["pods"] == {"planned": 1, "waiting": 1, "bound": 1}
    assert (found["nodes"], found["waiting"], found["inFlight"], found["entries"]) == (1, 1, 1, 2)
    assert (found["active"], found["unready"]) == (True, None)


# -- planning ------------------------------------------------------------------------------------------------------

DOCUMENT = {
    "objects": [documents.node("x1", 1), documents.pod("w1", gpus=1), documents.pod("w2", gpus=2)],
    "options": {"now": documents.NOW},
}


async def test_a_plan_never_touches_live_state(stage: Stage, ops: httpx.AsyncClient) -> None:
    stage.create(pod("a", whole=1))
    before = (stage.engine.cluster.state.version, dict(stage.engine.roster.records))
    answer = await ops.post("/api/v1/plan", json=DOCUMENT)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert documents.placed(answer.json()) == {"w1": ("x1", [(0, 40_000, 1000)], "now")}
    assert (stage.engine.cluster.state.version, dict(stage.engine.roster.records)) == before
    assert stage.engine.cluster.node("x1") is None


async def test_bad_input_is_400_with_warnings(ops: httpx.AsyncClient) -> None:
    answer = await ops.post("/api/v1/plan", json={"objects": ["x"], "options": {"now": "soon"}})
    assert answer.status_code == 400
    assert list(answer.json()) == ["warnings"]
    assert len(answer.json()["warnings"]) == 2
    assert (await ops.post("/api/v1/plan", content=b"")).status_code == 400


async def test_a_body_that_is_too_large_is_refused(ops: httpx.AsyncClient) -> None:
    answer = await ops.post("/api/v1/plan", content=json.dumps(DOCUMENT).encode() + b" " * (1 << 20))
    assert answer.status_code == 400
    assert answer.json() == {"warnings": ["the document has more than 1 MiB"]}


@pytest.mark.parametrize(
    ("why", "status"), [(PlanningEnded("said"), 503), (PlanningBusy("said"), 429), (PlanningTooLong("said"), 504)]
)
async def test_a_planner_without_an_answer_says_why(stage: Stage, why: NoPlan, status: int) -> None:
    async with client_of(ops_app(NoPlans(why), stage.service)) as client:
        answer = await client.post("/api/v1/plan", json=DOCUMENT)
    assert (answer.status_code, answer.json()) == (status, {"warnings": ["said"]})


async def test_offline_there_is_planning_and_no_cluster(offline: httpx.AsyncClient) -> None:
    assert (await offline.get("/readyz")).status_code == 200
    assert (await offline.post("/api/v1/plan", json=DOCUMENT)).status_code == 200
    for path in ("status", "nodes", "workloads/default/a"):
        answer = await offline.get(f"/api/v1/{path}")
        assert (answer.status_code, answer.json()["detail"]) == (409, NO_CLUSTER)
