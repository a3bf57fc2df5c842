"""The running service: rounds, roles, binds and the end, with an actuator that the test holds in its hands."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest

from extender_api import metrics, service, text
from extender_api.actuator import BindOutcome, BindResult
from extender_api.extender_routes import extender_app
from scheduler.instruction import Tell
from scheduler.record import Stage as PodStage
from tests.cluster.waiting import until
from tests.engine.world import pod, share
from tests.service.hands import BOUND, Stage, running, settle


def value(name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def stage() -> Stage:
    return Stage()


def rounds_of(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From now on the times at which a round is made."""
    rounds: list[int] = []
    plan = stage.engine.plan

    def noted(now_ms: int) -> Any:
        rounds.append(now_ms)
        return plan(now_ms)

    monkeypatch.setattr(stage.engine, "plan", noted)
    return rounds


# -- rounds --------------------------------------------------------------------------------------------------------


async def test_a_burst_of_news_is_one_round(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = rounds_of(stage, monkeypatch)
    monkeypatch.setattr(service, "COALESCE_S", 0.1)  # so that a slow machine too makes the burst within one pause
    async with running(stage.service):
        await settle(200)
        rounds.clear()
        for number in range(50):
            stage.create(share(f"p{number:02}", "0.1", created_ms=number))
            await asyncio.sleep(0)
        await settle(600)
    # 40 shares fit; 32 are placed in the first round, the others in one that follows at once
    assert len(stage.hands.released) == 40
    assert len(rounds) <= 4


async def test_a_round_comes_when_a_deadline_does() -> None:
    stage = Stage(tell_after_ms=100)
    async with running(stage.service):
        stage.create(pod("large", whole=8))
        await settle()
        assert stage.hands.told == []
        stage.clock.now_ms += 300
        await asyncio.sleep(0.35)
    assert [type(item) for item in stage.hands.told] == [Tell]


async def test_the_idle_loop_sleeps(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand pods wait; nothing happens for a while."""
    stage.create(*(pod(f"p{number:04}", whole=8, created_ms=number) for number in range(2000)))
    rounds = rounds_of(stage, monkeypatch)
    async with running(stage.service):
        await settle()
        rounds.clear()
        await asyncio.sleep(0.5)
    assert len(rounds) <= 3


async def test_a_round_that_fails_is_counted_survived_and_repeated(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan, calls = stage.engine.plan, 0

    def broken(now_ms: int) -> Any:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise RuntimeError("a fault")
        return plan(now_ms)

    monkeypatch.setattr(stage.engine, "plan", broken)
    before = value("tangram_planning_errors_total")
    async with running(stage.service):
        stage.create(pod("a", whole=1))
        await asyncio.sleep(0.1)
        assert calls == 1, "it does not run hot"
        await asyncio.sleep(0.9)
    assert value("tangram_planning_errors_total") == before + 2
    assert stage.hands.released == ["a"]
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["planning round failed"] * 2


async def test_nothing_is_planned_before_it_is_ready(stage: Stage) -> None:
    stage.not_ready = "kernels are being compiled"
    stage.create(pod("a", whole=1))
    async with running(stage.service):
        await settle()
        assert stage.hands.told == []
        stage.not_ready = None
        stage.service.wake()
        await settle()
    assert stage.hands.released == ["a"]


async def test_a_failed_release_is_planned_again_later(stage: Stage) -> None:
    async with running(stage.service):
        stage.create(pod("a", whole=1))
        await settle()
        stage.service.on_result("uid-a", False)
        await settle()
        assert stage.hands.released == ["a"]
        stage.clock.now_ms += 10_000
        stage.service.wake()
        await settle()
    assert stage.hands.released == ["a", "a"]


async def test_decisions_are_counted(stage: Stage) -> None:
    def planned() -> float:
        return value("tangram_decisions_total", outcome="planned", reason="")

    def waits() -> float:
        return value("tangram_decisions_total", outcome="waits", reason="INVALID_REQUEST")

    before = planned(), waits()
    async with running(stage.service):
        stage.create(pod("a", whole=1), pod("bad", whole=1, annotations={"gpu-fraction": "0.5"}))
        await settle()
    assert (planned(), waits()) == (before[0] + 1, before[1] + 1)
    free = stage.released(pod("a", whole=1))
    passed = value("tangram_decisions_total", outcome="passed", reason="")
    refused = value("tangram_decisions_total", outcome="refused", reason="INSUFFICIENT_WHOLE_GPUS")
    assert stage.service.filter(free, ["n1"], None).nodes == ["n1"]
    assert stage.service.filter(pod("large", whole=8, gated=False), ["n1"], None).refused
    assert value("tangram_decisions_total", outcome="passed", reason="") == passed + 1
    assert value("tangram_decisions_total", outcome="refused", reason="INSUFFICIENT_WHOLE_GPUS") == refused + 1


# -- roles ---------------------------------------------------------------------------------------------------------


async def test_a_standby_does_and_answers_nothing(stage: Stage) -> None:
    stage.service.set_active(False)
    assert "standby" in str(stage.service.ready())
    assert stage.service.unready() is None, "it could act at once"
    async with running(stage.service):
        stage.create(pod("a", whole=1), pod("bad", whole=1, annotations={"gpu-fraction": "0.5"}))
        await settle()
        assert stage.hands.told == []
        assert not stage.engine.cluster.ledger.entries
        assert not stage.engine.roster.outbox, "what it would have said does not pile up"


async def test_becoming_active_plans_at_once(stage: Stage) -> None:
    stage.service.set_active(False)
    async with running(stage.service):
        stage.create(pod("a", whole=1))
        await settle()
        stage.service.set_active(True)
        await settle()
    assert stage.hands.released == ["a"]


async def test_becoming_a_standby_gives_plans_back_and_forgets_orders(stage: Stage) -> None:
    async with running(stage.service):
        stage.create(pod("a", whole=1))
        await settle()
        assert len(stage.engine.cluster.ledger.bookings) == 1
        stage.service.set_active(False)
        await settle()
    assert not stage.engine.cluster.ledger.bookings
    assert stage.forgot == 1
    assert stage.hands.released == ["a"]


async def test_who_takes_over_reads_what_the_former_one_wrote_before_acting() -> None:
    read = asyncio.Event()
    stage = Stage(catch_up=read.wait)  # type: ignore[arg-type]
    stage.service.set_active(False)
    async with running(stage.service):
        stage.create(*(pod(f"p{number}", whole=1, created_ms=number) for number in range(4)))
        stage.service.set_active(True)
        await settle()
        assert stage.hands.told == []
        assert "reading" in str(stage.service.ready())
        # the former leader had bound one of them, with two devices more in use than we knew
        bound = pod("p0", whole=1, node_name="n1")
        stage.create(bound, pod("stranger", whole=2, node_name="n1", scheduler="other"))
        read.set()
        await settle()
    assert stage.service.ready() is None
    assert stage.hands.released == ["p1"]


async def test_who_loses_the_lease_while_reading_stays_a_standby() -> None:
    read = asyncio.Event()
    stage = Stage(catch_up=read.wait)  # type: ignore[arg-type]
    stage.service.set_active(False)
    async with running(stage.service):
        stage.create(pod("a", whole=1))
        stage.service.set_active(True)
        await settle()
        stage.service.set_active(False)
        read.set()
        await settle()
        assert stage.hands.told == []
        assert "standby" in str(stage.service.ready())
        stage.service.set_active(True)
        await settle()
    assert stage.hands.released == ["a"]


async def test_reading_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("extender_api.role.TRY_AGAIN_S", 0.01)
    calls = 0

    async def read() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("a fault")

    stage = Stage(catch_up=read)
    stage.service.set_active(False)
    stage.service.set_active(True)
    await until(lambda: stage.service.ready() is None)
    assert calls == 2
    assert "a fault" in caplog.text


async def test_taking_over_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("extender_api.role.TRY_AGAIN_S", 0.01)
    stage = Stage(catch_up=lambda: asyncio.sleep(0))
    take_over, calls = stage.engine.take_over, 0

    def choking(now_ms: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("a fault")
        take_over(now_ms)

    monkeypatch.setattr(stage.engine, "take_over", choking)
    stage.service.set_active(False)
    stage.service.set_active(True)
    await until(lambda: calls == 1)
    assert stage.service.ready() is not None
    await until(lambda: stage.service.ready() is None)
    assert calls == 2
    assert "a fault" in caplog.text


async def test_saying_the_same_role_again_changes_nothing(stage: Stage) -> None:
    async with running(stage.service):
        stage.create(pod("a", whole=1))
        await settle()
        stage.service.set_active(True)
        await settle()
    assert stage.forgot == 0
    assert stage.hands.released == ["a"]


# -- binds ---------------------------------------------------------------------------------------------------------


async def planned(stage: Stage, name: str = "a") -> Any:
    """A pod that was planned and released and has passed filter."""
    facts = pod(name, whole=1)
    stage.create(facts)
    stage.engine.plan(stage.clock())
    free = stage.released(facts)
    assert stage.service.filter(free, ["n1"], None).nodes == ["n1"]
    return free


async def test_a_bind_writes_node_and_devices_together(stage: Stage) -> None:
    facts = await planned(stage)
    assert await stage.bind(facts) == ""
    (order,) = stage.hands.orders
    assert order.node == "n1"
    assert "tangram.scheduler/allocation" in order.annotations
    assert stage.engine.cluster.ledger.entries["uid-a"].bound


async def test_a_bind_to_another_node_than_planned_is_refused_without_a_call(stage: Stage) -> None:
    facts = await planned(stage)
    assert "planned on n1" in await stage.bind(facts, "n2")
    assert stage.hands.orders == []


async def test_a_pod_that_nobody_knows_is_refused(stage: Stage) -> None:
    assert "not known" in await stage.bind(pod("ghost"))
    assert stage.hands.orders == []


async def test_pods_of_others_get_a_plain_binding(stage: Stage) -> None:
    seen, asked = pod("seen", scheduler="other"), pod("asked", whole=1, scheduler="other")
    stage.create(seen)
    assert not stage.service.is_ours(asked), "kube-scheduler asks about it before the watch shows it"
    for facts in (seen, asked):
        assert await stage.bind(facts) == ""
    assert [(order.name, dict(order.annotations)) for order in stage.hands.orders] == [("seen", {}), ("asked", {})]
    assert not stage.engine.cluster.ledger.entries


@pytest.mark.parametrize(
    ("outcome", "after", "holds"),
    [
        (BindOutcome.ALREADY_THERE, PodStage.BOUND, True),
        (BindOutcome.RETRY, PodStage.RELEASED, True),
        (BindOutcome.GONE, PodStage.HELD, False),
        (BindOutcome.ELSEWHERE, PodStage.HELD, False),
    ],
)
async def test_outcomes_of_binds(stage: Stage, outcome: BindOutcome, after: PodStage, holds: bool) -> None:
    facts = await planned(stage)
    stage.hands.result = BindResult(outcome, "what the API server said")
    before = value("tangram_binds_total", outcome=outcome.value)
    error = await stage.bind(facts)
    assert error == ("" if outcome is BindOutcome.ALREADY_THERE else "what the API server said")
    assert stage.engine.roster.records["uid-a"].stage is after
    assert ("uid-a" in stage.engine.cluster.ledger.entries) == holds
    assert value("tangram_binds_total", outcome=outcome.value) == before + 1


async def test_a_bind_that_fails_unexpectedly_keeps_the_place_and_leaves_nobody_hanging(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    facts = await planned(stage)
    stage.hands.result = RuntimeError("a fault")
    assert await stage.bind(facts) == text.INTERNAL
    assert "a fault" in caplog.text
    assert stage.engine.roster.records["uid-a"].stage is PodStage.RELEASED
    assert stage.engine.cluster.ledger.entries["uid-a"].deadline_ms is not None, "it ends by itself"
    stage.hands.result = BOUND
    assert await stage.bind(facts) == ""


async def test_a_caller_that_gives_up_does_not_hide_the_outcome(stage: Stage) -> None:
    facts = await planned(stage)
    stage.hands.may_end.clear()
    caller = asyncio.create_task(stage.bind(facts))
    await settle(3)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    assert caller.cancelled()
    stage.hands.may_end.set()
    await settle(3)
    assert stage.engine.cluster.ledger.entries["uid-a"].bound


async def test_a_bind_that_ends_makes_room_for_the_next_in_flight() -> None:
    stage = Stage(max_in_flight=1)
    async with running(stage.service):
        stage.create(pod("a", whole=1), pod("b", whole=1, created_ms=1))
        await settle()
        assert stage.hands.released == ["a"]
        free = stage.released(pod("a", whole=1))
        assert await stage.bind(free) == ""
        await settle()
    assert stage.hands.released == ["a", "b"]


# -- trouble in webhooks -------------------------------------------------------------------------------------------


async def test_a_fault_in_the_engine_is_an_error_for_kube_scheduler_and_not_a_crash(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(stage.engine, "filter", broken)
    monkeypatch.setattr(stage.engine.binding, "start", broken)
    document = {
        "Pod": {"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {"schedulerName": "tangram"}},
        "NodeNames": ["n1"],
    }
    binding = {"PodName": "a", "PodNamespace": "default", "PodUID": "u", "Node": "n1"}
    app = extender_app(stage.service)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tangram") as client:
        answers = [await client.post("/v1/filter", json=document), await client.post("/v1/bind", json=binding)]
    for answer in answers:
        assert answer.status_code == 200
        assert answer.json()["Error"] == text.INTERNAL


async def test_every_webhook_says_why_it_cannot_answer(stage: Stage) -> None:
    stage.service.set_active(False)
    document = {"Pod": {"metadata": {"name": "a", "uid": "u"}}, "NodeNames": ["n1"]}
    app = extender_app(stage.service)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tangram") as client:
        answer = await client.post("/v1/filter", json=document)
    assert "standby" in answer.json()["Error"]
    assert answer.json()["NodeNames"] is None


# -- the end -------------------------------------------------------------------------------------------------------


async def test_draining_waits_for_accepted_binds_and_takes_no_more_work(stage: Stage) -> None:
    facts = await planned(stage)
    stage.hands.may_end.clear()
    caller = asyncio.create_task(stage.bind(facts))
    await settle(3)
    draining = asyncio.create_task(stage.service.drain(10))
    await settle(3)
    assert not draining.done()
    assert stage.service.ready() == "Tangram is stopping"
    assert stage.service.unready() == "Tangram is stopping"
    async with running(stage.service):
        stage.create(pod("b", whole=1))
        await settle()
        assert stage.hands.released == [], "no plan after the stop"
    stage.hands.may_end.set()
    await draining
    assert await caller == ""


async def test_draining_does_not_wait_for_ever(stage: Stage) -> None:
    facts = await planned(stage)
    stage.hands.may_end.clear()
    caller = asyncio.create_task(stage.bind(facts))
    await settle(3)
    await stage.service.drain(0.05)
    assert not caller.done()
    stage.hands.may_end.set()
    assert await caller == ""
