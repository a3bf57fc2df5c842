"""Gangs at bind in the running service: who waits, who goes first, and what each call of kube-scheduler is answered."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from extender_api.actuator import BindOutcome, BindResult
from scheduler.instruction import BindOrder, Evict
from scheduler.object_index import ObjectIndex
from scheduler.pod import PodFacts
from tests.engine.gang_world import KINDS, group, members
from tests.engine.world import node
from tests.service.hands import Hands, Stage, running, settle


class Results(Hands):
    """Binds of some pods end otherwise: their results by name, used once."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, BindResult | Exception] = {}

    async def bind(self, order: BindOrder) -> BindResult:
        before, self.result = self.result, self.of.pop(order.name, self.result)
        try:
            return await super().bind(order)
        finally:
            self.result = before


class GangStage(Stage):
    """A service that knows PodGroups, on one node with eight devices."""

    def __init__(self, **settings: Any) -> None:
        self.objects = ObjectIndex(KINDS)
        self.results = Results()
        super().__init__(hands=self.results, objects=self.objects, **settings)
        self.service.on_node(None, node("n1", gpus=8))

    async def gang(self, count: int, minimum: int | None = None) -> list[PodFacts]:
        """A gang that is planned and released."""
        facts = group("g", count if minimum is None else minimum)
        self.objects.add(facts)
        self.service.on_object(None, facts)
        pods = members("g", count)
        self.create(*pods)
        await settle()
        return [self.released(one) for one in pods]

    def call(self, facts: PodFacts) -> asyncio.Task[str]:
        """kube-scheduler's bind call."""
        return asyncio.create_task(self.bind(facts))

    @property
    def ordered(self) -> list[str]:
        return [order.name for order in self.hands.orders]


@pytest.fixture
def stage() -> GangStage:
    return GangStage()


async def test_the_first_goes_alone_and_the_others_after_it(stage: GangStage) -> None:
    async with running(stage.service):
        pods = await stage.gang(4)
        calls = [stage.call(one) for one in pods[:3]]
        await settle()
        assert stage.ordered == []
        stage.hands.may_end.clear()
        calls.append(stage.call(pods[3]))
        await settle()
        assert stage.ordered == ["g-3"]
        stage.hands.may_end.set()
        assert await asyncio.gather(*calls) == [""] * 4
    assert sorted(stage.ordered) == ["g-0", "g-1", "g-2", "g-3"]


async def test_more_than_forty_wait_at_once(stage: GangStage) -> None:
    """A handler that holds a thread for each of them would never let the last one in."""
    stage.service.on_node(None, node("n1", gpus=60))
    async with running(stage.service):
        pods = await stage.gang(60)
        assert await asyncio.gather(*(stage.call(one) for one in pods)) == [""] * 60


@pytest.mark.parametrize("outcome", [BindOutcome.GONE, BindOutcome.ELSEWHERE])
async def test_the_first_fails_for_certain(stage: GangStage, outcome: BindOutcome) -> None:
    async with running(stage.service):
        pods = await stage.gang(3)
        stage.results.of["g-2"] = BindResult(outcome)
        answers = await asyncio.gather(*(stage.call(one) for one in pods))
        assert all(answers)
        assert "planned anew" in answers[0]
        assert stage.ordered == ["g-2"]
        assert not [entry for entry in stage.engine.cluster.ledger.entries.values() if entry.bound]


@pytest.mark.parametrize("result", [BindResult(BindOutcome.RETRY, "away"), RuntimeError("broken")])
async def test_a_first_of_which_nobody_knows_goes_forward(stage: GangStage, result: BindResult | Exception) -> None:
    async with running(stage.service):
        pods = await stage.gang(3)
        stage.results.of["g-2"] = result
        answers = await asyncio.gather(*(stage.call(one) for one in pods))
        assert answers[:2] == ["", ""]
        assert answers[2]
        assert await stage.call(pods[2]) == "", "kube-scheduler's retry"


async def test_one_that_fails_after_the_first_is_tried_again(stage: GangStage) -> None:
    async with running(stage.service):
        pods = await stage.gang(3)
        stage.results.of["g-0"] = BindResult(BindOutcome.RETRY, "away")
        answers = await asyncio.gather(*(stage.call(one) for one in pods))
        assert [bool(answer) for answer in answers] == [True, False, False]
        assert await stage.call(pods[0]) == ""


async def test_time_out_binds_nobody() -> None:
    stage = GangStage(gang_bind_wait_ms=50)
    async with running(stage.service):
        pods = await stage.gang(3)
        answers = await asyncio.gather(*(stage.call(one) for one in pods[:2]))
        assert all("did not come together" in answer for answer in answers)
        assert stage.ordered == []
        assert not stage.engine.cluster.ledger.bookings
        stage.clock.now_ms += 400_000
        stage.service.wake()
        await settle()
        assert await asyncio.gather(*(stage.call(one) for one in pods)) == [""] * 3


async def test_a_member_is_deleted_while_others_wait(stage: GangStage) -> None:
    async with running(stage.service):
        pods = await stage.gang(3)
        calls = [stage.call(one) for one in pods[:2]]
        await settle()
        stage.service.on_pod(pods[2], None)
        answers = await asyncio.wait_for(asyncio.gather(*calls), 5)
        assert all("did not come together" in answer for answer in answers)


async def test_the_one_that_waits_is_deleted(stage: GangStage) -> None:
    async with running(stage.service):
        pods = await stage.gang(3)
        call = stage.call(pods[0])
        await settle()
        stage.service.on_pod(pods[0], replace(pods[0], deleted_ms=stage.clock.now_ms))
        assert "deleted" in await asyncio.wait_for(call, 5)


async def test_all_of_the_gang_are_deleted_at_once(stage: GangStage) -> None:
    async with running(stage.service):
        pods = await stage.gang(3)
        calls = [stage.call(one) for one in pods[:2]]
        await settle()
        for one in pods:
            stage.service.on_pod(one, None)
        assert all(await asyncio.wait_for(asyncio.gather(*calls), 5))


async def test_the_node_of_one_that_waits_goes(stage: GangStage) -> None:
    async with running(stage.service):
        pods = await stage.gang(3)
        calls = [stage.call(one) for one in pods[:2]]
        await settle()
        stage.service.on_node(node("n1", gpus=8), None)
        assert all(await asyncio.wait_for(asyncio.gather(*calls), 5))
    assert stage.ordered == []


async def test_another_replica_acts_while_they_wait(stage: GangStage) -> None:
    async with running(stage.service):
        pods = await stage.gang(3)
        calls = [stage.call(one) for one in pods[:2]]
        await settle()
        stage.service.set_active(False)
        assert all(await asyncio.wait_for(asyncio.gather(*calls), 5))
    assert stage.ordered == []


async def test_the_group_needs_fewer_than_wait(stage: GangStage) -> None:
    """They are planned anew at once, and go when kube-scheduler comes again."""
    async with running(stage.service):
        pods = await stage.gang(3)
        calls = [stage.call(one) for one in pods[:2]]
        await settle()
        old, new = group("g", 3), group("g", 2)
        stage.objects.add(new)
        stage.service.on_object(old, new)
        answers = await asyncio.wait_for(asyncio.gather(*calls), 5)
        await settle()
        again = await asyncio.gather(*(stage.call(one) for one in pods))
        assert all(not first or not second for first, second in zip(answers, again[:2], strict=True))


async def test_a_call_that_is_given_up_leaves_the_gang_as_it_is(stage: GangStage) -> None:
    """kube-scheduler's connection breaks while a member waits: its Binding follows with the others."""
    async with running(stage.service):
        pods = await stage.gang(3)
        calls = [stage.call(one) for one in pods[:2]]
        await settle()
        calls[0].cancel()
        await settle()
        assert await stage.call(pods[2]) == ""
        assert await calls[1] == ""
        await settle()
        assert sorted(stage.ordered) == ["g-0", "g-1", "g-2"]


async def test_what_is_left_for_too_long_is_evicted() -> None:
    stage = GangStage(stale_grace_ms=5000)
    async with running(stage.service):
        pods = await stage.gang(3)
        assert await asyncio.gather(*(stage.call(one) for one in pods)) == [""] * 3
        bound = [replace(one, node_name="n1") for one in pods]
        for before, after in zip(pods, bound, strict=True):
            stage.service.on_pod(before, after)
        await settle()
        stage.service.on_pod(bound[0], replace(bound[0], deleted_ms=stage.clock.now_ms))
        stage.service.on_pod(bound[0], None)
        await settle()
        stage.clock.now_ms += 6000
        stage.service.wake()
        await settle()
    assert [item.name for item in stage.hands.told if isinstance(item, Evict)] == ["g-1", "g-2"]
