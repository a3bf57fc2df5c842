"""The tables of the placement policy, made beside the planning loop, and what the ops API tells of them."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from extender_api.ops_routes import ops_app
from extender_api.plan_service import PlanHere
from scheduler.claim import DEFAULT_RULES
from scheduler.packing.named import policy_named
from scheduler.packing.rsv import Rsv
from tests.cluster.waiting import until
from tests.engine.world import node, pod, share
from tests.plan import documents
from tests.service.hands import Stage, running


@pytest.fixture
def stage() -> Stage:
    return Stage(policy=policy_named("rsv"))


async def test_tables_are_made_while_plans_go_on(stage: Stage) -> None:
    stage.create(share("half", "0.5"), pod("plain"))
    async with running(stage.service):
        await until(lambda: stage.engine.packing.epoch == 1)
        await until(lambda: len(stage.hands.released) == 2)
    assert stage.engine.cluster.state.policy.epoch == 1


async def test_tables_that_cannot_be_made_leave_the_old_ones(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Rsv, "build", fails)
    stage.create(share("half", "0.5"))
    with caplog.at_level(logging.ERROR):
        async with running(stage.service):
            await until(lambda: "the old ones stay" in caplog.text)
            await until(lambda: len(stage.hands.released) == 1)
            monkeypatch.undo()
            stage.service.on_node(None, node("n2"))  # tables are due again
            await until(lambda: stage.engine.packing.epoch == 1)


async def test_the_ops_api_tells_the_mix(stage: Stage) -> None:
    app = ops_app(PlanHere(documents.SETTINGS, DEFAULT_RULES), stage.service, limit_bytes=1 << 20)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tangram") as client:
        assert (await client.get("/api/v1/packing")).json() == {"epoch": 0, "mix": [], "hardware": []}
        stage.create(share("half", "0.5"))
        question = stage.engine.packing.question(stage.clock())
        assert question is not None
        stage.engine.packing.answered(question, question.answer())
        told = (await client.get("/api/v1/packing")).json()
    assert told["epoch"] == 1
    assert [one["pods"] for one in told["mix"] if one["milli"] == 500] == [1, 0]
    assert told["hardware"] == [
        {
            "product": "TEST",
            "cardMib": 40_000,
            "takesShares": True,
            "nodes": 1,
            "devices": 4,
            "cpuMilli": 64_000,
        }
    ]
